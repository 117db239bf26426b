package dev.waybill.settle;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Claims that jobs were settled of, so that their rows are deleted when all have ended. Which one
 * was settled of last while {@value #RECENT} others were is probably at its end: so none is
 * counted, and nothing is lost with what is forgotten here, since the reaper deletes what is left.
 */
final class SettledClaims {

  private static final int RECENT = 8;

  /** The one that was settled of last is the last. */
  private final LinkedHashSet<UUID> recent = new LinkedHashSet<>();

  /** They had their turn; those of which jobs still run will have another. */
  private final List<UUID> over = new ArrayList<>();

  synchronized void touched(List<Settlement> batch) {
    @Nullable UUID last = null;
    for (Settlement s : batch) {
      UUID token = s.job().token();
      if (!token.equals(last)) { // Mostly its neighbour's.
        recent.addLast(token);
        last = token;
      }
    }
    while (recent.size() > RECENT) {
      over.add(recent.removeFirst());
    }
  }

  /**
   * Those to delete with the next batch: a commit of their own would cost more than the deletes.
   * Not each by itself: a statement costs as much as a few jobs.
   */
  synchronized List<UUID> takeOver() {
    if (over.size() < RECENT) {
      return List.of();
    }
    var some = List.copyOf(over);
    over.clear();
    return some;
  }
}
