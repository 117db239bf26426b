package dev.waybill.claim;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToIntFunction;
import org.jspecify.annotations.Nullable;

/**
 * What a pool knows of the ready jobs, and whose turn it is. Tenants take turns; within a tenant
 * the best lane goes first. Not safe for several threads: each pool has its own, on its own thread.
 */
final class Lanes {

  /** Looked up for each lane of a claim; for equals and hashCode by hand see docs/native.md. */
  private record Tenant(String kind, String tenant) {

    @Override
    public boolean equals(@Nullable Object other) {
      return other instanceof Tenant one && kind.equals(one.kind) && tenant.equals(one.tenant);
    }

    @Override
    public int hashCode() {
      return 31 * kind.hashCode() + tenant.hashCode();
    }
  }

  /** Versions of a payload do not outrank each other: the job that was due first goes first. */
  private static final Comparator<Lane> BEST_FIRST =
      Comparator.comparingLong(Lane::rank)
          .thenComparingLong(Lane::lowMicros)
          .thenComparingLong(Lane::lowId);

  private final Map<Tenant, ArrayList<Lane>> lanesOf = new HashMap<>();
  private final ArrayDeque<Tenant> turns = new ArrayDeque<>();
  private final Set<String> kinds = new HashSet<>();

  /** Lanes that were emptied, the last one last, each with where it ended. */
  private final ArrayDeque<Lane> emptied = new ArrayDeque<>();

  private static final int EMPTIED_MAX = 16;

  // Since the last sweep.
  private final Set<String> emptiedKinds = new HashSet<>();
  private boolean forgot;

  /** Between now() of a producer and its commit, mostly. */
  private static final long LATE_MICROS = 50_000;

  boolean isEmpty() {
    return turns.isEmpty();
  }

  int tenants() {
    return turns.size();
  }

  void sweepBegins() {
    forgot = false;
    emptiedKinds.clear();
  }

  /** A sweep that began has found nothing out. */
  void forget() {
    forgot = true;
  }

  void swept(List<Lane> found) {
    sweepBegins();
    refresh(found);
  }

  /**
   * What a sweep found while claims went on. A lane that it did not find stays, since it may have
   * come after that sweep looked; one that was emptied meanwhile is emptied once more. But not one
   * of a kind that was not looked for: it may be paused, and its lane may not be emptied for hours.
   */
  void add(List<Lane> found, Set<String> asked) {
    var heads = new HashSet<Lane>();
    found.forEach(lane -> heads.add(lane.key()));
    var all = new ArrayList<>(found);
    for (ArrayList<Lane> known : lanesOf.values()) {
      for (Lane lane : known) {
        if (all.size() < Sweep.LANES_MAX
            && asked.contains(lane.kind())
            && !heads.contains(lane.key())) {
          all.add(lane);
        }
      }
    }
    refresh(all);
  }

  /**
   * Takes over what a sweep found. Tenants known before keep their turn; new ones come behind them:
   * those that come and go would starve one that is always there.
   */
  private void refresh(List<Lane> found) {
    var known = new ArrayList<>(turns);
    lanesOf.clear();
    turns.clear();
    kinds.clear();
    for (Lane lane : found) {
      kinds.add(lane.kind());
      lanesOf
          .computeIfAbsent(new Tenant(lane.kind(), lane.tenant()), _ -> new ArrayList<>(1))
          .add(lane);
    }
    var fresh = new HashMap<>(lanesOf);
    for (Tenant tenant : known) {
      if (fresh.remove(tenant) != null) {
        turns.add(tenant);
      }
    }
    turns.addAll(fresh.keySet());
    lanesOf.values().forEach(lanes -> lanes.sort(BEST_FIRST));
  }

  /** A lane and how many jobs may be taken from it now. */
  record Turn(Lane lane, int most) {}

  /**
   * The best lanes of the next tenants in turn, whose turn it then was. Lanes to which {@code
   * allot} gives nothing are passed over, and keep their place behind the others.
   */
  List<Turn> next(int max, ToIntFunction<Lane> allot) {
    var next = new ArrayList<Turn>(Math.min(max, turns.size()));
    for (int i = turns.size(); i > 0 && next.size() < max; i--) {
      Tenant tenant = turns.remove();
      turns.add(tenant);
      Lane lane = lanesOf.getOrDefault(tenant, new ArrayList<>()).getFirst();
      int most = allot.applyAsInt(lane);
      if (most > 0) {
        next.add(new Turn(lane, most));
      }
    }
    return next;
  }

  /** The kinds that the last sweep found. */
  Set<String> kinds() {
    return kinds;
  }

  /** The claim took all it was offered up to here: the lane goes on behind it. */
  void advance(Lane lane, long micros, long id) {
    ArrayList<Lane> lanes = lanesOf.get(new Tenant(lane.kind(), lane.tenant()));
    if (lanes != null) {
      lanes.replaceAll(l -> l.sameLane(lane) ? l.from(micros, id) : l);
    }
  }

  /** The claim got less from it than it asked for: nothing there until a sweep finds something. */
  void exhausted(Lane lane) {
    var tenant = new Tenant(lane.kind(), lane.tenant());
    ArrayList<Lane> lanes = lanesOf.get(tenant);
    if (lanes == null) {
      return;
    }
    lanes.removeIf(l -> {
      boolean same = l.sameLane(lane);
      if (same) {
        remember(l);
      }
      return same;
    });
    if (lanes.isEmpty()) {
      lanesOf.remove(tenant);
      // It had its turn just now, so it is among the last: from the head each job would cost a walk
      // over all tenants.
      boolean _ = turns.removeLastOccurrence(tenant);
    }
  }

  /**
   * It ended where it ended last, whatever of before that a sweep found since: a recall must not
   * walk again what lies between.
   */
  private void remember(Lane lane) {
    Lane end = lane;
    for (Iterator<Lane> known = emptied.iterator(); known.hasNext(); ) {
      Lane before = known.next();
      if (before.sameLane(lane)
          && before.kind().equals(lane.kind())
          && before.tenant().equals(lane.tenant())) {
        known.remove();
        end = lane.lowMicros() < before.lowMicros() ? before : lane;
      }
    }
    emptied.add(end);
    emptiedKinds.add(end.kind());
    if (emptied.size() > EMPTIED_MAX) {
      emptied.remove();
      forgot = true;
    }
  }

  /** Whether what was emptied since the last sweep would be recalled, if these kinds are. */
  boolean remembersAll(Set<String> recallable) {
    return !forgot && recallable.containsAll(emptiedKinds);
  }

  /**
   * Takes the emptied lanes for lanes that have something again; of these kinds, each with the
   * newest payload version that can be read. They begin a little before their end: of several
   * producers, one that began earlier may commit later. What was known besides is forgotten.
   */
  boolean recall(Map<String, Integer> open) {
    refresh(
        emptied.stream()
            .filter(lane -> lane.payloadVersion() <= open.getOrDefault(lane.kind(), 0))
            .map(lane -> lane.from(lane.lowMicros() - LATE_MICROS, 0))
            .toList());
    return !isEmpty();
  }
}
