package dev.waybill.api;

import io.vertx.core.Context;
import io.vertx.core.Vertx;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/** For requests that are served on their event loop: what may wait, or takes long, goes aside. */
final class Aside {

  private Aside() {}

  /** That of the request that is being served. */
  static Context eventLoop() {
    @Nullable Context context = Vertx.currentContext();
    if (context == null) {
      throw new IllegalStateException("asked outside of a request");
    }
    return context;
  }

  static Executor on(Context eventLoop) {
    return work -> eventLoop.runOnContext(_ -> work.run());
  }

  /** Does it on a virtual thread, and goes on with what came of it on the event loop. */
  static <T> CompletionStage<T> call(Callable<T> work, Executor eventLoop) {
    var answer = new CompletableFuture<T>();
    Thread _ = Thread.startVirtualThread(() -> run(work, answer, eventLoop));
    return answer;
  }

  private static <T> void run(Callable<T> work, CompletableFuture<T> answer, Executor eventLoop) {
    try {
      T done = work.call();
      eventLoop.execute(() -> answer.complete(done));
    } catch (Throwable failure) {
      eventLoop.execute(() -> answer.completeExceptionally(failure));
    }
  }
}
