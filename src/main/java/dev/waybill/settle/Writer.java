package dev.waybill.settle;

import dev.waybill.db.Database;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
    Map<Long, Settled> how =
        database.transaction(c -> {
          claims.forget(c);
          return writeIn(c, batch, false);
        });
    claims.touched(batch);
    batch.forEach(s -> tell.accept(s, how.getOrDefault(s.job().id(), Settled.LOST)));
  }

  /**
   * The same again, after a try that failed, perhaps on the way back. Somebody may hold the lock of
   * a row, for instance a producer that cancels the job and does not commit: the others must not
   * wait for it. Answers those that are still ours and locked.
   */
  List<Settlement> writeAgain(List<Settlement> batch) throws SQLException {
    var locked = new HashSet<Long>();
    Map<Long, Settled> how =
        database.transaction(c -> {
          Set<Long> unlocked = statements.lock(c, batch);
          locked.addAll(statements.ours(c, batch));
          locked.removeAll(unlocked);
          return writeIn(
              c, batch.stream().filter(s -> !locked.contains(s.job().id())).toList(), true);
        });
    var left = new ArrayList<Settlement>();
    for (Settlement s : batch) {
      if (locked.contains(s.job().id())) {
        left.add(s);
      } else {
        tell.accept(s, how.getOrDefault(s.job().id(), Settled.LOST));
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

  private Map<Long, Settled> writeIn(Connection connection, List<Settlement> batch, boolean again)
      throws SQLException {
    var how = new HashMap<Long, Settled>();
    statements.write(connection, batch).forEach(id -> how.put(id, Settled.SETTLED));
    if (how.size() < batch.size()) {
      List<Settlement> rest = batch.stream().filter(s -> !how.containsKey(s.job().id())).toList();
      how.putAll(statements.ended(connection, rest, again));
    }
    return how;
  }
}
