package dev.waybill.db;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

class PromptSocketsTest {

  @Test
  void a_look_does_not_wait_and_any_other_read_does() throws Exception {
    try (var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket socket = new PromptSockets().createSocket();
        var threads = Executors.newVirtualThreadPerTaskExecutor()) {
      socket.connect(new InetSocketAddress(server.getInetAddress(), server.getLocalPort()), 5_000);
      Socket peer = server.accept();
      var in = socket.getInputStream();
      byte[] buffer = new byte[8];

      socket.setSoTimeout(1);
      assertEquals(
          "nothing there", assertThrows(SocketTimeoutException.class, in::read).getMessage());
      assertThrows(SocketTimeoutException.class, () -> in.read(buffer, 0, 8));
      peer.getOutputStream().write(new byte[] {'A', 'B'});
      while (in.available() < 2) {
        Thread.onSpinWait();
      }
      assertEquals('A', in.read());
      assertEquals(1, in.read(buffer, 0, 8));

      for (int millis : new int[] {0, 30_000}) {
        socket.setSoTimeout(millis);
        Future<Integer> read = threads.submit(() -> in.read());
        peer.getOutputStream().write('C');
        assertEquals('C', read.get());
      }
      peer.close();
      socket.setSoTimeout(30_000);
      assertEquals(-1, in.read());
    }
  }
}
