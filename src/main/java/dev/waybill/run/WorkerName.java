package dev.waybill.run;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.security.SecureRandom;
import java.util.Map;

/**
 * The name this process goes by. It tells people who holds a job; it proves nothing: that is the
 * token's part.
 */
@Singleton
final class WorkerName {

  private final String value;

  @Inject
  WorkerName(RunSettings settings) {
    value = settings.worker().orElseGet(WorkerName::invent);
  }

  String value() {
    return value;
  }

  private static String invent() {
    Map<String, String> environment = System.getenv();
    String host = environment.getOrDefault("HOSTNAME", "waybill");
    return host
        + "/"
        + Integer.toHexString(0x10000 | new SecureRandom().nextInt(0x10000)).substring(1);
  }
}
