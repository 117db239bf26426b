package dev.waybill.run;

import dev.waybill.policy.Policies;
import dev.waybill.settle.Settler;
import dev.waybill.trace.Tracer;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;

/** What all pools of a process share. */
@Singleton
record PoolParts(
    Duties duties,
    Policies policies,
    Settler settler,
    PoolEvents events,
    RunSettings settings,
    Tracer tracer) {
  @Inject
  PoolParts {}
}
