package dev.waybill.deliver;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What posts are signed with, by name: a policy names a secret and never holds one. While a secret
 * is changed a name has two, and each signs.
 */
final class Secrets {

  /** Signs for policies that name none. */
  static final String DEFAULT = "default";

  private static final String PREFIX = "whsec_";
  private static final int BYTES_MIN = 24;
  private static final int BYTES_MAX = 64;

  private final Map<String, List<byte[]>> byName;

  private Secrets(Map<String, List<byte[]>> byName) {
    this.byName = byName;
  }

  /** The message of a refusal says what would be right, and holds nothing of a secret. */
  static Secrets parse(String setting) {
    var byName = new HashMap<String, List<byte[]>>();
    for (String line : setting.split("[;\\n]", -1)) {
      if (line.isBlank()) {
        continue;
      }
      int equals = line.indexOf('=');
      String name = equals < 0 ? "" : line.substring(0, equals).strip();
      if (!name.matches("[A-Za-z0-9_.-]{1,128}")) {
        throw refuse("an entry does not begin with a name");
      }
      var keys = new ArrayList<byte[]>();
      for (String secret : line.substring(equals + 1).strip().split("[,\\s]+", -1)) {
        byte @Nullable [] key = key(secret);
        if (key == null) {
          throw refuse("a secret of " + name + " is not whsec_ and base64 of 24 to 64 bytes");
        }
        keys.add(key);
      }
      if (byName.put(name, List.copyOf(keys)) != null) {
        throw refuse("the name " + name + " is there twice");
      }
    }
    return new Secrets(Map.copyOf(byName));
  }

  /** Of a setting of its own, which holds no names; none of an empty one. */
  static List<byte[]> keys(String setting, String secrets) {
    if (secrets.isEmpty()) {
      return List.of();
    }
    var keys = new ArrayList<byte[]>();
    for (String secret : secrets.split("[,\\s]+", -1)) {
      byte @Nullable [] key = key(secret);
      if (key == null) {
        throw new IllegalArgumentException(
            setting
                + ": it is not whsec_ and base64 of 24 to 64 bytes; right would be whsec_ and what"
                + " openssl rand -base64 32 makes, a second one behind a comma");
      }
      keys.add(key);
    }
    return List.copyOf(keys);
  }

  private static byte @Nullable [] key(String secret) {
    try {
      if (secret.startsWith(PREFIX)) {
        byte[] key = Base64.getDecoder().decode(secret.substring(PREFIX.length()));
        if (key.length >= BYTES_MIN && key.length <= BYTES_MAX) {
          return key;
        }
      }
    } catch (IllegalArgumentException _) {
      // Its message would quote the secret.
    }
    return null;
  }

  private static IllegalArgumentException refuse(String why) {
    return new IllegalArgumentException(
        "WAYBILL_PUSH_SECRETS: "
            + why
            + "; right would be name=whsec_... with what openssl rand -base64 32 makes, a second"
            + " one behind a comma");
  }

  List<byte[]> of(@Nullable String named) throws Refused {
    String name = named == null ? DEFAULT : named;
    @Nullable List<byte[]> keys = byName.get(name);
    if (keys == null) {
      throw new Refused("there is no push secret " + name + " in WAYBILL_PUSH_SECRETS");
    }
    return keys;
  }
}
