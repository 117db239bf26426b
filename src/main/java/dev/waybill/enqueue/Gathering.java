package dev.waybill.enqueue;

import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Writes jobs that come at the same time with one statement and one commit; each gets the answer
 * that it would get alone, and no thread waits for it. Nobody waits for company: who comes while
 * nobody writes is written at once, and who comes later is written when the writer is back,
 * together with all who wait by then. One writer at a time is what costs the database least; but
 * where a commit takes long, or a lock holds the writer up, another writes beside it as soon as
 * somebody has waited for {@value #SOON_MILLIS} ms, up to {@value #WRITERS_MAX} at once.
 *
 * <p>Writers are threads of the platform, which wait for a socket at less cost than virtual ones.
 * They are there while there is something to write, and for a little while after.
 */
@Singleton
public final class Gathering {

  private static final int WRITERS_MAX = 4;
  private static final long SOON_MILLIS = 2;
  private static final long SOON_NANOS = TimeUnit.MILLISECONDS.toNanos(SOON_MILLIS);
  private static final int BATCH_MAX = 100;
  private static final int BATCH_CHARS = 1 << 20;
  private static final int WAITING_MAX = 1_000;
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** So long everybody goes alone after a batch that held a job of a limited tenant. */
  private static final Duration APART = Duration.ofSeconds(1);

  /** A thread that has nothing to do ends after so long. */
  private static final Duration IDLE = Duration.ofSeconds(10);

  /** So many looks in a row that find nobody end the watch: to begin it anew costs more. */
  private static final int LOOKS_IN_VAIN = 250;

  private final Database database;
  private final Queue queue;
  private final int waitingMax;
  private final long patienceNanos;
  private final Executor threads = threads();

  /** In the order they came; guarded by {@code this}, as the next two are. */
  private final ArrayDeque<Entry> waiting;

  private int writers;
  private boolean watched;
  private volatile long apartUntilNanos = System.nanoTime();

  @Inject
  Gathering(DataSource dataSource, Queue queue) {
    this(dataSource, queue, WAITING_MAX, PATIENCE);
  }

  Gathering(DataSource dataSource, Queue queue, int waitingMax, Duration patience) {
    this.database = new Database(dataSource);
    this.queue = queue;
    this.waitingMax = waitingMax;
    // As large as it gets: one that finds no memory to grow has lost all that was in it.
    this.waiting = new ArrayDeque<>(waitingMax);
    this.patienceNanos = patience.toNanos();
  }

  /**
   * Not bounded here: there are as many as writers and one that watches, and those that have ended
   * and are not back yet. Daemons: who stops waits for requests, and they have nothing else to do.
   */
  private static Executor threads() {
    return new ThreadPoolExecutor(
        0,
        Integer.MAX_VALUE,
        IDLE.toMillis(),
        TimeUnit.MILLISECONDS,
        new SynchronousQueue<>(),
        Thread.ofPlatform().daemon().name("enqueue-", 0).factory());
  }

  /** A job on its way in; run, it answers what it was told. */
  private static final class Entry implements Runnable {
    private final NewJob job;
    private final Executor back;
    private final CompletableFuture<Queue.Told> answer = new CompletableFuture<>();
    private final long cameNanos = System.nanoTime();
    private volatile Queue.@Nullable Told told;
    private volatile @Nullable Throwable failure;

    Entry(NewJob job, Executor back) {
      this.job = job;
      this.back = back;
    }

    long waitedNanos() {
      return System.nanoTime() - cameNanos;
    }

    void there(Queue.Told itIs) {
      told = itIs;
      goBack();
    }

    /** Unless it is there: what comes in the way of telling it changes nothing. */
    void failed(Throwable why) {
      failure = why;
      goBack();
    }

    /** It is answered also when nothing can be run there any more. */
    private void goBack() {
      try {
        back.execute(this);
      } catch (RuntimeException | Error _) {
        run();
      }
    }

    @Override
    public void run() {
      Queue.@Nullable Told there = told;
      @Nullable Throwable why = failure;
      if (there != null) {
        boolean _ = answer.complete(there);
      } else if (why != null) {
        boolean _ = answer.completeExceptionally(why);
      }
    }
  }

  /**
   * Enqueues in a transaction that is nobody else's business, and answers after its commit: not
   * within a transaction of the caller's. Not for a job with a dedupe key: that may be there
   * already, and whoever has its key may be in the way.
   *
   * @param back runs what goes on with the answer; the writers do not wait for it
   * @return fails with an SQLException as alone; of a COMMIT that got no answer, all whose jobs
   *     were in it hear
   */
  public CompletionStage<Queue.Told> enqueue(NewJob job, Executor back) {
    if (job.dedupeKey() != null) {
      throw new IllegalArgumentException("a job with a dedupe key goes alone");
    }
    var entry = new Entry(job, back);
    if (System.nanoTime() - apartUntilNanos < 0) {
      alone(entry);
    } else {
      join(entry);
    }
    return entry.answer;
  }

  private void join(Entry entry) {
    boolean joins;
    boolean writes;
    boolean watches;
    synchronized (this) {
      joins = waiting.size() < waitingMax;
      writes = joins && writers == 0;
      watches = joins && !writes && !watched;
      if (joins) {
        waiting.add(entry);
      }
      writers += writes ? 1 : 0;
      watched |= watches;
    }
    if (!joins) {
      entry.failed(new SQLException("too many jobs wait to be written", "53000"));
    } else if (writes) {
      startWriter();
    } else if (watches) {
      startWatch();
    }
  }

  /** How many wait for a writer. */
  synchronized int waiting() {
    return waiting.size();
  }

  /** It was counted before. */
  private void startWriter() {
    try {
      threads.execute(this::write);
    } catch (RuntimeException | Error failure) {
      writerIsGone(failure);
    }
  }

  /** Without having been at its end: who waits while nobody writes would wait for ever. */
  private void writerIsGone(Throwable why) {
    List<Entry> left = List.of();
    synchronized (this) {
      writers--;
      if (writers == 0) {
        left = List.copyOf(waiting);
        waiting.clear();
      }
    }
    left.forEach(entry -> entry.failed(why));
  }

  private void write() {
    try {
      var batch = new ArrayList<Entry>(BATCH_MAX);
      while (gather(batch)) {
        write(batch);
        batch.clear();
      }
    } catch (RuntimeException | Error failure) {
      writerIsGone(failure);
    }
  }

  /**
   * Takes along who waits. False when this writer is done: nobody waits, or another writer will
   * come to them before they have waited long, so that one slow moment does not leave four behind.
   */
  private synchronized boolean gather(List<Entry> batch) {
    @Nullable Entry next = waiting.peek();
    if (next == null || (writers > 1 && next.waitedNanos() < SOON_NANOS)) {
      writers--;
      return false;
    }
    long chars = 0;
    do {
      batch.add(next);
      waiting.remove();
      chars += next.job.payload().length();
      next = waiting.peek();
    } while (next != null
        && batch.size() < BATCH_MAX
        && chars + next.job.payload().length() <= BATCH_CHARS);
    return true;
  }

  /** Who was taken along is told, whatever comes. */
  private void write(List<Entry> batch) {
    try {
      if (batch.size() == 1) {
        writeAlone(batch.getFirst());
      } else {
        writeTogether(batch);
      }
    } catch (RuntimeException | Error bug) {
      batch.forEach(entry -> entry.failed(bug));
    }
  }

  private void writeTogether(List<Entry> batch) {
    List<Queue.Told> told;
    try {
      List<NewJob> jobs = batch.stream().map(entry -> entry.job).toList();
      told = database.run(connection -> queue.enqueueUnlimited(connection, jobs));
    } catch (SQLException failure) {
      // Unless the outcome is unknown it was rolled back as a whole: alone, they find out whose job
      // it was.
      batch.forEach(unknown(failure) ? entry -> entry.failed(failure) : this::alone);
      return;
    }
    if (told.isEmpty()) {
      apartUntilNanos = System.nanoTime() + APART.toNanos();
      batch.forEach(this::alone);
      return;
    }
    for (int i = 0; i < told.size(); i++) {
      batch.get(i).there(told.get(i));
    }
  }

  /** It is certainly not there. May wait for a connection, which no writer and no caller does. */
  private void alone(Entry entry) {
    try {
      Thread _ = Thread.ofVirtual().name("enqueue-alone").start(() -> writeAlone(entry));
    } catch (RuntimeException | Error failure) {
      entry.failed(failure);
    }
  }

  private void writeAlone(Entry entry) {
    try {
      entry.there(database.run(connection -> queue.enqueueTold(connection, entry.job)));
    } catch (SQLException | RuntimeException | Error failure) {
      entry.failed(failure);
    }
  }

  /** The COMMIT may have come through, or the same again would only take as long again. */
  private static boolean unknown(SQLException failure) {
    return switch (SqlState.of(failure)) {
      case UNREACHABLE, TIMED_OUT -> true;
      case TRY_AGAIN, BAD_VALUE, NO_PARTITION, DUPLICATE, LIMITED, BROKEN, UNKNOWN -> false;
    };
  }

  private void startWatch() {
    try {
      threads.execute(this::watch);
    } catch (RuntimeException | Error _) {
      unwatched(); // They have their writer; whoever comes next tries again.
    }
  }

  private synchronized void unwatched() {
    watched = false;
  }

  /** Sees to it that nobody waits long for a writer that is held up, and nobody for ever. */
  private void watch() {
    try {
      int inVain = 0;
      while (inVain < LOOKS_IN_VAIN || !endsWatch()) {
        inVain = waiting() == 0 ? inVain + 1 : 0;
        failLate();
        boolean beside = writesBeside();
        if (beside) {
          startWriter();
        }
        LockSupport.parkNanos(this, untilSoonNanos());
      }
    } catch (RuntimeException | Error failure) {
      unwatched();
      throw failure;
    }
  }

  /** Unless somebody has come meanwhile, and relies on it. */
  private synchronized boolean endsWatch() {
    if (waiting.isEmpty()) {
      watched = false;
    }
    return !watched;
  }

  /** Who is still waiting after so long may leave, and its job is certainly not there. */
  private void failLate() {
    @Nullable Entry late;
    while ((late = late()) != null) {
      late.failed(new SQLException("the database did not get to this job in time", "57014"));
    }
  }

  private synchronized @Nullable Entry late() {
    @Nullable Entry oldest = waiting.peek();
    return oldest != null && oldest.waitedNanos() >= patienceNanos ? waiting.poll() : null;
  }

  /** True: one more writer is counted. */
  private synchronized boolean writesBeside() {
    @Nullable Entry oldest = waiting.peek();
    boolean beside = oldest != null && oldest.waitedNanos() >= SOON_NANOS && writers < WRITERS_MAX;
    writers += beside ? 1 : 0;
    return beside;
  }

  private synchronized long untilSoonNanos() {
    @Nullable Entry oldest = waiting.peek();
    long waited = oldest == null ? 0 : oldest.waitedNanos();
    return waited < SOON_NANOS ? SOON_NANOS - waited : SOON_NANOS;
  }
}
