package dev.waybill.embedded;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jboss.logging.Logger;

/** The server's first process. It is our child, and does not outlive us. */
final class Postmaster {
  private static final Logger LOG = Logger.getLogger(Postmaster.class);

  /**
   * Becomes the server, and leaves a watch behind that reads from us: our death, however it comes,
   * ends its pipe, and the watch then asks the server for a fast shutdown. (PR_SET_PDEATHSIG would
   * hang on the life of one of our threads.) The watch is forked twice, because the server would
   * take the exit of a child that it does not know for a crash.
   */
  private static final String WATCHED =
      """
      exec 3<&0 </dev/null
      ( { read -r _ <&3 || { read -r pid <"$0" && [ "$pid" = $$ ] && kill -INT $$; }; } & )
      exec 3<&-
      exec "$@"
      """;

  /** An image without setsid gets a database that Ctrl-C ends at once, rather than none. */
  private static final String OWN_SESSION =
      """
      command -v setsid >/dev/null && exec setsid "$@"
      exec "$@"
      """;

  private static final Duration FAST = Duration.ofSeconds(20);
  private static final Duration IMMEDIATE = Duration.ofSeconds(10);

  /** Recovery after a crash replays two gigabytes at most. */
  private static final Duration RECOVERY = Duration.ofMinutes(5);

  private static final Duration STEP = Duration.ofMillis(10);

  private final Process process;
  private final OutputStream watch;

  private Postmaster(Process process) {
    this.process = process;
    this.watch = process.getOutputStream();
  }

  /**
   * Starts it; ready or dead is found out by {@link #awaitReady}. In a session of its own, because
   * Ctrl-C goes to all the processes of the terminal's foreground group, and the service still
   * needs its database then, to drain.
   */
  static Postmaster start(DataDirectory data, List<String> command) throws IOException {
    var words = new ArrayList<>(List.of("sh", "-c", OWN_SESSION, "sh"));
    words.addAll(List.of("sh", "-c", WATCHED, PidFile.of(data.cluster()).toString()));
    words.addAll(command);
    var builder = Command.builder(List.copyOf(words)).redirectErrorStream(true);
    return new Postmaster(builder.redirectOutput(data.startLog().toFile()).start());
  }

  /** Whether it is ready for connections; false when it ended instead. */
  boolean awaitReady(DataDirectory data) throws IOException, InterruptedException {
    long begin = System.nanoTime();
    while (!PidFile.read(data.cluster()).saysReady(process.pid())) {
      if (process.waitFor(STEP)) {
        return false;
      }
      if (System.nanoTime() - begin > RECOVERY.toNanos()) {
        stop();
        return false;
      }
    }
    return true;
  }

  /** Shuts it down, and comes back when it is down. */
  void stop() throws IOException, InterruptedException {
    if (process.isAlive()) {
      signal("INT", process.pid());
    }
    if (!process.waitFor(FAST)) {
      LOG.warn("the embedded database is slow to stop, so it stops at once and recovers later");
      signal("QUIT", process.pid());
      if (!process.waitFor(IMMEDIATE)) {
        process.destroyForcibly().waitFor();
      }
    }
    dismissWatch();
  }

  private void dismissWatch() {
    try (watch) {
      watch.write('\n');
    } catch (IOException _) {
      // It is gone already.
    }
  }

  /**
   * Ends a server that still serves the cluster though no process of ours holds the directory: its
   * watch is at it, or was killed, too. A pid file that names another program (process ids begin
   * again in each container) would keep the server from starting.
   */
  static void stopOrphan(Path cluster) throws IOException, InterruptedException, Refused {
    long pid = PidFile.read(cluster).pid();
    if (pid == 0) {
      return;
    }
    if (serves(pid, cluster)) {
      LOG.infof("stopping the database that an earlier start left behind pid=%d", pid);
      signal("INT", pid);
      if (!awaitGone(pid, cluster, FAST)) {
        signal("QUIT", pid);
        if (!awaitGone(pid, cluster, IMMEDIATE)) {
          throw new Refused(
              "the database of an earlier start still runs on "
                  + cluster
                  + " and does not stop: end process "
                  + pid
                  + " and start again");
        }
      }
    }
    // The server's own guard against a second one is the shared memory of the directory, besides.
    Files.deleteIfExists(PidFile.of(cluster));
  }

  /** A postmaster's working directory is its data directory. A zombie has none. */
  private static boolean serves(long pid, Path cluster) {
    try {
      Path workingDirectory = Files.readSymbolicLink(Path.of("/proc", Long.toString(pid), "cwd"));
      return workingDirectory.equals(cluster);
    } catch (IOException _) {
      // Gone, or of another user, who cannot serve what we own.
      return false;
    }
  }

  private static boolean awaitGone(long pid, Path cluster, Duration limit)
      throws InterruptedException {
    long begin = System.nanoTime();
    while (serves(pid, cluster)) {
      if (System.nanoTime() - begin > limit.toNanos()) {
        return false;
      }
      TimeUnit.NANOSECONDS.sleep(STEP.toNanos());
    }
    return true;
  }

  /**
   * By the shell's own kill: Java knows SIGTERM only, which waits for the clients, and images may
   * lack the program.
   */
  private static void signal(String name, long pid) throws IOException {
    Command.run(List.of("sh", "-c", "kill -\"$0\" \"$1\"", name, Long.toString(pid)));
  }
}
