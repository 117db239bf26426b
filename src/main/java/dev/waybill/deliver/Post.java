package dev.waybill.deliver;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import org.jspecify.annotations.Nullable;

/**
 * One POST over HTTP/1.1, on a connection of its own. By hand, since it must go to an address that
 * was checked, under the name of the target (SNI, certificate, Host): the JDK's client looks the
 * name up again by itself. It follows no redirect, and keeps nothing of the answer's body.
 */
final class Post {

  private static final int HEAD_BYTES_MAX = 32_768;
  private static final int BODY_BYTES_MAX = 65_536;
  private static final Duration BODY_LIMIT = Duration.ofSeconds(2);

  /** Closes the sockets of posts that take too long, whatever they wait for. */
  private static final ScheduledExecutorService DEADLINES =
      Executors.newSingleThreadScheduledExecutor(
          Thread.ofPlatform().daemon().name("push-deadlines").factory());

  /** What is known of an answer. */
  record Answer(int status, @Nullable String retryAfter, @Nullable String date) {}

  /** No address took a connection, or there was no TLS on it: nothing was sent. */
  static final class NoConnection extends IOException {
    private static final long serialVersionUID = 1L;

    NoConnection(String message) {
      super(message);
    }

    NoConnection(IOException cause) {
      this("no connection", cause);
    }

    NoConnection(String message, Exception cause) {
      super(message, cause);
    }
  }

  private final SSLSocketFactory tls;
  private final Duration connectLimit;
  private final Duration limit;

  Post(SSLSocketFactory tls, Duration connectLimit, Duration limit) {
    this.tls = tls;
    this.connectLimit = connectLimit;
    this.limit = limit;
  }

  /**
   * @param addresses checked ones; the first that answers is used
   * @param headers without line breaks in them
   */
  Answer send(Target target, List<InetAddress> addresses, Map<String, String> headers, byte[] body)
      throws IOException {
    var last = new NoConnection("it has no address");
    long end = System.nanoTime() + limit.toNanos();
    for (InetAddress address : addresses) {
      try (var socket = new Socket()) {
        try {
          socket.connect(
              new InetSocketAddress(address, target.port()), (int) connectLimit.toMillis());
        } catch (IOException failure) {
          // Nothing was sent: another address may do.
          last = new NoConnection(failure);
          continue;
        }
        return exchange(socket, target, headers, body, end - System.nanoTime());
      }
    }
    throw last;
  }

  private Answer exchange(
      Socket socket, Target target, Map<String, String> headers, byte[] body, long nanos)
      throws IOException {
    var late = new AtomicBoolean();
    ScheduledFuture<?> deadline =
        DEADLINES.schedule(
            () -> {
              late.set(true);
              close(socket);
            },
            Math.max(1, nanos),
            TimeUnit.NANOSECONDS);
    boolean begun = false;
    try {
      socket.setTcpNoDelay(true);
      // Not closed for itself: with the socket below it.
      Socket talk = target.tls() ? secured(socket, target) : socket;
      begun = true;
      OutputStream out = talk.getOutputStream();
      out.write(request(target, headers, body));
      out.flush();
      return answer(talk);
    } catch (IOException failure) {
      String within = " in " + limit.toMillis() + " ms";
      if (!begun) {
        // Whatever class it is of: a reset in the handshake is no SSLException.
        throw new NoConnection("no TLS connection" + (late.get() ? within : why(failure)), failure);
      }
      throw late.get() ? new IOException("no answer" + within, failure) : failure;
    } finally {
      boolean _ = deadline.cancel(false);
    }
  }

  private static String why(IOException failure) {
    return ": "
        + (failure.getCause() instanceof IllegalArgumentException
            ? "its name cannot be sent"
            : failure.getClass().getSimpleName());
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (IOException _) {
      // It is of no use any more in any case.
    }
  }

  private Socket secured(Socket socket, Target target) throws IOException {
    try {
      var secured = (SSLSocket) tls.createSocket(socket, target.host(), target.port(), true);
      SSLParameters parameters = secured.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
      if (!target.isAddress()) {
        parameters.setServerNames(List.of(new SNIHostName(target.host())));
      }
      secured.setSSLParameters(parameters);
      secured.startHandshake();
      return secured;
    } catch (IllegalArgumentException noName) {
      throw new IOException("its name cannot be sent", noName);
    }
  }

  private static byte[] request(Target target, Map<String, String> headers, byte[] body) {
    var head = new StringBuilder(512);
    head.append("POST ").append(target.path()).append(" HTTP/1.1\r\n");
    head.append("Host: ").append(target.hostHeader()).append("\r\n");
    head.append("Connection: close\r\nContent-Length: ").append(body.length).append("\r\n");
    headers.forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
    byte[] first = head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1);
    byte[] all = new byte[first.length + body.length];
    System.arraycopy(first, 0, all, 0, first.length);
    System.arraycopy(body, 0, all, first.length, body.length);
    return all;
  }

  private static Answer answer(Socket socket) throws IOException {
    var in = new BufferedInputStream(socket.getInputStream());
    int[] left = {HEAD_BYTES_MAX};
    while (true) {
      int status = status(line(in, left));
      var headers = new HashMap<String, String>();
      for (String line = line(in, left); !line.isEmpty(); line = line(in, left)) {
        int colon = line.indexOf(':');
        if (colon > 0) {
          headers.putIfAbsent(
              line.substring(0, colon).strip().toLowerCase(Locale.ROOT),
              line.substring(colon + 1).strip());
        }
      }
      // 100 and its like come before the answer proper.
      if (status >= 200) {
        drop(socket, in, headers.get("content-length"));
        return new Answer(status, headers.get("retry-after"), headers.get("date"));
      }
    }
  }

  private static int status(String line) throws IOException {
    if (!line.matches("HTTP/1\\.[01] [1-9][0-9]{2}( .*)?")) {
      throw new IOException("its answer is not HTTP/1.1");
    }
    return Integer.parseInt(line.substring(9, 12));
  }

  private static String line(InputStream in, int[] left) throws IOException {
    var line = new StringBuilder();
    for (int c = in.read(); c != '\n'; c = in.read()) {
      if (c < 0) {
        throw new EOFException("it closed the connection without an answer");
      }
      if (--left[0] <= 0) {
        throw new IOException("the head of its answer is too long");
      }
      if (c != '\r') {
        line.append((char) c);
      }
    }
    return line.toString();
  }

  /**
   * The status has decided. A little of the body is read all the same, since a server that is still
   * writing when its client goes may take that for a failure.
   */
  private static void drop(Socket socket, InputStream in, @Nullable String length) {
    try {
      long left = BODY_BYTES_MAX;
      if (length != null && length.matches("[0-9]{1,9}")) {
        left = Math.min(left, Long.parseLong(length));
      }
      long end = System.nanoTime() + BODY_LIMIT.toNanos();
      byte[] some = new byte[8_192];
      while (left > 0) {
        long millis = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
        if (millis <= 0) {
          return;
        }
        socket.setSoTimeout((int) millis);
        int read = in.read(some, 0, (int) Math.min(some.length, left));
        if (read < 0) {
          return;
        }
        left -= read;
      }
    } catch (IOException _) {
      // It was to be thrown away in any case.
    }
  }
}
