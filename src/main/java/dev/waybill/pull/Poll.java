package dev.waybill.pull;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** One worker's question, until it is answered: with jobs, or with none when its time is over. */
public final class Poll {

  /** The database did not answer for that long: nobody can say that there is nothing. */
  public static final class NotLooked extends Exception {
    private static final long serialVersionUID = 1L;

    NotLooked() {
      super("the database was not asked in time");
    }
  }

  /** How long a poll that does not want to wait waits for the look that answers it. */
  private static final long LOOK_NANOS_MAX = TimeUnit.SECONDS.toNanos(5);

  private final Ask ask;
  private final long endNanos;
  private final Consumer<Poll> over;
  private final Consumer<List<Leased>> back;
  private final CompletableFuture<List<Leased>> answer = new CompletableFuture<>();
  private volatile boolean looked;

  Poll(Ask ask, long waitNanos, Consumer<Poll> over, Consumer<List<Leased>> back) {
    this.ask = ask;
    this.endNanos = System.nanoTime() + waitNanos;
    this.over = over;
    this.back = back;
  }

  Ask ask() {
    return ask;
  }

  boolean isOpen() {
    return !answer.isDone();
  }

  /** There was nothing for it in a look that began after it came. */
  void looked() {
    looked = true;
  }

  /** False when it does not wait any more: then the jobs are still the giver's. */
  boolean give(List<Leased> jobs) {
    return answer.complete(jobs);
  }

  /**
   * Waits for jobs. To be called once, on a virtual thread: nothing else is held meanwhile. Either
   * it takes jobs that were given, or nothing is given after it ended.
   */
  public List<Leased> await() throws InterruptedException, NotLooked {
    try {
      return get(endNanos - System.nanoTime());
    } catch (TimeoutException _) {
      if (!looked) {
        return awaitLook();
      }
      boolean _ = answer.complete(List.of());
      return answer.join();
    } catch (InterruptedException stopped) {
      hangUp();
      throw stopped;
    } finally {
      over.accept(this);
    }
  }

  private List<Leased> awaitLook() throws InterruptedException, NotLooked {
    long limitNanos = System.nanoTime() + LOOK_NANOS_MAX;
    while (!looked && System.nanoTime() - limitNanos < 0) {
      try {
        return get(TimeUnit.MILLISECONDS.toNanos(5));
      } catch (TimeoutException _) {
        // Looked at meanwhile, perhaps.
      }
    }
    boolean nothing = answer.complete(List.of());
    if (nothing && !looked) {
      throw new NotLooked();
    }
    return answer.join();
  }

  private List<Leased> get(long nanos) throws InterruptedException, TimeoutException {
    try {
      return answer.get(Math.max(0, nanos), TimeUnit.NANOSECONDS);
    } catch (ExecutionException never) {
      throw new IllegalStateException(never);
    }
  }

  /** The worker hung up before it was answered: what was claimed for it goes back. */
  public void hangUp() {
    if (!answer.complete(List.of())) {
      back.accept(answer.join());
    }
  }
}
