package dev.waybill;

import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** What this process does: {@code WAYBILL_ROLES}. */
enum Role {
  API,
  WORKER,
  MAINTENANCE;

  static Set<Role> parse(String setting) {
    var roles = EnumSet.noneOf(Role.class);
    for (String word : setting.split(",", -1)) {
      try {
        roles.add(Role.valueOf(word.strip().toUpperCase(Locale.ROOT)));
      } catch (IllegalArgumentException _) {
        throw new IllegalArgumentException(
            "WAYBILL_ROLES: '"
                + word.strip()
                + "' is no role; right would be api,worker,maintenance");
      }
    }
    return roles;
  }
}
