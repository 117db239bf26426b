package dev.waybill.deliver;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.run.JobContext;
import dev.waybill.run.Push;
import dev.waybill.trace.TraceContext;
import java.io.IOException;
import java.net.InetAddress;
import java.time.Duration;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import javax.net.ssl.SSLException;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** Posts jobs, and reads from the answer how the attempt ends. */
final class Courier implements Push {

  private static final Logger LOG = Logger.getLogger(Courier.class);
  private static final int ORIGINS_MAX = 10_000;

  /** What it works with. */
  record Means(Allowlist allowed, Addresses addresses, Names names, Secrets secrets, Post post) {}

  private final Means means;
  private final Duration connectLimit;
  private final int concurrency;
  private final Function<String, Policy> policies;
  private final InstantSource clock;
  private final ConcurrentHashMap<String, Circuit> circuits = new ConcurrentHashMap<>();

  /**
   * @param clock for what the receiver compares with its own clock; nothing is stored of it
   */
  Courier(
      Means means,
      Duration connectLimit,
      int concurrency,
      Function<String, Policy> policies,
      InstantSource clock) {
    this.means = means;
    this.connectLimit = connectLimit;
    this.concurrency = concurrency;
    this.policies = policies;
    this.clock = clock;
  }

  @Override
  public Map<String, Integer> room(Map<String, Integer> kinds) {
    var origins = new HashMap<String, String>();
    var inHand = new HashMap<String, Integer>();
    kinds.forEach((kind, n) -> {
      @Nullable String origin = origin(kind);
      if (origin != null) {
        origins.put(kind, origin);
        inHand.merge(origin, n, Integer::sum);
      }
    });
    var room = new HashMap<String, Integer>();
    origins.forEach((kind, origin) ->
        room.put(kind, circuit(origin).room(concurrency, inHand.getOrDefault(origin, 0))));
    return room;
  }

  /** Null for a URL that cannot be read: its jobs are run, and fail with the reason. */
  private @Nullable String origin(String kind) {
    try {
      return Target.of(policies.apply(kind).pushUrl()).origin();
    } catch (Refused _) {
      return null;
    }
  }

  /** An operator may change URLs for ever: what was forgotten here is only learned again. */
  private Circuit circuit(String origin) {
    if (circuits.size() > ORIGINS_MAX) {
      circuits.clear();
    }
    return circuits.computeIfAbsent(origin, _ -> new Circuit());
  }

  @Override
  public Outcome deliver(Claimed job, Policy policy, JobContext context)
      throws InterruptedException {
    return deliver(job, policy, context, new Leg(job.traceparent()));
  }

  Outcome deliver(Claimed job, Policy policy, JobContext context, Leg leg)
      throws InterruptedException {
    Target target;
    List<byte[]> keys;
    try {
      target = Target.of(policy.pushUrl());
      means.allowed().check(target);
      keys = means.secrets().of(policy.pushSecret());
    } catch (Refused refused) {
      return Outcome.retry(String.valueOf(refused.getMessage()));
    }
    leg.goesTo(target.origin());
    Circuit circuit = circuit(target.origin());
    long away = circuit.begin();
    if (away > 0) {
      // Claimed before it was known: the attempt is given back.
      return Outcome.snooze(Duration.ofMillis(away));
    }
    try {
      List<InetAddress> addresses = means.names().of(target.host(), connectLimit);
      means.addresses().check(target, addresses);
      byte[] body = Envelope.of(job);
      Post.Answer answer =
          means.post().send(target, addresses, headers(job, keys, body, leg.traceparent()), body);
      leg.answered(answer.status());
      return read(target, circuit, answer);
    } catch (Refused refused) {
      circuit.ended();
      return Outcome.retry(String.valueOf(refused.getMessage()));
    } catch (IOException failure) {
      if (Thread.interrupted() || context.cancelled()) {
        circuit.ended();
        throw interrupted(failure);
      }
      down(target, circuit);
      return Outcome.retry("push to " + target.origin() + ": " + reason(failure));
    } catch (InterruptedException stop) {
      circuit.ended();
      throw stop;
    }
  }

  private static InterruptedException interrupted(IOException failure) {
    var stop = new InterruptedException("the post was interrupted");
    stop.initCause(failure);
    return stop;
  }

  private Map<String, String> headers(
      Claimed job, List<byte[]> keys, byte[] body, @Nullable String trace) {
    String id = "job_" + job.id();
    long timestamp = clock.instant().getEpochSecond();
    var headers = new LinkedHashMap<String, String>();
    headers.put("Content-Type", "application/json");
    headers.put("Accept", "*/*");
    headers.put("User-Agent", "Waybill");
    headers.put("webhook-id", id);
    headers.put("webhook-timestamp", String.valueOf(timestamp));
    headers.put("webhook-signature", Signature.of(keys, id, timestamp, body));
    if (trace != null && TraceContext.parse(trace) != null) {
      headers.put("traceparent", trace);
    }
    return headers;
  }

  private Outcome read(Target target, Circuit circuit, Post.Answer answer) {
    int status = answer.status();
    String says = "push to " + target.origin() + ": status " + status;
    switch (status) {
      case 429, 502, 503, 504 -> down(target, circuit);
      default -> up(target, circuit);
    }
    if (status < 300) {
      return Outcome.done();
    }
    if (status < 400) {
      return Outcome.retry(says + ", and redirects are not followed");
    }
    boolean again = status >= 500 || status == 408 || status == 425 || status == 429;
    if (again) {
      @Nullable Duration wait =
          status == 429 || status == 503 ? RetryAfter.of(answer, clock) : null;
      return wait == null ? Outcome.retry(says) : Outcome.retry(wait, says);
    }
    return Outcome.dead(says);
  }

  private static void up(Target target, Circuit circuit) {
    if (circuit.succeeded()) {
      LOG.infof("push target answers again target=%s", target.origin());
    }
  }

  private static void down(Target target, Circuit circuit) {
    long millis = circuit.failed();
    if (millis > 0) {
      LOG.warnf("push target is down, left alone target=%s ms=%d", target.origin(), millis);
    }
  }

  /** What is known to be free of anything that the target wrote. */
  private static String reason(IOException failure) {
    return failure instanceof SSLException
        ? "no TLS connection: " + failure.getClass().getSimpleName()
        : String.valueOf(failure.getMessage());
  }
}
