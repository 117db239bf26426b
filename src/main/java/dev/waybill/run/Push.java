package dev.waybill.run;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import java.util.Map;

/** Works the kinds whose policy says {@code delivery: http}, in the place of a handler. */
public interface Push {

  /** Refuses a wrong setting, in one line, before anything was touched. */
  default void check() {}

  /** Posts the job to its kind's URL. */
  Outcome deliver(Claimed job, Policy policy, JobContext context) throws Exception;

  /**
   * How many more jobs of each of these kinds may be begun here now.
   *
   * @param kinds the pushed kinds of a pool, with how many jobs of each it has in hand
   */
  Map<String, Integer> room(Map<String, Integer> kinds);
}
