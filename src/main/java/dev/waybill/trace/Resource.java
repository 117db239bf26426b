package dev.waybill.trace;

import java.util.LinkedHashMap;
import java.util.Map;

/** Who sends. */
record Resource(Map<String, String> attributes, String version) {

  static Resource of(TraceSettings settings, String version) {
    var attributes = new LinkedHashMap<String, String>();
    attributes.put("service.name", settings.serviceName());
    attributes.put("service.version", version);
    Pairs.read("OTEL_RESOURCE_ATTRIBUTES", settings.resourceAttributes().orElse(""))
        .forEach(attributes::put);
    return new Resource(attributes, version);
  }
}
