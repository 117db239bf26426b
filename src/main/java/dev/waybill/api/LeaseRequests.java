package dev.waybill.api;

import com.fasterxml.jackson.databind.JsonNode;
import dev.waybill.access.Caller;
import dev.waybill.job.Outcome;
import dev.waybill.pull.Ask;
import dev.waybill.pull.Holders;
import jakarta.inject.Singleton;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Reads the bodies of the pull door. */
@Singleton
final class LeaseRequests {

  private static final int KINDS_MAX = 100;
  private static final int JOBS_MAX = 500;
  private static final int WORKER_MAX = 128;
  private static final int RESULT_BYTES_MAX = 262_144;
  private static final Duration WAIT_MAX = Duration.ofSeconds(60);
  private static final Duration LEASE_MIN = Duration.ofSeconds(1);
  private static final Duration LEASE_MAX = Duration.ofHours(1);
  private static final Pattern TOKEN =
      Pattern.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}");

  private final Requests requests;

  LeaseRequests(Requests requests) {
    this.requests = requests;
  }

  /** A poll. */
  record Lease(Ask ask, Duration patience) {}

  Lease lease(byte[] body, Caller caller) {
    LeaseBody read = requests.read(body, LeaseBody.class);
    int max = Objects.requireNonNullElse(read.max(), 1);
    if (max < 1 || max > JOBS_MAX) {
      throw Problem.invalid("max", "A number from 1 to " + JOBS_MAX + ".");
    }
    Duration wait =
        Objects.requireNonNullElse(Requests.duration("wait", read.waits()), Duration.ZERO);
    if (wait.compareTo(WAIT_MAX) > 0) {
      throw Problem.invalid("wait", "At most " + WAIT_MAX.toSeconds() + " seconds.");
    }
    return new Lease(
        new Ask(
            kinds(read.kinds(), caller),
            worker(read.worker()),
            max,
            leaseTime(read.lease()),
            caller.tenant()),
        wait);
  }

  private static Set<String> kinds(@Nullable List<@Nullable String> said, Caller caller) {
    if (said == null || said.isEmpty() || said.size() > KINDS_MAX) {
      throw Problem.invalid("kinds", "1 to " + KINDS_MAX + " kinds.");
    }
    var kinds = new HashSet<String>();
    for (String kind : said) {
      if (kind == null || Query.kind("kinds", kind) == null) {
        throw Problem.invalid("kinds", "A kind is null.");
      }
      caller.checkKind("kinds", kind);
      kinds.add(kind);
    }
    return kinds;
  }

  private static String worker(@Nullable String said) {
    if (said == null) {
      return "pull";
    }
    if (said.isBlank()
        || said.length() > WORKER_MAX
        || said.chars().anyMatch(Character::isISOControl)) {
      throw Problem.invalid(
          "worker", "1 to " + WORKER_MAX + " characters, without control characters.");
    }
    return Requests.storable("worker", said);
  }

  private static @Nullable Duration leaseTime(@Nullable JsonNode said) {
    @Nullable Duration lease = Requests.duration("lease", said);
    if (lease != null && (lease.compareTo(LEASE_MIN) < 0 || lease.compareTo(LEASE_MAX) > 0)) {
      throw Problem.invalid("lease", "Between 1 second and 1 hour.");
    }
    return lease;
  }

  /** Leases to extend. */
  record Extend(List<Holders.Held> held, @Nullable Duration lease) {}

  Extend extend(byte[] body) {
    LeaseBody.Extend read = requests.read(body, LeaseBody.Extend.class);
    List<LeaseBody.@Nullable Held> said = bounded("leases", read.leases());
    var held = new ArrayList<Holders.Held>(said.size());
    var seen = new HashSet<Long>();
    for (int i = 0; i < said.size(); i++) {
      LeaseBody.@Nullable Held one = said.get(i);
      String at = "leases[" + i + "]";
      if (one == null) {
        throw Problem.invalid(at, "It is null.");
      }
      held.add(held(at, one.id(), one.token(), seen));
    }
    return new Extend(held, leaseTime(read.lease()));
  }

  List<Holders.Said> settle(byte[] body) {
    LeaseBody.Settle read = requests.read(body, LeaseBody.Settle.class);
    List<LeaseBody.@Nullable Ended> said = bounded("outcomes", read.outcomes());
    var outcomes = new ArrayList<Holders.Said>(said.size());
    var seen = new HashSet<Long>();
    for (int i = 0; i < said.size(); i++) {
      LeaseBody.@Nullable Ended one = said.get(i);
      String at = "outcomes[" + i + "]";
      if (one == null) {
        throw Problem.invalid(at, "It is null.");
      }
      outcomes.add(new Holders.Said(held(at, one.id(), one.token(), seen), outcome(at, one)));
    }
    return outcomes;
  }

  private static <T extends @Nullable Object> List<T> bounded(
      String field, @Nullable List<T> said) {
    if (said == null || said.isEmpty() || said.size() > JOBS_MAX) {
      throw Problem.invalid(field, "1 to " + JOBS_MAX + " of them.");
    }
    return said;
  }

  private static Holders.Held held(
      String at, @Nullable Long id, @Nullable String token, Set<Long> seen) {
    if (id == null) {
      throw Problem.invalid(at + ".id", "It is missing.");
    }
    if (!seen.add(id)) {
      throw Problem.invalid(at + ".id", "It is there twice.");
    }
    if (token == null || !TOKEN.matcher(token).matches()) {
      throw Problem.invalid(at + ".token", "The token that came with the job: a UUID.");
    }
    return new Holders.Held(id, UUID.fromString(token));
  }

  private Outcome outcome(String at, LeaseBody.Ended said) {
    @Nullable String word = said.outcome();
    if (word == null) {
      throw Problem.invalid(at + ".outcome", "It is missing.");
    }
    @Nullable Duration delay = Requests.duration(at + ".delay", said.delay());
    refuse(at + ".result", said.result() != null && !word.equals("done"), "Only done has one.");
    refuse(
        at + ".error",
        said.error() != null && !word.equals("retry") && !word.equals("dead"),
        "Only retry and dead have one.");
    refuse(
        at + ".delay",
        delay != null && !word.equals("retry") && !word.equals("snooze"),
        "Only retry and snooze have one.");
    String error = Objects.requireNonNullElse(said.error(), "");
    return switch (word) {
      case "done" -> Outcome.done(result(at + ".result", said.result()));
      case "retry" -> new Outcome.Retry(delay, error);
      case "snooze" -> {
        if (delay == null) {
          throw Problem.invalid(at + ".delay", "A snooze says for how long.");
        }
        yield Outcome.snooze(delay);
      }
      case "release" -> new Outcome.Release();
      case "dead" -> Outcome.dead(error);
      default ->
          throw Problem.invalid(at + ".outcome", "One of done, retry, snooze, release, dead.");
    };
  }

  private static void refuse(String field, boolean wrong, String detail) {
    if (wrong) {
      throw Problem.invalid(field, detail);
    }
  }

  private @Nullable JsonNode result(String field, @Nullable JsonNode said) {
    if (said == null || said.isNull()) {
      return null;
    }
    if (requests.json(field, said).getBytes(StandardCharsets.UTF_8).length > RESULT_BYTES_MAX) {
      throw Problem.invalid(field, "It has more than " + RESULT_BYTES_MAX + " bytes.");
    }
    return said;
  }
}
