package dev.waybill.blackbox;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The outside log: what was sent, and what the service or the database acknowledged. A job that was
 * sent and not acknowledged (the connection broke) may exist or not, but not twice.
 */
final class EnqueueLog {

  private final AtomicInteger numbers = new AtomicInteger();
  private final Set<Integer> unanswered = ConcurrentHashMap.newKeySet();

  /** By id; the value is the number in its payload, or -1 when it has none. */
  private final Map<Long, Integer> acknowledged = new ConcurrentHashMap<>();

  static EnqueueLog of(Collection<Long> ids) {
    var log = new EnqueueLog();
    ids.forEach(id -> log.acknowledged.put(id, -1));
    return log;
  }

  /** A number for the payload of the job that is sent now: {@code {"n": number}}. */
  int sent() {
    int number = numbers.incrementAndGet();
    unanswered.add(number);
    return number;
  }

  void acknowledged(long id, int number) {
    acknowledged.put(id, number);
    unanswered.remove(number);
  }

  Map<Long, Integer> acknowledged() {
    return acknowledged;
  }

  Set<Integer> unanswered() {
    return unanswered;
  }

  int size() {
    return acknowledged.size();
  }
}
