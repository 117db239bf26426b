package bench;

import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.inject.Singleton;
import java.time.Instant;

/** Does nothing. A payload with the time of its insert gets the time at which this began as its result. */
@Singleton
final class BenchHandler implements JobHandler<BenchHandler.Work> {

  record Work(Double t) {}

  record Began(double t, double began) {}

  @Override
  public String kind() {
    return "bench";
  }

  @Override
  public Outcome run(Work work, JobContext context) {
    if (work.t() == null) {
      return Outcome.done();
    }
    Instant now = Instant.now();
    return Outcome.done(new Began(work.t(), now.getEpochSecond() * 1e3 + now.getNano() / 1e6));
  }
}
