package dev.waybill.embedded;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What is done to a directory and all below it. Never follows a symbolic link. */
final class Trees {
  private Trees() {}

  static void delete(Path top) throws IOException {
    if (Files.exists(top, LinkOption.NOFOLLOW_LINKS)) {
      Files.walkFileTree(top, new Each(Files::delete));
    }
  }

  static int owner(Path path) throws IOException {
    return (Integer) Files.getAttribute(path, "unix:uid");
  }

  /** Only root may. */
  static void give(Path top, int user) throws IOException {
    Files.walkFileTree(top, new Each(path -> own(path, user)));
  }

  private static void own(Path path, int user) throws IOException {
    for (String attribute : List.of("unix:gid", "unix:uid")) {
      Files.setAttribute(path, attribute, user, LinkOption.NOFOLLOW_LINKS);
    }
  }

  private interface Step {
    void on(Path path) throws IOException;
  }

  /** A directory comes after what is in it. */
  private static final class Each extends SimpleFileVisitor<Path> {
    private final Step step;

    Each(Step step) {
      this.step = step;
    }

    @Override
    public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
      step.on(file);
      return FileVisitResult.CONTINUE;
    }

    @Override
    public FileVisitResult postVisitDirectory(Path directory, @Nullable IOException failure)
        throws IOException {
      if (failure != null) {
        throw failure;
      }
      step.on(directory);
      return FileVisitResult.CONTINUE;
    }
  }
}
