package dev.waybill.db;

import io.quarkus.runtime.annotations.RegisterForReflection;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import javax.net.SocketFactory;

/**
 * After each notification the driver looks whether more is on its way, with a read that may take a
 * millisecond, and mostly does: the largest part of a wake-up. Here such a look ends at once when
 * nothing has come.
 */
// The driver makes one by its name.
@RegisterForReflection
public final class PromptSockets extends SocketFactory {

  /** What the driver sets for that look; what is set here and by users is more. */
  private static final int LOOK_MILLIS = 1;

  /** The driver connects it itself, with its timeout. */
  @Override
  public Socket createSocket() {
    return new Prompt();
  }

  @Override
  public Socket createSocket(String host, int port) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress from, int fromPort) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Socket createSocket(InetAddress host, int port) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort) {
    throw new UnsupportedOperationException();
  }

  private static final class Prompt extends Socket {

    private volatile boolean looking;

    @Override
    public void setSoTimeout(int millis) throws SocketException {
      looking = millis == LOOK_MILLIS;
      super.setSoTimeout(millis);
    }

    @Override
    public InputStream getInputStream() throws IOException {
      return new FilterInputStream(super.getInputStream()) {
        @Override
        public int read() throws IOException {
          look();
          return in.read();
        }

        @Override
        public int read(byte[] into, int from, int most) throws IOException {
          look();
          return in.read(into, from, most);
        }

        private void look() throws IOException {
          if (looking && in.available() == 0) {
            throw new SocketTimeoutException("nothing there");
          }
        }
      };
    }
  }
}
