package dev.waybill.access;

import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Who asks.
 *
 * @param name of the credential, for the audit log
 * @param tenant whose jobs the caller may see and make; null: everybody's
 * @param kinds the kinds the caller may see and make; null: all
 * @param payloads whether payloads and results may be read
 */
public record Caller(
    String name,
    Role role,
    @Nullable String tenant,
    @Nullable Set<String> kinds,
    boolean payloads) {

  /** Where nobody is asked who they are. */
  static final Caller ANYBODY = new Caller("anybody", Role.OPERATOR, null, null, true);

  public Caller {
    kinds = kinds == null ? null : Set.copyOf(kinds);
  }

  /**
   * Binds the last two arguments of {@code waybill.visible(tenant, kind, ?, ?)}, the condition that
   * every statement carries which reads or changes jobs for a caller. It is inlined by the planner,
   * and falls away for a caller that is bound to nothing.
   *
   * @return the index of the parameter after them
   */
  public int bindScope(PreparedStatement statement, int at) throws SQLException {
    statement.setString(at, tenant);
    statement.setArray(
        at + 1,
        kinds == null ? null : statement.getConnection().createArrayOf("text", kinds.toArray()));
    return at + 2;
  }

  /**
   * The tenant of something new.
   *
   * @param asked what the request says, or null when it says nothing
   * @throws Denied when the caller is bound to another one
   */
  public String tenantFor(@Nullable String asked) {
    if (tenant == null) {
      return asked == null ? "" : asked;
    }
    if (asked != null && !asked.equals(tenant)) {
      throw Denied.field("tenant", "This credential is for another tenant.");
    }
    return tenant;
  }

  /**
   * For what a request names and makes or changes. What it only reads by id is not there instead.
   *
   * @throws Denied when the caller may not use that kind
   */
  public void checkKind(String field, String kind) {
    if (kinds != null && !kinds.contains(kind)) {
      throw Denied.field(field, "This credential is not for that kind.");
    }
  }

  /**
   * For what concerns every kind, and names none.
   *
   * @throws Denied when the caller is bound to some of them
   */
  public void checkEveryKind() {
    if (kinds != null) {
      throw Denied.forbidden("It concerns every kind, and this credential is for some of them.");
    }
  }

  /** Two callers with the same scope see the same idempotency keys. */
  public String scope() {
    return tenant == null ? "" : "tenant:" + tenant;
  }
}
