package dev.waybill.api;

import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpHeaders;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpVersion;
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
    request.exceptionHandler(_ -> fail(endedEarly())).handler(this::came).endHandler(_ -> ended());
    if (request.headers().contains(HttpHeaders.EXPECT, HttpHeaders.CONTINUE, true)) {
      request.response().writeContinue();
    }
    request.resume();
    // Mostly it is here by then, and no timer needed.
    context.runOnContext(_ -> {
      if (!all.isDone()) {
        awaitRest();
      }
    });
  }

  /** That its sender is gone was said before somebody listened, while the guard was asking. */
  private void awaitRest() {
    if (request.response().closed()) {
      fail(endedEarly());
    } else {
      boundTime();
    }
  }

  private static Problem.Thrown endedEarly() {
    return Problem.malformed("The body ended early.");
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
    if (all.isDone()) {
      return; // Refused: what else comes passes until the connection closes.
    }
    if (count > PASSING_MAX) {
      hangUp(Bodies.tooLarge(Bodies.ONE_MAX));
    } else if (count <= Bodies.ONE_MAX) {
      keep(part);
    }
  }

  /** A part that finds no memory ends it: others may find some, and what came of it be JSON. */
  private void keep(Buffer part) {
    try {
      read.writeBytes(part.getBytes());
    } catch (RuntimeException | Error failure) {
      hangUp(failure);
    }
  }

  private void ended() {
    // The request is there until it is answered; what was read need not wait with it.
    request.handler(null).endHandler(null).exceptionHandler(null);
    if (count > Bodies.ONE_MAX) {
      fail(Bodies.tooLarge(Bodies.ONE_MAX));
      return;
    }
    byte[] body;
    try {
      body = read.toByteArray();
    } catch (RuntimeException | Error failure) {
      fail(failure);
      return;
    }
    boolean _ = all.complete(body);
  }

  private void late() {
    hangUp(Bodies.tooSlow());
  }

  /** What else it sends is not waited for. */
  private void hangUp(Throwable why) {
    fail(why);
    long _ = context.owner().setTimer(HANG_UP_MILLIS, _ -> close());
  }

  /**
   * Unless it ended after all: the next request may be on its way. Others may share an HTTP/2
   * connection, behind a proxy also those of other clients.
   */
  private void close() {
    if (request.isEnded()) {
      return;
    }
    if (request.version() == HttpVersion.HTTP_2) {
      boolean _ = request.response().reset();
    } else {
      Future<Void> _ = request.connection().close();
    }
  }

  private void fail(Throwable why) {
    boolean _ = all.completeExceptionally(why);
  }
}
