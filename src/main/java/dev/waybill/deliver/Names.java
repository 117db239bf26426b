package dev.waybill.deliver;

import java.io.IOException;
import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Looks names up, on threads of its own: the JDK waits for the DNS in native code, which neither
 * heeds an interrupt nor lets go of the carrier of a virtual thread.
 */
final class Names {

  /** The addresses of a name. */
  interface Lookup {
    InetAddress[] of(String host) throws IOException;
  }

  /** It has no address, or none was told in time. */
  static final class Unknown extends IOException {
    private static final long serialVersionUID = 1L;

    Unknown(String message, Throwable cause) {
      super(message, cause);
    }
  }

  private static final int THREADS = 8;
  private static final int WAITING_MAX = 256;

  private final Lookup lookup;
  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(
          THREADS,
          THREADS,
          10,
          TimeUnit.SECONDS,
          new ArrayBlockingQueue<>(WAITING_MAX),
          Thread.ofPlatform().daemon().name("push-names-", 0).factory());

  Names(Lookup lookup) {
    this.lookup = lookup;
    threads.allowCoreThreadTimeOut(true);
  }

  /** Asked once for each post; whoever connects uses what was answered here. */
  List<InetAddress> of(String host, Duration limit) throws IOException, InterruptedException {
    try {
      Future<InetAddress[]> asked = threads.submit(() -> lookup.of(host));
      try {
        return List.of(asked.get(limit.toMillis(), TimeUnit.MILLISECONDS));
      } finally {
        boolean _ = asked.cancel(true);
      }
    } catch (TimeoutException | RejectedExecutionException late) {
      throw new Unknown("its name is not looked up in time", late);
    } catch (ExecutionException failure) {
      throw new Unknown("its name is not known", failure);
    }
  }
}
