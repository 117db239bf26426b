package dev.waybill.embedded;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jboss.logging.Logger;

/**
 * A PostgreSQL that runs for as long as this process, on 127.0.0.1 only, with its data in one
 * directory. Close it after the service has drained. When this process dies without that, the
 * server shuts down by itself, cleanly.
 */
public final class EmbeddedDatabase implements AutoCloseable {
  private static final Logger LOG = Logger.getLogger(EmbeddedDatabase.class);

  /** What keeps a server from starting may pass: see {@link #mayPass}. */
  private static final int TRIES = 10;

  private static final long PAUSE_MILLIS = 500;

  /** Keeps lock and pipe from the garbage collector while the caller keeps the URL only. */
  private static final Set<EmbeddedDatabase> OPEN = ConcurrentHashMap.newKeySet();

  private final DataDirectory data;
  private final Postmaster postmaster;
  private final int port;
  private final String password;

  private EmbeddedDatabase(DataDirectory data, Postmaster postmaster, int port, String password) {
    this.data = data;
    this.postmaster = postmaster;
    this.port = port;
    this.password = password;
  }

  /** Starts the database of a directory, which is made at the first start. */
  public static EmbeddedDatabase start(Path dataDirectory) throws Refused {
    return start(dataDirectory, Map.of());
  }

  /**
   * As {@link #start(Path)}, with settings that go before those in postgresql.conf for this run.
   *
   * @param settings such as {@code fsync=off} for a test whose data nobody needs
   */
  public static EmbeddedDatabase start(Path dataDirectory, Map<String, String> settings)
      throws Refused {
    Binaries.checkPlatform();
    DataDirectory data = DataDirectory.hold(dataDirectory);
    EmbeddedDatabase started = null;
    try {
      started = start(data, settings);
      OPEN.add(started);
      return started;
    } catch (IOException e) {
      throw Refused.of(data.path(), e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Refused("the start of the embedded database was interrupted", e);
    } finally {
      if (started == null) {
        release(data);
      }
    }
  }

  /**
   * The way into the database that another process runs in this directory at the moment: {@code
   * {url, user, password}}. Empty when none runs there; nothing is made.
   */
  public static Optional<List<String>> running(Path dataDirectory) throws Refused {
    try {
      Path cluster = DataDirectory.cluster(dataDirectory);
      Optional<String> port = DataDirectory.written(dataDirectory.resolve(DataDirectory.PORT));
      Optional<String> password =
          DataDirectory.written(dataDirectory.resolve(DataDirectory.PASSWORD));
      if (port.isEmpty() || password.isEmpty() || !PidFile.read(cluster).saysReady()) {
        return Optional.empty();
      }
      return Optional.of(
          List.of(urlAt(Integer.parseInt(port.get())), Cluster.USER, password.get()));
    } catch (IOException | NumberFormatException failure) {
      throw new Refused(
          "the data directory " + dataDirectory.toAbsolutePath() + " cannot be read", failure);
    }
  }

  private static EmbeddedDatabase start(DataDirectory data, Map<String, String> settings)
      throws IOException, InterruptedException, Refused {
    Cluster cluster = prepare(data, settings);
    String printed = "";
    for (int tried = 0; tried < TRIES; tried++) {
      int port = Ports.free(data.lastPort());
      var postmaster = Postmaster.start(data, command(cluster, port, settings));
      if (postmaster.awaitReady(data)) {
        data.rememberPort(port);
        LOG.debugf("embedded PostgreSQL is ready directory=%s port=%d", data.path(), port);
        return new EmbeddedDatabase(data, postmaster, port, data.password());
      }
      printed = ServerLog.ofLastStart(data);
      if (!mayPass(printed)) {
        break;
      }
      TimeUnit.MILLISECONDS.sleep(PAUSE_MILLIS);
    }
    throw Refused.of(data.path(), "PostgreSQL did not start", printed);
  }

  /**
   * Another program may take the port between our look and the server's start; and a killed server
   * leaves sessions that notice it only at the end of their statement, until which the data are
   * theirs.
   */
  private static boolean mayPass(String printed) {
    return printed.contains("could not bind")
        || printed.contains("pre-existing shared memory block");
  }

  private static Cluster prepare(DataDirectory data, Map<String, String> settings)
      throws IOException, InterruptedException, Refused {
    if (data.hasCluster()) {
      Account.checkOwner(data);
      data.checkVersion();
      Postmaster.stopOrphan(data.cluster());
    }
    Cluster cluster = Cluster.reach(data);
    if (!data.hasCluster()) {
      cluster.make(settings);
    } else if (!Files.exists(data.passwordFile())) {
      cluster.resetPassword();
    }
    cluster.handOver(data.cluster());
    return cluster;
  }

  private static List<String> command(Cluster cluster, int port, Map<String, String> settings) {
    var words = new ArrayList<>(cluster.account().command(cluster.binaries().program("postgres")));
    words.addAll(List.of("-D", cluster.data().cluster().toString()));
    settings.forEach((name, value) -> words.addAll(List.of("-c", name + "=" + value)));
    words.addAll(List.of("-c", "listen_addresses=127.0.0.1", "-c", "port=" + port));
    words.addAll(List.of("-c", "unix_socket_directories="));
    return List.copyOf(words);
  }

  /** Without user and password. */
  public String jdbcUrl() {
    return urlAt(port);
  }

  private static String urlAt(int port) {
    return "jdbc:postgresql://127.0.0.1:" + port + "/" + Cluster.DATABASE;
  }

  public String user() {
    return Cluster.USER;
  }

  public String password() {
    return password;
  }

  /** For a shell, which reads the password from its file: the line goes to a log. */
  public String psqlCommand() {
    return "psql \"postgresql://"
        + Cluster.USER
        + ":$(cat '"
        + data.passwordFile()
        + "')@127.0.0.1:"
        + port
        + "/"
        + Cluster.DATABASE
        + "\"";
  }

  /** Shuts the server down, within half a minute at most, and lets go of the directory. */
  @Override
  public void close() {
    if (!OPEN.remove(this)) {
      return;
    }
    try {
      postmaster.stop();
    } catch (IOException e) {
      // The end of this process stops it.
      LOG.warnf("the embedded database could not be stopped: %s", e.getMessage());
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    } finally {
      release(data);
    }
  }

  private static void release(DataDirectory data) {
    try {
      data.close();
    } catch (IOException e) {
      LOG.debugf(e, "the lock of %s goes with the process", data.path());
    }
  }
}
