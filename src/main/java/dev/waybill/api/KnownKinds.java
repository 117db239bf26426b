package dev.waybill.api;

import dev.waybill.enqueue.NewJob;
import dev.waybill.policy.Kinds;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/**
 * Bounds how many kinds there are: each is a row of the figures and a series of the metrics for
 * ever. Asked over REST, where anybody with a credential may name a new one; a kind that is known
 * is asked about once a process.
 */
@Singleton
final class KnownKinds {

  /** No more than the database lets in, and this where somebody has raised its limit. */
  private static final int REMEMBERED_MAX = 10_000;

  private final Set<String> known = ConcurrentHashMap.newKeySet();

  boolean knows(NewJob job) {
    return known.contains(job.kind());
  }

  /**
   * What is no kind at all is refused elsewhere. Remembered is only what others see as well: the
   * job that makes a kind new may yet be refused.
   *
   * @param kinds none of which this transaction has made a job of
   * @throws Problem.Thrown when they would be too many
   */
  void check(Connection connection, Set<String> kinds) throws SQLException {
    Set<String> fresh =
        kinds.stream()
            .filter(kind -> !known.contains(kind) && Query.isKind(kind))
            .collect(Collectors.toSet());
    if (fresh.isEmpty()) {
      return;
    }
    Set<String> stored = Kinds.known(connection, fresh);
    if (stored.size() < fresh.size() && !Kinds.roomFor(connection, fresh)) {
      throw tooMany();
    }
    if (known.size() < REMEMBERED_MAX) {
      boolean _ = known.addAll(stored);
    }
  }

  static Problem.Thrown tooMany() {
    return new Problem.Thrown(
        new Problem(
            "/problems/too-many-kinds",
            "There are as many kinds as there may be",
            409,
            "This would be a new one. How many there may be is kinds_max of waybill.limits.",
            "kind"));
  }
}
