package dev.waybill.example;

import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.inject.Singleton;
import org.jspecify.annotations.Nullable;

/** Fails with {@code message}: on the first {@code times} attempts, or on every one. */
@Singleton
final class FailHandler implements JobHandler<FailHandler.Payload> {

  record Payload(@Nullable String message, @Nullable Integer times) {}

  @Override
  public String kind() {
    return "fail";
  }

  @Override
  public Outcome run(Payload payload, JobContext context) {
    boolean over = payload.times() != null && context.attempt() > payload.times();
    return over
        ? Outcome.done()
        : Outcome.retry(payload.message() == null ? "failed as asked" : payload.message());
  }
}
