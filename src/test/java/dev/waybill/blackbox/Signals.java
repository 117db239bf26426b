package dev.waybill.blackbox;

import java.io.IOException;

/** Signals that {@link Process} has no method for. */
final class Signals {

  private Signals() {}

  static void send(String signal, long pid) throws IOException {
    try {
      int code =
          new ProcessBuilder("sh", "-c", "kill -" + signal + " " + pid)
              .inheritIO()
              .start()
              .waitFor();
      if (code != 0) {
        throw new IOException("kill -" + signal + " " + pid + " ended with " + code);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }
}
