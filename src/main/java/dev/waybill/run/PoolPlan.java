package dev.waybill.run;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A pool as the setting names it: {@code fast=email,webhook:64}.
 *
 * @param kinds the kinds it claims; {@code *} stands for every kind of this build that no other
 *     pool names
 */
public record PoolPlan(String name, Set<String> kinds, int slots) {

  static final int SLOTS_MAX = 10_000;
  static final String REST = "*";
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9_-]{0,31}");
  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}|\\*");

  public PoolPlan {
    kinds = Set.copyOf(kinds);
  }

  /** Whether this pool, of all of them, is the one for that kind. */
  boolean takes(String kind, List<PoolPlan> all) {
    boolean named = all.stream().anyMatch(other -> other.kinds().contains(kind));
    return kinds.contains(named ? kind : REST);
  }

  /** Reads {@code WAYBILL_POOLS}; the message of a refusal says what would be right. */
  public static List<PoolPlan> parse(String setting) {
    var plans = new ArrayList<PoolPlan>();
    var names = new HashSet<String>();
    var taken = new HashSet<String>();
    for (String part : setting.split(";", -1)) {
      if (part.isBlank()) {
        continue;
      }
      PoolPlan plan = parseOne(part.strip());
      if (!names.add(plan.name())) {
        throw refuse("the pool " + plan.name() + " is there twice");
      }
      for (String kind : plan.kinds()) {
        if (!taken.add(kind)) {
          throw refuse("the kind " + kind + " is in two pools");
        }
      }
      plans.add(plan);
    }
    if (plans.isEmpty()) {
      throw refuse("there is no pool in it");
    }
    return plans;
  }

  /** Reads {@code WAYBILL_POOL}: one of the plans, or all of them when it names none. */
  static List<PoolPlan> chosen(String setting, List<PoolPlan> all) {
    String name = setting.strip();
    if (name.isEmpty()) {
      return all;
    }
    List<PoolPlan> one = all.stream().filter(plan -> plan.name().equals(name)).toList();
    if (one.isEmpty()) {
      throw new IllegalArgumentException(
          "WAYBILL_POOL: there is no pool "
              + name
              + " in WAYBILL_POOLS; right would be one of "
              + all.stream().map(PoolPlan::name).collect(Collectors.joining(", ")));
    }
    return one;
  }

  private static PoolPlan parseOne(String part) {
    int equals = part.indexOf('=');
    int colon = part.lastIndexOf(':');
    if (equals < 1 || colon < equals) {
      throw refuse("'" + part + "' is not name=kind,kind:slots");
    }
    String name = part.substring(0, equals).strip();
    if (!NAME.matcher(name).matches()) {
      throw refuse("'" + name + "' is no name for a pool");
    }
    var kinds = new HashSet<String>();
    for (String kind : part.substring(equals + 1, colon).split(",", -1)) {
      if (!KIND.matcher(kind.strip()).matches()) {
        throw refuse("'" + kind.strip() + "' is no kind");
      }
      kinds.add(kind.strip());
    }
    return new PoolPlan(name, kinds, slots(part.substring(colon + 1).strip()));
  }

  private static int slots(String text) {
    try {
      int slots = Integer.parseInt(text);
      if (slots >= 1 && slots <= SLOTS_MAX) {
        return slots;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw refuse("'" + text + "' is no number of slots (1 to " + SLOTS_MAX + ")");
  }

  private static IllegalArgumentException refuse(String why) {
    return new IllegalArgumentException(
        "WAYBILL_POOLS: " + why + "; right would be fast=email,webhook:64;bulk=backfill:8");
  }
}
