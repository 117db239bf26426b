package dev.waybill.api;

import java.io.ByteArrayOutputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.TimeUnit;

/** Bodies of requests, bounded while they are read: what a client announces is not what counts. */
final class Bodies {

  /** A payload of 256 KiB whose every character is escaped still fits. */
  static final int ONE_MAX = 2 << 20;

  private Bodies() {}

  /** However slowly it comes; a batch is read inside of a transaction. */
  static final long READ_MILLIS_MAX = 30_000;

  private static final long READ_NANOS_MAX = TimeUnit.MILLISECONDS.toNanos(READ_MILLIS_MAX);

  static Problem.Thrown tooLarge(long max) {
    return Problem.tooLarge("The body has more than " + max + " bytes.");
  }

  static Problem.Thrown tooSlow() {
    return Problem.tooSlow("The body was not there within 30 seconds.");
  }

  /** All of a body that holds one thing. */
  static byte[] read(InputStream body) {
    return read(body, ONE_MAX);
  }

  /** All of a body. Not closed: closing it waits for the rest of what was refused. */
  static byte[] read(InputStream body, long max) {
    var read = new ByteArrayOutputStream(1_024);
    try {
      long _ = new Bounded(body, max, max).transferTo(read);
    } catch (IOException _) {
      throw Problem.malformed("The body ended early.");
    }
    return read.toByteArray();
  }

  /** Ends the request when more comes than is allowed, in all or between two marks. */
  static final class Bounded extends FilterInputStream {

    private final long max;
    private final long oneMax;
    private final long endNanos = System.nanoTime() + READ_NANOS_MAX;
    private long count;
    private long marked;

    Bounded(InputStream in, long max) {
      this(in, max, ONE_MAX);
    }

    private Bounded(InputStream in, long max, long oneMax) {
      super(in);
      this.max = max;
      this.oneMax = oneMax;
    }

    /** One of several things was read. */
    void another() {
      marked = count;
    }

    @Override
    public int read() throws IOException {
      int read = super.read();
      counted(read < 0 ? -1 : 1);
      return read;
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
      int read = super.read(into, from, length);
      counted(read);
      return read;
    }

    private void counted(int read) {
      count += Math.max(0, read);
      if (count > max) {
        throw tooLarge(max);
      }
      if (count - marked > oneMax) {
        throw Problem.tooLarge("One of its parts has more than " + oneMax + " bytes.");
      }
      if (System.nanoTime() - endNanos > 0) {
        throw tooSlow();
      }
    }

    @Override
    public boolean markSupported() {
      return false;
    }
  }
}
