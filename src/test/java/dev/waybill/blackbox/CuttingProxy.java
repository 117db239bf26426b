package dev.waybill.blackbox;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/**
 * Stands between service and PostgreSQL, understands enough of the protocol to see which statement
 * goes by, and cuts the connection at the worst moment.
 */
final class CuttingProxy implements AutoCloseable {

  /** The worst moments. */
  enum Moment {
    /** The statement never arrives: nothing was done, and the client cannot know. */
    BEFORE_IT_ARRIVES,
    /** It was carried out, and the answer is lost: done, and the client cannot know. */
    AFTER_IT_WAS_DONE
  }

  private record Plan(Predicate<String> statement, Moment moment, int every) {}

  private static final Plan NEVER = new Plan(_ -> false, Moment.BEFORE_IT_ARRIVES, 1);

  private final ServerSocket listener;
  private final int target;
  private final AtomicInteger seen = new AtomicInteger();
  private final AtomicInteger cuts = new AtomicInteger();
  private final Set<Link> links = ConcurrentHashMap.newKeySet();
  private volatile Plan plan = NEVER;
  private volatile boolean swallowing;

  CuttingProxy(int target) {
    this(target, 0);
  }

  CuttingProxy(int target, int port) {
    this.target = target;
    try {
      listener = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    Thread _ = Thread.ofVirtual().name("proxy").start(this::accept);
  }

  int port() {
    return listener.getLocalPort();
  }

  /** From now on every n-th of these statements ends its connection. */
  void cut(Predicate<String> statement, Moment moment, int every) {
    plan = new Plan(statement, moment, every);
  }

  void cutNoMore() {
    plan = NEVER;
  }

  /**
   * From now on nothing gets through, and nobody is told: connections neither break nor answer, new
   * ones are taken and hear nothing.
   */
  void swallow() {
    swallowing = true;
    links.forEach(Link::lose);
  }

  /** New connections get through again. What was lost stays lost: a firewall forgot it. */
  void swallowNoMore() {
    swallowing = false;
  }

  int cuts() {
    return cuts.get();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        if (swallowing) {
          Thread _ = Thread.ofVirtual().start(() -> readIntoNothing(client));
          continue;
        }
        var link = new Link(client);
        links.add(link);
        Thread _ = Thread.ofVirtual().start(link::forth);
      } catch (IOException _) {
        // Closed, or the client went away.
      }
    }
  }

  private static void readIntoNothing(Socket client) {
    try (client) {
      var _ = client.getInputStream().transferTo(OutputStream.nullOutputStream());
    } catch (IOException _) {
      // It gave up.
    }
  }

  @Override
  public void close() {
    try {
      listener.close();
    } catch (IOException _) {
      // It is gone.
    }
    links.forEach(Link::close);
  }

  /** One connection. */
  private final class Link {
    private final Socket client;
    private final Socket server;
    private final Map<String, String> statements = new HashMap<>();
    private volatile boolean answerIsLost;
    private volatile boolean lost;

    Link(Socket client) throws IOException {
      this.client = client;
      try {
        this.server = new Socket(InetAddress.getLoopbackAddress(), target);
      } catch (IOException failure) {
        client.close();
        throw failure;
      }
      client.setTcpNoDelay(true);
      server.setTcpNoDelay(true);
    }

    void lose() {
      lost = true;
    }

    void forth() {
      try {
        carry();
      } finally {
        if (!lost) {
          close();
        }
      }
    }

    /** From the client to the server: whole messages, gathered up to the one that asks for work. */
    private void carry() {
      try {
        Thread _ = Thread.ofVirtual().start(this::back);
        var in = new DataInputStream(new BufferedInputStream(client.getInputStream()));
        OutputStream out = server.getOutputStream();
        int length = in.readInt();
        out.write(ByteBuffer.allocate(4).putInt(length).array());
        out.write(in.readNBytes(length - 4));
        var group = new ByteArrayOutputStream();
        boolean marked = false;
        for (int type = in.read(); type >= 0; type = in.read()) {
          byte[] body = read(type, in, group);
          marked |= plan.statement().test(statementOf(type, ByteBuffer.wrap(body)));
          if ("PBDEC".indexOf(type) >= 0) {
            continue;
          }
          if (marked && isItsTurn()) {
            cuts.incrementAndGet();
            if (plan.moment() == Moment.BEFORE_IT_ARRIVES) {
              return;
            }
            answerIsLost = true;
          }
          if (lost) {
            readIntoNothing(client); // The server is not told that the client goes away.
            return;
          }
          group.writeTo(out);
          out.flush();
          group.reset();
          marked = false;
        }
      } catch (IOException _) {
        // One of the two went away; so does the other.
      }
    }

    private boolean isItsTurn() {
      return seen.incrementAndGet() % plan.every() == 0;
    }

    /** From the server to the client, message by message. */
    void back() {
      try {
        var in = new DataInputStream(new BufferedInputStream(server.getInputStream()));
        var out = new BufferedOutputStream(client.getOutputStream());
        for (int type = in.read(); type >= 0; type = in.read()) {
          var message = new ByteArrayOutputStream();
          byte[] _ = read(type, in, message);
          if (answerIsLost) {
            if (type == 'Z') {
              close(); // ReadyForQuery: the server has done it.
              return;
            }
            continue;
          }
          if (lost) {
            continue;
          }
          message.writeTo(out);
          if (in.available() == 0) {
            out.flush();
          }
        }
      } catch (IOException _) {
        // As above.
      } finally {
        if (!lost) {
          close();
        }
      }
    }

    /** Reads the rest of a message, adds the whole to {@code to}, answers its body. */
    private static byte[] read(int type, DataInputStream in, ByteArrayOutputStream to)
        throws IOException {
      int size = in.readInt();
      byte[] body = in.readNBytes(size - 4);
      to.write(type);
      to.write(ByteBuffer.allocate(4).putInt(size).array());
      to.write(body);
      return body;
    }

    /** The SQL that this message has carried out, or "" when it does something else. */
    private String statementOf(int type, ByteBuffer body) {
      return switch (type) {
        case 'P' -> {
          String name = word(body);
          statements.put(name, word(body));
          yield "";
        }
        case 'B' -> {
          String _ = word(body);
          yield statements.getOrDefault(word(body), "");
        }
        case 'Q' -> word(body);
        default -> "";
      };
    }

    private static String word(ByteBuffer body) {
      var word = new ByteArrayOutputStream();
      for (byte next = body.get(); next != 0; next = body.get()) {
        word.write(next);
      }
      return word.toString(StandardCharsets.UTF_8);
    }

    void close() {
      try (client;
          server) {
        links.remove(this);
      } catch (IOException _) {
        // Gone already.
      }
    }
  }
}
