package dev.waybill.access;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** Knows callers by what they show. */
interface Credentials {

  /**
   * @param bearer what stands after {@code Bearer} in the request
   * @throws Denied when it proves nothing
   * @throws SQLException when it cannot be looked up now
   */
  Caller who(String bearer) throws SQLException;

  /**
   * The same for who must not wait: null when it takes more than a look to know.
   *
   * @throws Denied when it proves nothing
   */
  @Nullable Caller known(String bearer);
}
