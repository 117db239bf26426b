package com.example;

import dev.waybill.job.Outcome;
import dev.waybill.run.JobContext;
import dev.waybill.run.JobHandler;
import jakarta.inject.Singleton;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;

/** Greets the guests of a party. The records need no annotation: Waybill makes them known to Jackson, in native images too. */
@Singleton
public class GreetHandler implements JobHandler<GreetHandler.Party> {

  /** The payload: {@code {"guests": [{"name": "Ada"}], "begins": "2027-01-01T18:00:00Z", "lasts": "PT2H"}}. */
  public record Party(List<Guest> guests, OffsetDateTime begins, Duration lasts) {}

  public record Guest(String name) {}

  /** The result, kept with the job. */
  public record Greeted(List<Greeting> greetings, OffsetDateTime ends, int attempt) {}

  public record Greeting(String text) {}

  @Override
  public String kind() {
    return "greet";
  }

  @Override
  public Outcome run(Party party, JobContext context) {
    List<Greeting> greetings =
        party.guests().stream().map(guest -> new Greeting("Hello, " + guest.name() + "!")).toList();
    return Outcome.done(new Greeted(greetings, party.begins().plus(party.lasts()), context.attempt()));
  }
}
