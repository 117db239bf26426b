package dev.waybill.blackbox;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;

/** Ports that nobody listens on, each given out once. */
final class Ports {

  /** Below those that the kernel gives to outgoing connections, which could take one in between. */
  private static final int FIRST = 20_000;

  private static final int LAST = 32_000;

  private static final Set<Integer> GIVEN = ConcurrentHashMap.newKeySet();

  private Ports() {}

  static int free() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(FIRST, LAST);
      if (GIVEN.add(port) && isFree(port)) {
        return port;
      }
    }
  }

  static boolean isFree(int port) {
    try (var _ = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
      return true;
    } catch (IOException _) {
      return false;
    }
  }
}
