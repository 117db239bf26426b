package dev.waybill.api;

import dev.waybill.access.Role;
import dev.waybill.access.Tokens;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Reads what a new token is to be. */
@Singleton
final class TokenRequests {

  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}");
  private static final int NAME_MAX = 128;
  private static final int KINDS_MAX = 100;

  private final Requests requests;

  @Inject
  TokenRequests(Requests requests) {
    this.requests = requests;
  }

  Tokens.NewToken newToken(byte[] body) {
    TokenBody read = requests.read(body, TokenBody.class);
    @Nullable Duration expiresIn = Requests.duration("expiresIn", read.expiresIn());
    if (expiresIn != null && expiresIn.isZero()) {
      throw Problem.invalid("expiresIn", "It would expire at once.");
    }
    return new Tokens.NewToken(
        text("name", read.name(), 1),
        role(read.role()),
        read.tenant() == null ? null : text("tenant", read.tenant(), 0),
        kinds(read.kinds()),
        read.payloads(),
        expiresIn == null ? null : expiresIn.toMillis());
  }

  private static String text(String field, @Nullable String text, int min) {
    if (text == null || text.length() < min || text.length() > NAME_MAX) {
      throw Problem.invalid(field, "It is " + min + " to " + NAME_MAX + " characters.");
    }
    if (text.chars().anyMatch(Character::isISOControl)) {
      throw Problem.invalid(field, "It holds control characters.");
    }
    return Requests.storable(field, text);
  }

  private static Role role(@Nullable String word) {
    Optional<Role> role =
        Arrays.stream(Role.values()).filter(each -> each.word().equals(word)).findFirst();
    return role.orElseThrow(
        () -> Problem.invalid("role", "It is one of producer, worker, operator, viewer."));
  }

  private static @Nullable List<String> kinds(@Nullable List<@Nullable String> kinds) {
    if (kinds == null) {
      return null;
    }
    var read = new ArrayList<String>();
    for (String kind : kinds) {
      if (kind == null || !KIND.matcher(kind).matches()) {
        throw Problem.invalid("kinds", "One of them is no kind.");
      }
      if (!read.contains(kind)) {
        read.add(kind);
      }
    }
    if (read.isEmpty() || read.size() > KINDS_MAX) {
      throw Problem.invalid("kinds", "They are 1 to " + KINDS_MAX + "; left out: all.");
    }
    return read;
  }
}
