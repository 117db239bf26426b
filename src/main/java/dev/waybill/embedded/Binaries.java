package dev.waybill.embedded;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.tukaani.xz.XZInputStream;

/** The server's programs, unpacked from the class path once per machine and version. */
record Binaries(Path home) {
  /**
   * Of the binaries that the pom names; a data directory of another major version cannot be served.
   */
  static final String MAJOR = "18";

  private static final String RESOURCE = "postgres-linux-x86_64.txz";
  private static final Path LOADER = Path.of("/lib64/ld-linux-x86-64.so.2");

  String program(String name) {
    return home.resolve("bin").resolve(name).toString();
  }

  /**
   * The binaries are for Linux on amd64 with glibc, so the check is for the loader that they name,
   * too.
   */
  static void checkPlatform() throws Refused {
    String os = System.getProperty("os.name", "");
    String arch = System.getProperty("os.arch", "");
    if (!os.equals("Linux") || !arch.equals("amd64") || !Files.exists(LOADER)) {
      throw new Refused(
          "the embedded PostgreSQL runs on Linux amd64 with glibc only, and this is "
              + (os.equals("Linux") && arch.equals("amd64") ? "without glibc" : os + " " + arch)
              + ": set WAYBILL_DB_URL to a PostgreSQL of version 15 or newer");
    }
  }

  /**
   * Where they may be kept for all data directories: in the user's cache, or, as nobody else may
   * look into the home of root, in the machine's.
   */
  static List<Path> caches(boolean root) {
    var places = new ArrayList<Path>();
    String xdg = System.getenv("XDG_CACHE_HOME");
    String home = System.getProperty("user.home", "");
    if (xdg != null && xdg.startsWith("/")) {
      places.add(Path.of(xdg, "waybill"));
    } else if (home.startsWith("/")) {
      places.add(Path.of(home, ".cache", "waybill"));
    }
    if (root) {
      places.add(Path.of("/var/cache/waybill"));
    }
    return List.copyOf(places);
  }

  /** Unpacks them below a directory, unless they are there. */
  static Binaries in(Path directory) throws IOException {
    Path home = directory.resolve("postgresql-" + hash());
    if (!Files.isDirectory(home)) {
      Files.createDirectories(directory);
      unpackOnce(home);
    }
    return new Binaries(home);
  }

  /**
   * The rename makes a complete directory appear at once, and the lock lets others wait instead of
   * unpacking, too. Synchronized because file locks are the JVM's as a whole.
   */
  private static synchronized void unpackOnce(Path home) throws IOException {
    Path lockFile = home.resolveSibling(home.getFileName() + ".lock");
    try (var channel =
            FileChannel.open(lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        FileLock _ = channel.lock()) {
      if (Files.isDirectory(home)) {
        return;
      }
      Path part = home.resolveSibling(home.getFileName() + ".part");
      Trees.delete(part);
      unpack(part);
      // Or else a power cut could leave a complete directory of empty files.
      Command.run(List.of("sync", "-f", part.toString()));
      Files.move(part, home, StandardCopyOption.ATOMIC_MOVE);
    }
  }

  private static void unpack(Path to) throws IOException {
    try (var resource = open();
        var tar = new TarArchiveInputStream(new XZInputStream(new BufferedInputStream(resource)))) {
      for (TarArchiveEntry entry = tar.getNextEntry(); entry != null; entry = tar.getNextEntry()) {
        Path path = to.resolve(entry.getName()).normalize();
        if (!path.startsWith(to)) {
          throw new IOException("an entry outside of the archive: " + entry.getName());
        }
        // Static libraries are for builds against PostgreSQL.
        if (!entry.getName().endsWith(".a")) {
          write(tar, entry, path);
        }
      }
    }
  }

  private static void write(TarArchiveInputStream tar, TarArchiveEntry entry, Path path)
      throws IOException {
    if (entry.isDirectory()) {
      Files.createDirectories(path);
      return;
    }
    // Archives need not name the directories on the way.
    Files.createDirectories(path.resolveSibling(""));
    if (entry.isSymbolicLink()) {
      Files.createSymbolicLink(path, Path.of(entry.getLinkName()));
    } else if (entry.isFile()) {
      Files.copy(tar, path);
      // Readable whatever the umask: the account that runs the server may be another one.
      boolean runs = (entry.getMode() & 0100) != 0;
      Files.setPosixFilePermissions(
          path, PosixFilePermissions.fromString(runs ? "rwxr-xr-x" : "rw-r--r--"));
    }
  }

  /** Of the archive itself: two builds of one version may differ. */
  private static String hash() throws IOException {
    try (InputStream resource = open()) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] buffer = new byte[1 << 16];
      for (int n = resource.read(buffer); n >= 0; n = resource.read(buffer)) {
        digest.update(buffer, 0, n);
      }
      return HexFormat.of().formatHex(digest.digest(), 0, 8);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  private static InputStream open() throws IOException {
    InputStream resource = Binaries.class.getResourceAsStream("/" + RESOURCE);
    if (resource == null) {
      throw new IOException(RESOURCE + " is not on the class path");
    }
    return resource;
  }
}
