package dev.waybill.run;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * Lifts the payload of one kind from a version to the next, so that jobs in flight survive a change
 * of shape. A CDI bean; several form a chain up to the version that the handler speaks.
 */
public interface Upcaster {

  String kind();

  /** The version it reads; it writes the one after. */
  int fromVersion();

  JsonNode lift(JsonNode payload);
}
