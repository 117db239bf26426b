package dev.waybill.blackbox;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Ports that nobody listens on, each given out once. */
final class Ports {

  private static final Set<Integer> GIVEN = ConcurrentHashMap.newKeySet();

  private Ports() {}

  static int free() {
    while (true) {
      try (var probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
        if (GIVEN.add(probe.getLocalPort())) {
          return probe.getLocalPort();
        }
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    }
  }
}
