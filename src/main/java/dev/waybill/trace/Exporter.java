package dev.waybill.trace;

import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.LongAdder;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Sends spans to a collector, OTLP as JSON over HTTP, from a thread of its own. Whoever has a span
 * never waits: a full queue drops it, and a collector that is away costs the spans of that time.
 */
final class Exporter {

  private static final Logger LOG = Logger.getLogger(Exporter.class);
  private static final int QUEUE_MAX = 4_096;
  private static final int BATCH_MAX = 512;
  private static final long EVERY_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final long LAST_MILLIS = 2_000;
  private static final int TRIES = 3;

  /** By OTLP's rules these may be tried again. */
  private static final List<Integer> PASSING = List.of(429, 502, 503, 504);

  private final HttpRequest to;
  private final Duration limit;
  private final Resource resource;
  private final InstantSource clock = InstantSource.system();
  private final ArrayBlockingQueue<Span> queue = new ArrayBlockingQueue<>(QUEUE_MAX);
  private final LongAdder sent = new LongAdder();
  private final LongAdder dropped = new LongAdder();
  private volatile boolean stopping;
  private boolean failing;
  private @Nullable HttpClient client;
  private @Nullable Thread thread;

  /**
   * @param to what a batch is added to
   * @param limit for a batch to be sent and answered
   */
  Exporter(HttpRequest to, Duration limit, Resource resource) {
    this.to = to;
    this.limit = limit;
    this.resource = resource;
  }

  void start() {
    client = HttpClient.newBuilder().connectTimeout(limit).build();
    thread = Thread.ofPlatform().daemon().name("trace-export").start(this::turn);
  }

  /** Spans are told in the time of the world; within one, durations are the machine's. */
  long nowMicros() {
    var now = clock.instant();
    return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
  }

  void offer(Span span) {
    if (!queue.offer(span)) {
      dropped.increment();
    }
  }

  long sent() {
    return sent.sum();
  }

  long dropped() {
    return dropped.sum();
  }

  /** Sends what is there, for two seconds at most. */
  void stop() throws InterruptedException {
    stopping = true;
    @Nullable Thread ending = thread;
    if (ending != null) {
      ending.interrupt();
      ending.join(LAST_MILLIS);
    }
  }

  private void turn() {
    var batch = new ArrayList<Span>(BATCH_MAX);
    while (!stopping) {
      try {
        gather(batch);
        send(batch);
      } catch (InterruptedException _) {
        // Stopping: what is left goes below.
      } catch (RuntimeException | Error bug) {
        drop(batch, bug.getClass().getName());
      }
    }
    last(batch);
  }

  /** Waits for a first one without end: an idle service does nothing here. */
  private void gather(List<Span> batch) throws InterruptedException {
    if (batch.isEmpty()) {
      batch.add(queue.take());
    }
    long end = System.nanoTime() + EVERY_NANOS;
    for (long left = EVERY_NANOS;
        batch.size() < BATCH_MAX && left > 0;
        left = end - System.nanoTime()) {
      @Nullable Span next = queue.poll(left, TimeUnit.NANOSECONDS);
      if (next != null) {
        batch.add(next);
      }
    }
  }

  private void last(List<Span> batch) {
    try {
      int _ = queue.drainTo(batch, QUEUE_MAX);
      if (!batch.isEmpty()) {
        boolean _ = post(batch, Duration.ofMillis(LAST_MILLIS)) == 200;
      }
    } catch (InterruptedException | IOException | RuntimeException _) {
      LOG.debugf("spans=%d lost at the end", batch.size());
    }
  }

  private void send(List<Span> batch) throws InterruptedException {
    String why = "";
    for (int tries = 1; tries <= TRIES; tries++) {
      try {
        int status = post(batch, limit);
        if (status / 100 == 2) {
          sent.add(batch.size());
          batch.clear();
          if (failing) {
            LOG.infof("spans are sent again endpoint=%s", endpoint());
          }
          failing = false;
          return;
        }
        why = "status " + status;
        if (!PASSING.contains(status)) {
          break;
        }
      } catch (IOException failure) {
        why = failure.getClass().getSimpleName();
      }
      if (tries < TRIES) {
        pause(tries);
      }
    }
    drop(batch, why);
  }

  /**
   * @param why without the text of a throwable: it may quote a header, or the URL
   */
  private void drop(List<Span> batch, String why) {
    dropped.add(batch.size());
    batch.clear();
    if (!failing) {
      LOG.warnf("spans are not sent, dropping them endpoint=%s reason=%s", endpoint(), why);
    }
    failing = true;
  }

  private String endpoint() {
    int port = to.uri().getPort();
    return to.uri().getHost() + (port < 0 ? "" : ":" + port);
  }

  private static void pause(int tries) throws InterruptedException {
    TimeUnit.MILLISECONDS.sleep(500L * tries);
  }

  private int post(List<Span> batch, Duration within) throws IOException, InterruptedException {
    HttpClient http = client;
    if (http == null) {
      throw new IOException("not started");
    }
    HttpRequest request =
        HttpRequest.newBuilder(to, (_, _) -> true)
            .POST(HttpRequest.BodyPublishers.ofByteArray(Otlp.write(resource, batch)))
            .build();
    // A request's own timeout ends at the head of the answer: its body may never come.
    CompletableFuture<HttpResponse<Void>> answer =
        http.sendAsync(request, HttpResponse.BodyHandlers.discarding());
    try {
      return answer.get(within.toMillis(), TimeUnit.MILLISECONDS).statusCode();
    } catch (TimeoutException _) {
      throw new HttpTimeoutException("no answer");
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof IOException cause ? cause : new IOException(failure);
    } finally {
      // Of no effect on one that came.
      boolean _ = answer.cancel(true);
    }
  }
}
