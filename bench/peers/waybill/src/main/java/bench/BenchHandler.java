package bench;

import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.annotation.PreDestroy;
import jakarta.inject.Singleton;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Does nothing. Where the payload has the time of its insert it notes when it began; at the end the notes are written to a file,
 * as the workers of the others do.
 */
@Singleton
final class BenchHandler implements JobHandler<BenchHandler.Work> {

  record Work(Double t) {}

  private final ConcurrentLinkedQueue<double[]> seen = new ConcurrentLinkedQueue<>();

  @Override
  public String kind() {
    return "bench";
  }

  @Override
  public Outcome run(Work work, JobContext context) {
    if (work.t() != null) {
      Instant now = Instant.now();
      seen.add(new double[] {work.t(), now.getEpochSecond() * 1e3 + now.getNano() / 1e6});
    }
    return Outcome.done();
  }

  @PreDestroy
  void write() throws IOException {
    String file = System.getenv("BENCH_PICKUPS");
    if (file != null) {
      List<String> lines = seen.stream().map(s -> s[0] + " " + s[1]).toList();
      Files.write(Path.of(file), lines);
    }
  }
}
