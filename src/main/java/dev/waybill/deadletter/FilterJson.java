package dev.waybill.deadletter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.jspecify.annotations.Nullable;

/** A filter as the log keeps it. */
final class FilterJson {

  private FilterJson() {}

  static String of(DeadFilter filter, Scope scope) {
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    put(json, "kind", filter.kind());
    put(json, "tenant", filter.tenantWithin(scope));
    put(json, "fingerprint", filter.fingerprint());
    put(json, "diedAfter", filter.diedAfter());
    put(json, "diedBefore", filter.diedBefore());
    if (filter.ids() != null) {
      var ids = json.putArray("ids");
      filter.ids().forEach(ids::add);
    }
    if (scope.kinds() != null) {
      var kinds = json.putArray("kinds");
      scope.kinds().stream().sorted().forEach(kinds::add);
    }
    return json.toString();
  }

  private static void put(ObjectNode json, String field, @Nullable Object value) {
    if (value != null) {
      json.put(field, value.toString());
    }
  }
}
