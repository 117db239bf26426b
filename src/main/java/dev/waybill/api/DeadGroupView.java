package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.deadletter.DeadGroup;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** Dead letters of one kind with one fingerprint. */
@Schema(name = "DeadGroup")
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record DeadGroupView(
    String kind,
    String fingerprint,
    long count,
    @Nullable OffsetDateTime first,
    @Nullable OffsetDateTime last,
    @Schema(description = "The one that died last") @Nullable Sample sample) {

  /** One of the group. */
  @Schema(name = "DeadSample")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Sample(long id, @Nullable String error) {}

  /** For {@code GET /v1/dlq/groups}. */
  @Schema(name = "DeadGroupPage")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Page(List<DeadGroupView> groups, @Nullable String next) {}

  static DeadGroupView of(DeadGroup group) {
    return new DeadGroupView(
        group.kind(),
        group.fingerprint(),
        group.count(),
        group.first(),
        group.last(),
        group.sampleId() == null ? null : new Sample(group.sampleId(), group.sampleError()));
  }
}
