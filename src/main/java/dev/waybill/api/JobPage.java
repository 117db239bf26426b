package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/**
 * A page of jobs.
 *
 * @param next where the next page begins; not there when this is the last
 */
@Schema(name = "JobPage", requiredProperties = "jobs")
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record JobPage(
    List<JobSummary> jobs,
    @Schema(
            description =
                "Send it as `after` to go on. A page may hold fewer jobs than asked for, even none, and still"
                    + " have it: then the search was cut short. Not there: nothing is left.",
            examples = "MTo0Mg")
        @Nullable String next) {

  public JobPage {
    jobs = List.copyOf(jobs);
  }
}
