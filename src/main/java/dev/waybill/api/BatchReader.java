package dev.waybill.api;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.ObjectReader;
import dev.waybill.access.Caller;
import dev.waybill.access.Denied;
import dev.waybill.enqueue.NewJob;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Reads the jobs of a batch as they come in, one after the other: a JSON array of them, or one a
 * line. Says of what it refuses in which line and at which place it is.
 */
final class BatchReader {

  static final int JOBS_MAX = 10_000;
  static final long BYTES_MAX = 64L << 20;

  /**
   * One job, and where it stands.
   *
   * @param line from 1
   * @param index from 0
   */
  record Row(NewJob job, int line, int index) {}

  private final Bodies.Bounded body;
  private final JsonParser parser;
  private final boolean lines;
  private final Requests requests;
  private final ObjectReader each;
  private final Caller caller;
  private final @Nullable String traceparent;
  private final Idempotency.@Nullable Fingerprint fingerprint;
  private int index;
  private boolean begun;
  private boolean ended;

  /**
   * @param lines one a line (NDJSON), and not an array
   * @param fingerprint gets every job that was read
   */
  BatchReader(
      Requests requests,
      InputStream body,
      boolean lines,
      Caller caller,
      @Nullable String traceparent,
      Idempotency.@Nullable Fingerprint fingerprint) {
    this.requests = requests;
    this.body = new Bodies.Bounded(body, BYTES_MAX);
    this.lines = lines;
    this.caller = caller;
    this.traceparent = traceparent;
    this.fingerprint = fingerprint;
    this.each = requests.eachJob();
    try {
      this.parser = each.getFactory().createParser(this.body);
    } catch (IOException _) {
      throw Problem.malformed("The body cannot be read.");
    }
  }

  /** The next jobs, until their payloads have so many characters; empty at the end. */
  List<Row> next(int chars, int rows) {
    var some = new ArrayList<Row>();
    long read = 0;
    while (read < chars && some.size() < rows) {
      @Nullable Row row = one();
      if (row == null) {
        break;
      }
      some.add(row);
      read += row.job().payload().length();
    }
    return some;
  }

  private @Nullable Row one() {
    int line = 1;
    try {
      if (ended || !atJob()) {
        ended = true;
        return null;
      }
      line = parser.currentTokenLocation().getLineNr();
      if (index == JOBS_MAX) {
        throw Problem.tooLarge("A batch holds at most " + JOBS_MAX + " jobs.");
      }
      if (parser.currentToken() != JsonToken.START_OBJECT) {
        throw Problem.malformed("A job is a JSON object.");
      }
      EnqueueBody read = each.readValue(parser);
      NewJob job = requests.newJob(read, caller, traceparent);
      body.another();
      if (fingerprint != null) {
        fingerprint.add(job);
      }
      return new Row(job, line, index++);
    } catch (Problem.Thrown refused) {
      throw new Problem.Thrown(refused.problem().at(line, index));
    } catch (Denied denied) {
      throw new Problem.Thrown(Problem.denied(denied).at(line, index));
    } catch (JsonProcessingException unreadable) {
      throw new Problem.Thrown(
          Requests.refused(unreadable).problem().at(lineOf(unreadable, line), index));
    } catch (IOException _) {
      throw Problem.malformed("The body ended early, or is not UTF-8.");
    }
  }

  private static int lineOf(JsonProcessingException unreadable, int begin) {
    return unreadable.getLocation() == null
        ? begin
        : Math.max(begin, unreadable.getLocation().getLineNr());
  }

  /** Moves on to the next job; false at the end. */
  private boolean atJob() throws IOException {
    @Nullable JsonToken token = parser.nextToken();
    if (lines) {
      return token != null;
    }
    if (!begun) {
      begun = true;
      if (token != JsonToken.START_ARRAY) {
        throw Problem.malformed(
            "A JSON array of jobs is expected; for one job a line send application/x-ndjson.");
      }
      token = parser.nextToken();
    }
    if (token == null) {
      throw Problem.malformed("The array does not end.");
    }
    if (token != JsonToken.END_ARRAY) {
      return true;
    }
    if (parser.nextToken() != null) {
      throw Problem.malformed("Something comes after the array.");
    }
    return false;
  }
}
