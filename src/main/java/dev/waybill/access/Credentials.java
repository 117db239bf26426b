package dev.waybill.access;

import java.sql.SQLException;

/** Knows callers by what they show. */
interface Credentials {

  /**
   * @param bearer what stands after {@code Bearer} in the request
   * @throws Denied when it proves nothing
   * @throws SQLException when it cannot be looked up now
   */
  Caller who(String bearer) throws SQLException;
}
