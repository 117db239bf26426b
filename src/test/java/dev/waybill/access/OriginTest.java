package dev.waybill.access;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Without credentials, what keeps a foreign page in the same person's browser from posting. */
class OriginTest {

  @ParameterizedTest
  @CsvSource({
    "true, https://evil.example,",
    "true, null,",
    "true, http://localhost:9999,",
    "true, , cross-site",
    "true, , same-site",
    "true, http://localhost:8080, cross-site"
  })
  void a_foreign_page_changes_nothing(boolean changes, String origin, String site) {
    assertThrows(
        Denied.class, () -> new Origin(changes, origin, site).refuseForeignPages("localhost:8080"));
  }

  @ParameterizedTest
  @CsvSource({
    "true, ,",
    "true, http://localhost:8080, same-origin",
    "true, , none",
    "false, https://evil.example, cross-site"
  })
  void others_pass(boolean changes, String origin, String site) {
    assertDoesNotThrow(
        () -> new Origin(changes, origin, site).refuseForeignPages("localhost:8080"));
  }
}
