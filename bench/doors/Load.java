import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.StringReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.postgresql.copy.CopyManager;
import org.postgresql.core.BaseConnection;

/**
 * One measured load: prints "count seconds p50ms p99ms". Blocking sockets and as many threads as
 * connections, so that the client costs as little as it can on the same machine.
 */
final class Load {
  static final String PAYLOAD =
      "{\"to\":\"someone.%d@example.com\",\"subject\":\"Your order has shipped\",\"template\":\"order-shipped\",\"locale\":\"en\","
          + "\"order\":%d,\"lines\":[{\"sku\":\"AB-1001\",\"qty\":2}],\"note\":\"leave at door\"}";

  interface Step {
    int run(int n) throws Exception;
  }

  interface Maker {
    Step make(int connection) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    String mode = args[0];
    int connections = Integer.parseInt(args[1]);
    double seconds = Double.parseDouble(args[2]);
    String jdbc = args[3];
    int port = Integer.parseInt(args[4]);
    int rows = args.length > 5 ? Integer.parseInt(args[5]) : 10_000;
    int limit = args.length > 6 ? Integer.parseInt(args[6]) : Integer.MAX_VALUE;
    Maker maker =
        switch (mode) {
          case "insert" -> c -> insert(jdbc, "INSERT INTO doors_bare (kind, payload) VALUES ('bench', ?::jsonb) RETURNING id");
          case "plain" -> c -> insert(jdbc, "INSERT INTO waybill.jobs (kind, payload) VALUES ('bench', ?::jsonb) RETURNING id");
          case "function" -> c -> insert(jdbc, "SELECT waybill.enqueue('bench', ?::jsonb)");
          case "post" -> c -> post(port, null);
          case "keyed" -> c -> post(port, "c" + c + "-" + System.nanoTime() + "-");
          case "copy" -> c -> copy(jdbc, rows);
          case "batch" -> c -> batch(port, rows, "application/x-ndjson");
          case "array" -> c -> batch(port, rows, "application/json");
          default -> throw new IllegalArgumentException(mode);
        };
    run(maker, connections, seconds, limit);
  }

  static void run(Maker maker, int connections, double seconds, int limit) throws Exception {
    var done = new AtomicLong();
    var steps = new AtomicLong();
    var begin = new CountDownLatch(1);
    var end = new long[1];
    List<long[]> took = java.util.Collections.synchronizedList(new ArrayList<>());
    var threads = new ArrayList<Thread>();
    var failed = new java.util.concurrent.atomic.AtomicReference<Throwable>();
    for (int i = 0; i < connections; i++) {
      Step step = maker.make(i);
      int number = i;
      threads.add(
          Thread.ofPlatform().start(() -> {
            long[] mine = new long[1 << 20];
            int n = 0;
            try {
              begin.await();
              while (System.nanoTime() < end[0] && steps.incrementAndGet() <= limit) {
                long at = System.nanoTime();
                done.addAndGet(step.run(number * 1_000_000 + n));
                mine[n++ & (mine.length - 1)] = System.nanoTime() - at;
              }
            } catch (Throwable failure) {
              failed.set(failure);
            }
            took.add(Arrays.copyOf(mine, Math.min(n, mine.length)));
          }));
    }
    long from = System.nanoTime();
    end[0] = from + (long) (seconds * 1e9);
    begin.countDown();
    for (Thread t : threads) {
      t.join();
    }
    double elapsed = (System.nanoTime() - from) / 1e9;
    if (failed.get() != null) {
      failed.get().printStackTrace();
      System.exit(1);
    }
    long[] all = took.stream().flatMapToLong(Arrays::stream).sorted().toArray();
    System.out.printf(
        "%d %.3f %.3f %.3f%n",
        done.get(), elapsed, all[all.length / 2] / 1e6, all[(int) (all.length * 0.99)] / 1e6);
  }

  static Step insert(String jdbc, String sql) throws Exception {
    Connection connection = DriverManager.getConnection(jdbc);
    var statement = connection.prepareStatement(sql);
    return n -> {
      statement.setString(1, PAYLOAD.formatted(n, n));
      try (var row = statement.executeQuery()) {
        row.next();
        row.getLong(1);
      }
      return 1;
    };
  }

  static Step copy(String jdbc, int rows) throws Exception {
    var copies = new CopyManager((BaseConnection) DriverManager.getConnection(jdbc));
    var text = new StringBuilder();
    for (int i = 0; i < rows; i++) {
      text.append("t").append(i % 10).append("\tbench\t").append(PAYLOAD.formatted(i, i)).append('\n');
    }
    String all = text.toString();
    return n -> (int) copies.copyIn("COPY doors_bare (tenant, kind, payload) FROM STDIN", new StringReader(all));
  }

  static Step post(int port, String key) throws Exception {
    var http = new Http(port);
    return n -> {
      byte[] body = ("{\"kind\":\"bench\",\"payload\":" + PAYLOAD.formatted(n, n) + "}").getBytes(StandardCharsets.UTF_8);
      http.post("/v1/jobs", "application/json", key == null ? "" : "Idempotency-Key: " + key + n + "\r\n", body);
      return 1;
    };
  }

  static Step batch(int port, int rows, String type) throws Exception {
    var http = new Http(port);
    boolean lines = type.contains("ndjson");
    var text = new StringBuilder(lines ? "" : "[");
    for (int i = 0; i < rows; i++) {
      text.append(!lines && i > 0 ? "," : "").append("{\"kind\":\"bench\",\"tenant\":\"t").append(i % 10)
          .append("\",\"payload\":").append(PAYLOAD.formatted(i, i)).append("}").append(lines ? "\n" : "");
    }
    byte[] body = text.append(lines ? "" : "]").toString().getBytes(StandardCharsets.UTF_8);
    return n -> {
      http.post("/v1/jobs/batch", type, "", body);
      return rows;
    };
  }

  /** HTTP/1.1 on one kept connection; answers must have a length. */
  static final class Http {
    final Socket socket;
    final InputStream in;
    final OutputStream out;
    final byte[] buffer = new byte[1 << 20];

    Http(int port) throws Exception {
      socket = new Socket("127.0.0.1", port);
      socket.setTcpNoDelay(true);
      in = socket.getInputStream();
      out = socket.getOutputStream();
    }

    void post(String path, String type, String more, byte[] body) throws Exception {
      var head = ("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type + "\r\n" + more + "Content-Length: " + body.length
          + "\r\n\r\n").getBytes(StandardCharsets.US_ASCII);
      var whole = new ByteArrayOutputStream(head.length + Math.min(body.length, 4096));
      if (body.length < 4096) {
        whole.write(head);
        whole.write(body);
        out.write(whole.toByteArray());
      } else {
        out.write(head);
        out.write(body);
      }
      int have = 0;
      int headEnd = -1;
      long length = -1;
      boolean chunked = false;
      while (headEnd < 0 || have < headEnd + 4 + length) {
        int read = in.read(buffer, have, buffer.length - have);
        if (read < 0) {
          throw new IllegalStateException("closed");
        }
        have += read;
        if (headEnd < 0) {
          String text = new String(buffer, 0, have, StandardCharsets.ISO_8859_1);
          headEnd = text.indexOf("\r\n\r\n");
          if (headEnd > 0) {
            if (!text.startsWith("HTTP/1.1 201")) {
              throw new IllegalStateException(text);
            }
            int at = text.toLowerCase().indexOf("content-length:");
            chunked = at < 0;
            length = chunked ? Long.MAX_VALUE / 2 : Long.parseLong(text.substring(at + 15, text.indexOf("\r\n", at)).strip());
          }
        }
        if (chunked && have >= 5 && new String(buffer, have - 5, 5, StandardCharsets.ISO_8859_1).equals("0\r\n\r\n")) {
          return;
        }
      }
    }
  }
}
