package dev.waybill.embedded;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;

/** Where the server listens. */
final class Ports {
  private Ports() {}

  /**
   * Below the range from which the kernel takes ports for outgoing connections, so that a chosen
   * one tends to stay free.
   */
  private static final int FIRST = 15432;

  private static final int LAST = 15631;

  /** The last one if it is free (zero: there was none), else one that is. */
  static int free(int last) throws IOException {
    if (last != 0 && isFree(last)) {
      return last;
    }
    for (int port = FIRST; port <= LAST; port++) {
      if (isFree(port)) {
        return port;
      }
    }
    try (var any = new ServerSocket(0, 1, loopback())) {
      return any.getLocalPort();
    }
  }

  private static boolean isFree(int port) {
    try (var socket = new ServerSocket()) {
      // As the server does: connections of its predecessor that still wait for their end do not
      // count.
      socket.setReuseAddress(true);
      socket.bind(new InetSocketAddress(loopback(), port));
      return true;
    } catch (IOException | IllegalArgumentException _) {
      return false;
    }
  }

  private static InetAddress loopback() throws IOException {
    return InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
  }
}
