package dev.waybill.policy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.waybill.db.Database;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** Policies from the configuration: {@code WAYBILL_KINDS}. They fill in what nobody set. */
public final class Seeds {

  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}");
  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  /** For the log: see {@code waybill.who}. */
  private static final String WHO = "SELECT set_config('waybill.who', 'setting', true)";

  private final Map<String, OwnPolicy> policies;

  private Seeds(Map<String, OwnPolicy> policies) {
    this.policies = policies;
  }

  /** Reads the setting; the message of a refusal says what would be right. */
  public static Seeds parse(String setting) {
    var policies = new TreeMap<String, OwnPolicy>();
    if (setting.isBlank()) {
      return new Seeds(policies);
    }
    JsonNode kinds;
    try {
      kinds = JSON.readTree(setting);
    } catch (JsonProcessingException _) {
      throw refuse("it is not JSON");
    }
    if (!kinds.isObject()) {
      throw refuse("it is no JSON object");
    }
    for (Map.Entry<String, JsonNode> entry : kinds.properties()) {
      String kind = entry.getKey();
      if (!KIND.matcher(kind).matches()) {
        throw refuse("'" + kind + "' is no kind");
      }
      try {
        policies.put(kind, PolicyReader.read(entry.getValue()));
      } catch (BadPolicy bad) {
        throw refuse(kind + "." + bad.field() + ": " + bad.detail());
      }
    }
    return new Seeds(policies);
  }

  private static IllegalArgumentException refuse(String why) {
    return new IllegalArgumentException(
        "WAYBILL_KINDS: "
            + why
            + "; right would be {\"email\": {\"maxAttempts\": 5, \"lease\": \"PT1M\"}}");
  }

  /** In the order of the kinds, so that processes that start together do not wait in a circle. */
  public void sow(Database database) throws SQLException {
    if (policies.isEmpty()) {
      return;
    }
    boolean _ =
        database.transaction(connection -> {
          try (PreparedStatement who = connection.prepareStatement(WHO)) {
            boolean _ = who.execute();
          }
          for (Map.Entry<String, OwnPolicy> seed : policies.entrySet()) {
            Kinds.seed(connection, seed.getKey(), seed.getValue());
          }
          return true;
        });
  }
}
