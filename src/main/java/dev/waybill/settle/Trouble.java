package dev.waybill.settle;

import dev.waybill.db.SqlState;
import dev.waybill.job.Outcome;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Outcomes that could not be written at the first try. They are tried again on a thread of their
 * own, each group at its own pace, so that none of them keeps fresh outcomes or each other waiting:
 * a group that fails because of one of its members is halved until that one is alone.
 */
final class Trouble {

  private static final Logger LOG = Logger.getLogger(Trouble.class);
  private static final long WAIT_MILLIS_MIN = 20;
  private static final long WAIT_MILLIS_MAX = 1_000;

  /**
   * @param whole was never halved, so it may be joined with others of that kind
   */
  private record Group(List<Settlement> members, boolean whole, long waitMillis, long dueNanos)
      implements Delayed {

    static Group now(List<Settlement> members, boolean whole) {
      return new Group(members, whole, WAIT_MILLIS_MIN, System.nanoTime());
    }

    /** Jitter: several processes may have met the same outage. */
    Group later(List<Settlement> left) {
      long millis = ThreadLocalRandom.current().nextLong(waitMillis / 2, waitMillis + 1);
      return new Group(
          left,
          whole,
          Math.min(WAIT_MILLIS_MAX, waitMillis * 2),
          System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis));
    }

    @Override
    public long getDelay(TimeUnit unit) {
      return unit.convert(dueNanos - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    @Override
    public int compareTo(Delayed other) {
      return Long.compare(getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
    }
  }

  private final Writer writer;
  private final BiConsumer<Settlement, Settled> tell;
  private final int batchMax;
  private final DelayQueue<Group> groups = new DelayQueue<>();

  /** For one line in the log when trouble begins, not one for each try. */
  private volatile boolean said;

  Trouble(Writer writer, BiConsumer<Settlement, Settled> tell, int batchMax) {
    this.writer = writer;
    this.tell = tell;
    this.batchMax = batchMax;
  }

  /** A batch failed for the first time. */
  void take(List<Settlement> batch, Throwable failure) {
    if (batch.isEmpty()) {
      LOG.error("settler failed", failure);
      return;
    }
    if (!said) {
      said = true;
      LOG.warnf("settle failed, trying again jobs=%d %s", batch.size(), why(failure));
    }
    if (failure instanceof SQLException missing && SqlState.of(missing) == SqlState.NO_PARTITION) {
      writer.makePartitions(missing);
    }
    groups.add(Group.now(List.copyOf(batch), true));
  }

  boolean isEmpty() {
    return groups.isEmpty();
  }

  /** Tries one group again, if one is due within the time. */
  void turn(int millis) throws InterruptedException {
    @Nullable Group due = groups.poll(millis, TimeUnit.MILLISECONDS);
    if (due == null) {
      return;
    }
    Group group = due.whole() ? joined(due) : due;
    List<Settlement> open = withoutTheHopeless(group.members());
    if (open.isEmpty()) {
      return;
    }
    try {
      List<Settlement> locked = writer.writeAgain(open);
      if (locked.isEmpty()) {
        said = !groups.isEmpty();
      } else {
        groups.add(group.later(locked));
      }
    } catch (SQLException failure) {
      again(group, open, failure);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "settle failed, trying again jobs=%d", open.size());
      halve(group, open);
    }
  }

  void giveUp() {
    for (Group group : List.copyOf(groups)) {
      groups.remove(group);
      group.members().forEach(this::giveUp);
    }
  }

  /** After an outage there are many small ones. */
  private Group joined(Group first) {
    var members = new ArrayList<>(first.members());
    for (@Nullable Group next = groups.peek();
        next != null
            && next.whole()
            && next.getDelay(TimeUnit.NANOSECONDS) <= 0
            && members.size() + next.members().size() <= batchMax;
        next = groups.peek()) {
      boolean _ = groups.remove(next);
      members.addAll(next.members());
    }
    return new Group(members, true, first.waitMillis(), first.dueNanos());
  }

  private void again(Group group, List<Settlement> open, SQLException failure) {
    LOG.debugf("settle failed again jobs=%d %s", open.size(), why(failure));
    switch (SqlState.of(failure)) {
      case UNREACHABLE, TRY_AGAIN, LIMITED -> groups.add(group.later(open));
      case NO_PARTITION -> {
        writer.makePartitions(failure);
        groups.add(group.later(open));
      }
      case BROKEN -> parted(group, open);
      case TIMED_OUT, UNKNOWN -> halve(group, open);
      case BAD_VALUE, DUPLICATE -> {
        if (open.size() > 1) {
          halve(group, open);
        } else {
          refused(group, open.getFirst(), failure);
        }
      }
    }
  }

  /** The statement is at fault, not its values: the other outcomes have statements of their own. */
  private void parted(Group group, List<Settlement> open) {
    Collection<List<Settlement>> parts =
        open.stream().collect(Collectors.groupingBy(s -> s.outcome().word())).values();
    if (parts.size() == 1) {
      groups.add(group.later(open));
    } else {
      parts.forEach(part -> groups.add(Group.now(part, false)));
    }
  }

  private void halve(Group group, List<Settlement> open) {
    if (open.size() == 1) {
      groups.add(group.later(open));
      return;
    }
    int half = open.size() / 2;
    groups.add(Group.now(open.subList(0, half), false));
    groups.add(Group.now(open.subList(half, open.size()), false));
  }

  /** A value that the database refuses once, it refuses always. */
  private void refused(Group group, Settlement one, SQLException failure) {
    LOG.errorf(
        "settle refused %s outcome=%s sqlstate=%s",
        one.job(), one.outcome().word(), failure.getSQLState());
    if (one.outcome() instanceof Outcome.Done) {
      String reason = "the database refused the result: SQLSTATE " + failure.getSQLState();
      groups.add(group.later(List.of(one.instead(new Outcome.Dead(reason)))));
    } else {
      tell.accept(one, Settled.GIVEN_UP);
    }
  }

  private List<Settlement> withoutTheHopeless(List<Settlement> members) {
    var open = new ArrayList<Settlement>(members.size());
    for (Settlement s : members) {
      if (s.isHopeless()) {
        giveUp(s);
      } else {
        open.add(s);
      }
    }
    return open;
  }

  private void giveUp(Settlement s) {
    LOG.warnf("settle given up %s outcome=%s", s.job(), s.outcome().word());
    tell.accept(s, Settled.GIVEN_UP);
  }

  private static String why(Throwable failure) {
    return failure instanceof SQLException sql
        ? "sqlstate=" + sql.getSQLState()
        : "error=" + failure.getClass().getSimpleName();
  }
}
