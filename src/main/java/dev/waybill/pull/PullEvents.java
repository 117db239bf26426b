package dev.waybill.pull;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.settle.Settled;
import java.util.List;

/** What happens to jobs here, for whoever counts it. */
public interface PullEvents {

  void claimed(String pool, List<Claimed> batch, long nanos);

  void ran(Claimed job, Outcome outcome, long nanos);

  void settled(Claimed job, Outcome outcome, Settled how);

  void leaseLost(Claimed job);
}
