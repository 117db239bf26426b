package dev.waybill.retain;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;

/** A directory: written beside, synced, renamed, and the rename synced too. */
final class DirectoryShelf implements Shelf {

  private static final String UNFINISHED = ".part-";

  private final Path root;

  DirectoryShelf(Path root) {
    this.root = root;
  }

  @Override
  public String locationOf(String name) {
    return root.resolve(name).toUri().toString();
  }

  @Override
  public Parcel begin(String name) throws IOException {
    Path target = root.resolve(name);
    Path directory = target.toAbsolutePath().getParent();
    if (directory == null) {
      throw new IOException("no directory: " + target);
    }
    Files.createDirectories(directory);
    takeAwayUnfinished(directory, String.valueOf(target.getFileName()));
    Path part = directory.resolve(target.getFileName() + UNFINISHED + UUID.randomUUID());
    return new Part(
        FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
        part,
        target,
        directory);
  }

  /**
   * What a killed process left. Should one still be written by another process, its rename fails
   * and it begins again.
   */
  private static void takeAwayUnfinished(Path directory, String name) throws IOException {
    try (DirectoryStream<Path> left =
        Files.newDirectoryStream(directory, name + UNFINISHED + "*")) {
      for (Path part : left) {
        boolean _ = Files.deleteIfExists(part);
      }
    }
  }

  private static void sync(Path directory) throws IOException {
    try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private static final class Part extends Parcel {

    private final FileChannel channel;
    private final Path part;
    private final Path target;
    private final Path directory;

    Part(FileChannel channel, Path part, Path target, Path directory) {
      this.channel = channel;
      this.part = part;
      this.target = target;
      this.directory = directory;
    }

    @Override
    public void write(int value) throws IOException {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      ByteBuffer rest = ByteBuffer.wrap(bytes, offset, length);
      while (rest.hasRemaining()) {
        int _ = channel.write(rest);
      }
    }

    @Override
    void complete() throws IOException {
      channel.force(true);
      channel.close();
      Path _ = Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
      sync(directory);
      Path above = directory.getParent();
      if (above != null) {
        sync(above); // The directory of the kind may be new.
      }
    }

    @Override
    public void close() throws IOException {
      channel.close();
      boolean _ = Files.deleteIfExists(part);
    }
  }
}
