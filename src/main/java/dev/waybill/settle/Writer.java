package dev.waybill.settle;

import dev.waybill.claim.Claims;
import dev.waybill.db.Database;
import dev.waybill.settle.Statements.Way;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BiConsumer;

/** Writes a batch in a transaction of its own, and then says of each outcome how it went. */
final class Writer {

  private final Database database;
  private final Statements statements;
  private final BiConsumer<Settlement, Settled> tell;
  private final SettledClaims claims = new SettledClaims();

  Writer(Database database, Statements statements, BiConsumer<Settlement, Settled> tell) {
    this.database = database;
    this.statements = statements;
    this.tell = tell;
  }

  void write(List<Settlement> batch) throws SQLException {
    Map<Way, List<Settlement>> ways = statements.ways(batch);
    List<UUID> over = claims.takeOver();
    // As nearly always: then the statement is the transaction, for two round trips less. Only done
    // jobs leave a trace that another try finds, should the answer be lost; or should, of two
    // statements for a job that is twice in the batch, the second fail.
    boolean alone = over.isEmpty() && ways.keySet().equals(Set.of(Way.DONE));
    Map<Settlement, Settled> how =
        alone
            ? database.run(c -> writeIn(c, batch, ways, false))
            : database.transaction(c -> {
              int _ = Claims.forget(c, over);
              return writeIn(c, batch, ways, false);
            });
    claims.touched(batch);
    batch.forEach(s -> tell.accept(s, how.getOrDefault(s, Settled.LOST)));
  }

  /**
   * The same again, after a try that failed, perhaps on the way back. Somebody may hold the lock of
   * a row, for instance a producer that cancels the job and does not commit: the others must not
   * wait for it. Answers those that are still ours and locked.
   */
  List<Settlement> writeAgain(List<Settlement> batch) throws SQLException {
    var locked = new HashSet<Long>();
    Map<Settlement, Settled> how =
        database.transaction(c -> {
          Set<Long> unlocked = statements.lock(c, batch);
          locked.addAll(statements.ours(c, batch));
          locked.removeAll(unlocked);
          List<Settlement> unlockedOnes =
              batch.stream().filter(s -> !locked.contains(s.job().id())).toList();
          return writeIn(c, unlockedOnes, statements.ways(unlockedOnes), true);
        });
    var left = new ArrayList<Settlement>();
    for (Settlement s : batch) {
      if (locked.contains(s.job().id())) {
        left.add(s);
      } else {
        tell.accept(s, how.getOrDefault(s, Settled.LOST));
      }
    }
    return left;
  }

  /** Nobody made partitions for a while, or time went wrong. Any holder may make them. */
  void makePartitions(SQLException missing) {
    try {
      database.run(Statements::makePartitions);
    } catch (SQLException failure) {
      missing.addSuppressed(failure);
    }
  }

  /** What became of a batch; those that are not in the answer were lost. */
  private Map<Settlement, Settled> writeIn(
      Connection connection, List<Settlement> batch, Map<Way, List<Settlement>> ways, boolean again)
      throws SQLException {
    var how = new IdentityHashMap<Settlement, Settled>();
    statements.write(connection, ways).forEach(s -> how.put(s, Settled.SETTLED));
    if (how.size() < batch.size()) {
      List<Settlement> rest = batch.stream().filter(s -> !how.containsKey(s)).toList();
      statements.ended(connection, rest, again).forEach(how::put);
    }
    return how;
  }
}
