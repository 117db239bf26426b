package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonRawValue;
import dev.waybill.deadletter.DeadLetter;
import dev.waybill.deadletter.DeadLetters;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A dead letter as REST shows it; lists leave out what is inside. */
@Schema(name = "DeadLetter")
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record DeadLetterView(
    long id,
    String kind,
    String tenant,
    int priority,
    @Schema(enumeration = "dead") String state,
    int attempt,
    @Nullable Integer maxAttempts,
    int crashes,
    OffsetDateTime createdAt,
    OffsetDateTime diedAt,
    @Nullable String worker,
    String lastError,
    @Schema(description = "The same for the same failure, whatever ids and numbers its text has")
        String fingerprint,
    List<String> tags,
    @Nullable String dedupeKey,
    @Nullable
        @JsonRawValue
        @Schema(
            implementation = Object.class,
            description = "Any JSON. Not in lists, and not for callers that may not read payloads")
        String payload,
    @Nullable Integer payloadVersion,
    @Nullable
        @JsonRawValue
        @Schema(
            type = SchemaType.ARRAY,
            implementation = JobView.AttemptView.class,
            description = "Not in lists")
        String attempts) {

  /** For {@code GET /v1/dlq}. */
  @Schema(name = "DeadLetterPage")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Page(
      List<DeadLetterView> jobs,
      @Schema(description = "Ask again with after=this; not there on the last page")
          @Nullable String next) {}

  static DeadLetterView of(DeadLetter letter) {
    return of(letter, null, null, null);
  }

  static DeadLetterView of(DeadLetters.Whole whole, boolean payloads) {
    return of(
        whole.letter(),
        payloads ? whole.payload() : null,
        whole.payloadVersion(),
        whole.attempts());
  }

  private static DeadLetterView of(
      DeadLetter letter,
      @Nullable String payload,
      @Nullable Integer payloadVersion,
      @Nullable String attempts) {
    return new DeadLetterView(
        letter.id(),
        letter.kind(),
        letter.tenant(),
        letter.priority(),
        "dead",
        letter.attempt(),
        letter.maxAttempts(),
        letter.crashes(),
        letter.createdAt(),
        letter.diedAt(),
        letter.worker(),
        letter.lastError(),
        letter.fingerprint(),
        letter.tags(),
        letter.dedupeKey(),
        payload,
        payloadVersion,
        attempts);
  }
}
