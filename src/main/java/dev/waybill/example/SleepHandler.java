package dev.waybill.example;

import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.inject.Singleton;
import java.util.concurrent.TimeUnit;

/** Sleeps for {@code ms} milliseconds, and wakes when it is interrupted. */
@Singleton
final class SleepHandler implements JobHandler<SleepHandler.Payload> {

  record Payload(long ms) {}

  @Override
  public String kind() {
    return "sleep";
  }

  @Override
  public Outcome run(Payload payload, JobContext context) throws InterruptedException {
    TimeUnit.MILLISECONDS.sleep(payload.ms());
    return Outcome.done();
  }
}
