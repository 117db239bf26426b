package dev.waybill.enqueue;

import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Writes jobs that come at the same time with one statement and one commit; each caller gets what
 * it would get alone. Nobody waits for company: who comes while nobody writes writes at once, and
 * who comes later is written by the next of those who wait, together with all who wait by then. One
 * writer at a time is what costs the database least; but where a commit takes long, or a lock holds
 * the writer up, whoever has waited for {@value #SOON_MILLIS} ms writes beside it, up to {@value
 * #WRITERS_MAX} at once. It has no threads of its own: the callers do the work.
 */
@Singleton
public final class Gathering {

  private static final int WRITERS_MAX = 4;
  private static final long SOON_MILLIS = 2;
  private static final int BATCH_MAX = 100;
  private static final int BATCH_CHARS = 1 << 20;
  private static final int WAITING_MAX = 1_000;
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** So long everybody goes alone after a batch that held a job of a limited tenant. */
  private static final Duration APART = Duration.ofSeconds(1);

  private final Database database;
  private final Queue queue;
  private final int waitingMax;
  private final Duration patience;

  /** Guarded by {@code this}, as {@link #writers} is. */
  private final ArrayDeque<Place> waiting = new ArrayDeque<>();

  private int writers;
  private volatile long apartUntilNanos = System.nanoTime();

  @Inject
  Gathering(DataSource dataSource, Queue queue) {
    this(dataSource, queue, WAITING_MAX, PATIENCE);
  }

  Gathering(DataSource dataSource, Queue queue, int waitingMax, Duration patience) {
    this.database = new Database(dataSource);
    this.queue = queue;
    this.waitingMax = waitingMax;
    this.patience = patience;
  }

  /** What a caller that waited is told. */
  private sealed interface Answer {

    /** It is there, and committed. */
    record There(Queue.Told told) implements Answer {}

    /** The next batch is yours to write. */
    record Lead() implements Answer {}

    /** It was not written with others, and is certainly not there: write it yourself. */
    record Alone() implements Answer {}

    /** Perhaps it is there, perhaps not. */
    record Failed(Throwable why) implements Answer {}
  }

  // Made before they are needed: who has a turn must be able to hand it on, also without memory.
  private static final Answer LEAD = new Answer.Lead();
  private static final Answer ALONE = new Answer.Alone();
  private static final Answer FAILED =
      new Answer.Failed(new IllegalStateException("not written to its end"));

  /** Of one caller that waits. */
  private static final class Place {
    private final NewJob job;
    private final Thread thread = Thread.currentThread();
    private final long soonNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(SOON_MILLIS);
    private volatile @Nullable Answer answer;

    Place(NewJob job) {
      this.job = job;
    }

    boolean waitsLong() {
      return System.nanoTime() - soonNanos >= 0;
    }

    void tell(Answer told) {
      answer = told;
      LockSupport.unpark(thread);
    }
  }

  /**
   * Enqueues in a transaction that is nobody else's business, and answers after its commit: not
   * within a transaction of the caller's. Not for a job with a dedupe key: that may be there
   * already, and whoever has its key may be in the way.
   *
   * @throws SQLException as alone; of a COMMIT that got no answer, all whose jobs were in it hear
   */
  public Queue.Told enqueue(NewJob job) throws SQLException {
    if (job.dedupeKey() != null) {
      throw new IllegalArgumentException("a job with a dedupe key goes alone");
    }
    if (System.nanoTime() - apartUntilNanos < 0) {
      return alone(job);
    }
    @Nullable Place place = place(job);
    Answer answer = place == null ? LEAD : await(place);
    return take(job, answer instanceof Answer.Lead ? lead(job) : answer);
  }

  private Queue.Told take(NewJob job, Answer answer) throws SQLException {
    return switch (answer) {
      case Answer.There(var told) -> told;
      case Answer.Alone _ -> alone(job);
      case Answer.Failed(SQLException why) -> throw why;
      case Answer.Failed(var why) ->
          throw new IllegalStateException("the batch with this job failed", why);
      case Answer.Lead _ -> throw new IllegalStateException("leads twice");
    };
  }

  private Queue.Told alone(NewJob job) throws SQLException {
    return database.run(connection -> queue.enqueueTold(connection, job));
  }

  /** Null when there is no need to wait: the caller counts as a writer now. */
  private synchronized @Nullable Place place(NewJob job) throws SQLException {
    if (writers == 0) {
      writers++;
      return null;
    }
    if (waiting.size() >= waitingMax) {
      throw new SQLException("too many jobs wait to be written", "53000");
    }
    var place = new Place(job);
    waiting.add(place);
    return place;
  }

  /**
   * This writer is done: the first of those who wait takes its turn, unless another writer will
   * come to it before it has waited long.
   */
  private void handOn() {
    @Nullable Place next;
    synchronized (this) {
      next = waiting.peek();
      if (next == null || (writers > 1 && !next.waitsLong())) {
        next = null;
        writers--;
      } else {
        waiting.remove();
      }
    }
    if (next != null) {
      next.tell(LEAD);
    }
  }

  /**
   * Who is still waiting for its turn may leave, and its job is certainly not there. Who was taken
   * along stays, whatever comes: the answer alone says whether its job is there.
   */
  private Answer await(Place place) throws SQLException {
    long untilNanos = System.nanoTime() + patience.toNanos();
    boolean interrupted = false;
    boolean taken = false;
    try {
      while (true) {
        @Nullable Answer answer = place.answer;
        if (answer instanceof Answer.Lead && interrupted) {
          // The first read of a virtual thread that is interrupted closes the connection.
          handOn();
          throw notInTime();
        }
        if (answer != null) {
          return answer;
        }
        if (taken) {
          LockSupport.park(this);
        } else {
          boolean waitsLong = place.waitsLong();
          if (waitsLong && writesBeside(place)) {
            return LEAD;
          }
          LockSupport.parkNanos(
              this, (waitsLong ? untilNanos : place.soonNanos) - System.nanoTime());
        }
        interrupted |= Thread.interrupted();
        if (!taken && (interrupted || System.nanoTime() - untilNanos >= 0)) {
          if (withdraw(place)) {
            throw notInTime();
          }
          taken = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static SQLException notInTime() {
    return new SQLException("the database did not get to this job in time", "57014");
  }

  /** How many wait for their turn. */
  synchronized int waiting() {
    return waiting.size();
  }

  private synchronized boolean withdraw(Place place) {
    return waiting.remove(place);
  }

  private synchronized boolean writesBeside(Place place) {
    if (writers == WRITERS_MAX || !waiting.remove(place)) {
      return false;
    }
    writers++;
    return true;
  }

  /**
   * Always tells everybody it takes along. The next writer is told first: the database would be
   * idle while these answer their callers.
   */
  private Answer lead(NewJob mine) {
    List<Place> others = List.of();
    List<Answer> answers = List.of();
    try {
      others = new ArrayList<>();
      gather(mine, others);
      answers = write(mine, others);
      return answers.getFirst();
    } finally {
      handOn();
      for (int i = 0; i < others.size(); i++) {
        others.get(i).tell(answers.isEmpty() ? FAILED : answers.get(i + 1));
      }
    }
  }

  private List<Answer> write(NewJob mine, List<Place> others) {
    int all = 1 + others.size();
    try {
      if (others.isEmpty()) {
        return List.of(new Answer.There(alone(mine)));
      }
      var jobs = new ArrayList<NewJob>(all);
      jobs.add(mine);
      others.forEach(other -> jobs.add(other.job));
      List<Queue.Told> told = database.run(connection -> queue.enqueueUnlimited(connection, jobs));
      if (told.isEmpty()) {
        apartUntilNanos = System.nanoTime() + APART.toNanos();
        return Collections.nCopies(all, ALONE);
      }
      return told.stream().<Answer>map(Answer.There::new).toList();
    } catch (SQLException failure) {
      // Unless the outcome is unknown it was rolled back as a whole: alone, they find out whose job
      // it was.
      return Collections.nCopies(
          all, others.isEmpty() || unknown(failure) ? new Answer.Failed(failure) : ALONE);
    } catch (RuntimeException | Error bug) {
      return Collections.nCopies(all, new Answer.Failed(bug));
    }
  }

  private synchronized void gather(NewJob first, List<Place> others) {
    long chars = first.payload().length();
    while (others.size() < BATCH_MAX - 1) {
      @Nullable Place next = waiting.peek();
      if (next == null || (chars += next.job.payload().length()) > BATCH_CHARS) {
        break;
      }
      others.add(next);
      waiting.remove();
    }
  }

  /** The COMMIT may have come through, or the same again would only take as long again. */
  private static boolean unknown(SQLException failure) {
    return switch (SqlState.of(failure)) {
      case UNREACHABLE, TIMED_OUT -> true;
      case TRY_AGAIN, BAD_VALUE, NO_PARTITION, DUPLICATE, LIMITED, BROKEN, UNKNOWN -> false;
    };
  }
}
