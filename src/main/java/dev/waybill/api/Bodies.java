package dev.waybill.api;

import java.io.ByteArrayOutputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;

/** Bodies of requests, bounded while they are read: what a client announces is not what counts. */
final class Bodies {

  /** A payload of 256 KiB whose every character is escaped still fits. */
  static final int ONE_MAX = 2 << 20;

  private Bodies() {}

  /** All of a body that holds one thing. */
  static byte[] read(InputStream body) {
    var read = new ByteArrayOutputStream(1_024);
    try {
      new Bounded(body, ONE_MAX).transferTo(read);
    } catch (IOException _) {
      throw Problem.malformed("The body ended early.");
    }
    return read.toByteArray();
  }

  /** Ends the request when more comes than is allowed, in all or between two marks. */
  static final class Bounded extends FilterInputStream {

    private final long max;
    private long count;
    private long marked;

    Bounded(InputStream in, long max) {
      super(in);
      this.max = max;
    }

    /** One of several things was read. */
    void another() {
      marked = count;
    }

    @Override
    public int read() throws IOException {
      int read = super.read();
      counted(read < 0 ? -1 : 1);
      return read;
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
      int read = super.read(into, from, length);
      counted(read);
      return read;
    }

    private void counted(int read) {
      count += Math.max(0, read);
      if (count > max) {
        throw Problem.tooLarge("The body has more than " + max + " bytes.");
      }
      if (count - marked > ONE_MAX) {
        throw Problem.tooLarge("One of its parts has more than " + ONE_MAX + " bytes.");
      }
    }

    @Override
    public boolean markSupported() {
      return false;
    }
  }
}
