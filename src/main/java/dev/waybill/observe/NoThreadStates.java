package dev.waybill.observe;

import io.micrometer.core.instrument.config.MeterFilter;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Singleton;

/**
 * Leaves {@code jvm_threads_states} out. To count threads by state the JVM takes a snapshot of all
 * of them, and that of JDK 25.0.3 crashes (SIGSEGV in {@code ThreadSnapshot::initialize}) when a
 * carrier is busy with virtual threads: a scrape in a drain killed the service.
 */
final class NoThreadStates {

  private NoThreadStates() {}

  @Produces
  @Singleton
  static MeterFilter filter() {
    return MeterFilter.denyNameStartsWith("jvm.threads.states");
  }
}
