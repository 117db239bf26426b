package dev.waybill.api;

import io.vertx.core.Context;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpHeaders;
import io.vertx.core.http.HttpServerRequest;
import java.io.ByteArrayOutputStream;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * The body of a request as it comes, for who has no thread to wait for it; bounded as {@link
 * Bodies} are. All of it happens on the event loop of the request.
 */
final class Arriving {

  private static final byte[] EMPTY = {};

  /** What is too large is let pass up to here, so that its sender gets to read the answer. */
  private static final long PASSING_MAX = 64L << 20;

  private static final long HANG_UP_MILLIS = 1_000;

  private final HttpServerRequest request;
  private final Context context;
  private final CompletableFuture<byte[]> all = new CompletableFuture<>();
  private final ByteArrayOutputStream read = new ByteArrayOutputStream(512);
  private long count;

  private Arriving(HttpServerRequest request, Context context) {
    this.request = request;
    this.context = context;
  }

  /** All of a body that holds one thing; or a {@link Problem.Thrown}. */
  static CompletionStage<byte[]> body(HttpServerRequest request) {
    if (request.isEnded()) {
      return CompletableFuture.completedStage(EMPTY);
    }
    var arriving = new Arriving(request, Aside.eventLoop());
    arriving.begin();
    return arriving.all;
  }

  private void begin() {
    request
        .exceptionHandler(_ -> fail(Problem.malformed("The body ended early.")))
        .handler(this::came)
        .endHandler(_ -> ended());
    if (request.headers().contains(HttpHeaders.EXPECT, HttpHeaders.CONTINUE, true)) {
      request.response().writeContinue();
    }
    request.resume();
    // Mostly it is here by then, and no timer needed.
    context.runOnContext(_ -> {
      if (!all.isDone()) {
        boundTime();
      }
    });
  }

  private void boundTime() {
    long timer = context.owner().setTimer(Bodies.READ_MILLIS_MAX, _ -> late());
    CompletableFuture<byte[]> _ =
        all.whenComplete((_, _) -> {
          boolean _ = context.owner().cancelTimer(timer);
        });
  }

  private void came(Buffer part) {
    count += part.length();
    if (count > PASSING_MAX) {
      hangUp(Bodies.tooLarge(Bodies.ONE_MAX));
    } else if (count <= Bodies.ONE_MAX) {
      read.writeBytes(part.getBytes());
    }
  }

  private void ended() {
    if (count > Bodies.ONE_MAX) {
      fail(Bodies.tooLarge(Bodies.ONE_MAX));
    } else {
      boolean _ = all.complete(read.toByteArray());
    }
  }

  private void late() {
    hangUp(Bodies.tooSlow());
  }

  /** What else it sends is not waited for. */
  private void hangUp(Problem.Thrown why) {
    fail(why);
    long _ = context.owner().setTimer(HANG_UP_MILLIS, _ -> request.connection().close());
  }

  private void fail(Problem.Thrown why) {
    boolean _ = all.completeExceptionally(why);
  }
}
