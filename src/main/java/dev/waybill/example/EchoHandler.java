package dev.waybill.example;

import com.fasterxml.jackson.databind.JsonNode;
import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.inject.Singleton;

/** Returns its payload as its result. */
@Singleton
final class EchoHandler implements JobHandler<JsonNode> {

  @Override
  public String kind() {
    return "echo";
  }

  @Override
  public Outcome run(JsonNode payload, JobContext context) {
    return Outcome.done(payload);
  }
}
