package dev.waybill.embedded;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * The directory that the user knows, held by this process until it closes. The cluster is one
 * directory in it, and not the directory itself, so that it can appear by one rename even where the
 * data directory is a mount point.
 */
final class DataDirectory implements AutoCloseable {
  /** It also marks the directory as ours. */
  private static final String LOCK = "waybill.lock";

  static final String PORT = "port";
  static final String PASSWORD = "password";

  /**
   * The directories that this JVM holds. A second channel to a lock file must not even be opened
   * here: by POSIX, closing it would drop the lock of the first.
   */
  private static final Set<Path> HELD = ConcurrentHashMap.newKeySet();

  private final Path path;
  private final FileChannel lock;

  private DataDirectory(Path path, FileChannel lock) {
    this.path = path;
    this.lock = lock;
  }

  /**
   * Takes the directory, which is made if need be. A directory that holds something else is left
   * untouched.
   */
  static DataDirectory hold(Path wanted) throws Refused {
    try {
      Path path = made(wanted);
      refuseForeign(path);
      if (!HELD.add(path)) {
        throw inUse(path, String.valueOf(ProcessHandle.current().pid()));
      }
      return locked(path);
    } catch (IOException e) {
      throw Refused.of(wanted.toAbsolutePath(), e);
    }
  }

  private static Path made(Path wanted) throws IOException, Refused {
    try {
      return Files.createDirectories(wanted).toRealPath();
    } catch (FileAlreadyExistsException e) {
      throw new Refused(
          "the data directory "
              + wanted.toAbsolutePath()
              + " is no directory: move that file away, or set WAYBILL_DATA to another one",
          e);
    }
  }

  private static DataDirectory locked(Path path) throws IOException, Refused {
    Path file = path.resolve(LOCK);
    FileChannel channel = null;
    boolean kept = false;
    try {
      channel =
          FileChannel.open(
              file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
      if (channel.tryLock() == null) {
        throw inUse(path, Files.readString(file).strip());
      }
      channel.truncate(0);
      channel.write(StandardCharsets.UTF_8.encode(ProcessHandle.current().pid() + "\n"));
      kept = true;
      return new DataDirectory(path, channel);
    } finally {
      if (!kept) {
        HELD.remove(path);
        if (channel != null) {
          channel.close();
        }
      }
    }
  }

  private static Refused inUse(Path path, String holder) {
    return new Refused(
        "the data directory "
            + path
            + " is in use by another Waybill"
            + (holder.isEmpty() ? "" : " (process " + holder + ")")
            + ": stop that one first, or set WAYBILL_DATA to another one");
  }

  /** Hidden files and a file system's own are nobody's data. */
  private static void refuseForeign(Path path) throws IOException, Refused {
    if (Files.exists(path.resolve(LOCK))) {
      return;
    }
    try (Stream<Path> entries = Files.list(path)) {
      boolean foreign =
          entries
              .map(entry -> String.valueOf(entry.getFileName()))
              .anyMatch(name -> !name.startsWith(".") && !name.equals("lost+found"));
      if (foreign) {
        throw new Refused(
            "the directory "
                + path
                + " holds files that are not Waybill's: move them away, or set WAYBILL_DATA to"
                + " another one");
      }
    }
  }

  Path path() {
    return path;
  }

  /** PostgreSQL's own data directory. */
  Path cluster() {
    return cluster(path);
  }

  static Path cluster(Path path) {
    return path.resolve("postgresql");
  }

  /** What a small file of ours says; empty when there is none. */
  static Optional<String> written(Path file) throws IOException {
    String text = Files.exists(file) ? Files.readString(file).strip() : "";
    return text.isEmpty() ? Optional.empty() : Optional.of(text);
  }

  /** Where the cluster is made. What an earlier start left there is worth nothing. */
  Path unfinished() {
    return path.resolve("postgresql.unfinished");
  }

  /** What the server prints before it has its log. */
  Path startLog() {
    return path.resolve("start.log");
  }

  Path passwordFile() {
    return path.resolve(PASSWORD);
  }

  boolean hasCluster() {
    return Files.exists(cluster());
  }

  /** Refuses what this build cannot serve. */
  void checkVersion() throws IOException, Refused {
    Path file = cluster().resolve("PG_VERSION");
    if (!Files.exists(file)) {
      throw new Refused(
          cluster()
              + " is no PostgreSQL data directory any more (no PG_VERSION): bring back a backup of "
              + path
              + ", or move it away to start empty");
    }
    String found = Files.readString(file).strip();
    if (!found.equals(Binaries.MAJOR)) {
      throw new Refused(
          "the data directory "
              + path
              + " was made by PostgreSQL "
              + found
              + " and this Waybill brings "
              + Binaries.MAJOR
              + ": start the Waybill that made it and take a pg_dump along, or set WAYBILL_DATA to"
              + " another one");
    }
  }

  /** A random one, made at the first call. */
  String password() throws IOException {
    Path file = passwordFile();
    if (!Files.exists(file) || Files.size(file) == 0) {
      byte[] random = new byte[18];
      new SecureRandom().nextBytes(random);
      var ownerOnly =
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
      Files.deleteIfExists(file);
      Files.createFile(file, ownerOnly);
      Files.writeString(file, Base64.getUrlEncoder().withoutPadding().encodeToString(random));
    }
    return Files.readString(file).strip();
  }

  /**
   * The port of the last start, so that a psql in the shell's history still finds it. Zero before
   * the first.
   */
  int lastPort() throws IOException {
    Path file = path.resolve(PORT);
    String written = Files.exists(file) ? Files.readString(file).strip() : "";
    return written.matches("\\d{1,5}") ? Integer.parseInt(written) : 0;
  }

  void rememberPort(int port) throws IOException {
    Files.writeString(path.resolve(PORT), port + "\n");
  }

  /** Makes a rename in the directory last. */
  void sync() throws IOException {
    try (var directory = FileChannel.open(path, StandardOpenOption.READ)) {
      directory.force(true);
    }
  }

  @Override
  public void close() throws IOException {
    // The next reader must not be told of a process that may be another one by then.
    lock.truncate(0);
    lock.close();
    HELD.remove(path);
  }
}
