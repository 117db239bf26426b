package dev.waybill.embedded;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jboss.logging.Logger;

/** Makes PostgreSQL's data directory, whole or not at all. */
record Cluster(Binaries binaries, Account account, DataDirectory data) {
  private static final Logger LOG = Logger.getLogger(Cluster.class);

  /** Owner of the database, and superuser. */
  static final String USER = "waybill";

  static final String DATABASE = "waybill";

  /**
   * Written into postgresql.conf once, where an operator may change them. Nothing is traded for
   * durability. The log's seven files overwrite themselves.
   */
  private static final List<String> SETTINGS =
      List.of(
          "shared_buffers=128MB",
          "max_wal_size=2GB",
          "min_wal_size=256MB",
          "checkpoint_timeout=15min",
          "autovacuum_naptime=10s",
          "random_page_cost=1.1",
          "synchronous_commit=on",
          "fsync=on",
          "idle_in_transaction_session_timeout=10min",
          "timezone=UTC",
          "log_timezone=UTC",
          "logging_collector=on",
          "log_directory=log",
          "log_filename=postgresql-%a.log",
          "log_rotation_age=1d",
          "log_rotation_size=0",
          "log_truncate_on_rotation=on",
          "log_line_prefix=%m [%p] %q%u@%d ");

  /**
   * The builtin provider and C: nothing depends on the machine's locales, so a text index stays
   * right when the operating system is upgraded below it.
   */
  private static final List<String> LOCALE =
      List.of(
          "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8");

  /** Finds binaries and an account that fit. */
  static Cluster reach(DataDirectory data) throws IOException, Refused {
    for (Path place : Binaries.caches(Account.isRoot())) {
      try {
        return reach(data, place);
      } catch (IOException | Refused e) {
        // Not writable for us, or out of reach for the account; the data directory is neither.
        LOG.debugf(e, "the binaries cannot be used from %s", place);
      }
    }
    return reach(data, data.path());
  }

  private static Cluster reach(DataDirectory data, Path place) throws IOException, Refused {
    var binaries = Binaries.in(place);
    return new Cluster(binaries, Account.find(binaries, data), data);
  }

  /**
   * Complete from the rename on; a start that dies before leaves nothing that the next one looks
   * at.
   */
  void make(Map<String, String> settings) throws IOException, Refused {
    Path unfinished = data.unfinished();
    Trees.delete(unfinished);
    data.password();
    Files.createDirectory(unfinished);
    handOver(unfinished);
    boolean durable = !"off".equals(settings.get("fsync"));
    init(unfinished, durable);
    single(unfinished, "CREATE DATABASE " + DATABASE + "\n");
    Files.move(unfinished, data.cluster(), StandardCopyOption.ATOMIC_MOVE);
    if (durable) {
      data.sync();
    }
  }

  /** A lost password file must not lock the jobs in. */
  void resetPassword() throws IOException, Refused {
    // Base64: nothing in it ends a literal.
    single(data.cluster(), "ALTER ROLE " + USER + " PASSWORD '" + data.password() + "'\n");
  }

  /** Makes the account the owner of the directory, and of the password that it reads. */
  void handOver(Path directory) throws IOException {
    if (Trees.owner(directory) != account.user()) {
      Trees.give(directory, account.user());
    }
    if (Trees.owner(data.passwordFile()) != account.user()) {
      Trees.give(data.passwordFile(), account.user());
    }
  }

  private void init(Path directory, boolean durable) throws IOException, Refused {
    var words = new ArrayList<>(account.command(binaries.program("initdb")));
    words.add("--pgdata=" + directory);
    words.add("--username=" + USER);
    words.add("--pwfile=" + data.passwordFile());
    words.add("--auth=scram-sha-256");
    // One flush of the whole file system: half a second where a thousand single ones take two.
    words.add(durable ? "--sync-method=syncfs" : "--no-sync");
    words.addAll(LOCALE);
    SETTINGS.forEach(setting -> words.add("--set=" + setting));
    check("cannot set up the database", Command.run(words));
  }

  /** Without a server, so that nobody else can be connected. */
  private void single(Path directory, String sql) throws IOException, Refused {
    var words =
        account.command(
            binaries.program("postgres"),
            "--single",
            "-D",
            directory.toString(),
            "-c",
            "exit_on_error=on",
            "-c",
            "logging_collector=off",
            "postgres");
    check("cannot set up the database", Command.run(words, sql));
  }

  private void check(String what, Command.Ended ended) throws Refused {
    if (!ended.well()) {
      throw Refused.of(data.path(), what, ended.printed());
    }
  }
}
