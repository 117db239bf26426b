package dev.waybill.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.doctor.Patient.Limits;
import dev.waybill.doctor.Patient.Login;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What no test can bring about in a database: clocks apart, a billion transactions. */
class JudgeTest {

  private static final Path RESOURCES = Path.of("src/main/resources");

  @ParameterizedTest
  @CsvSource({"0.5, 0, OK", "-3, 0, WARN", "3, 2, OK", "61, 0, WRONG", "-3600, 0, WRONG"})
  void clocks_apart_are_judged_beyond_what_the_way_there_took(
      double ahead, double unsure, Verdict verdict) {
    Finding finding = Clocks.judge(ahead, unsure);
    assertEquals(verdict, finding.verdict());
    assertTrue(finding.says().contains(ahead < 0 ? "behind" : "ahead of"), finding.says());
  }

  @ParameterizedTest
  @CsvSource({
    "10, 49999, OK",
    "10, 50000, WARN",
    "1000000, 400000, OK",
    "1000, 1000000, WRONG",
    "10000000, 1000000, OK"
  })
  void dead_rows_count_beside_the_living(long live, long dead, Verdict verdict) {
    assertEquals(verdict, VacuumDebt.judge(live, dead));
  }

  @ParameterizedTest
  @CsvSource({"200000000, OK", "500000000, WARN", "1500000000, WRONG"})
  void old_transaction_numbers_are_told_before_the_server_stops(long age, Verdict verdict) {
    assertEquals(verdict, VacuumDebt.judgeXid(age).verdict());
  }

  @Test
  void a_quarter_of_a_limit_is_a_warning() {
    Limits limits = new Limits(120, 300);
    assertEquals(Verdict.OK, limits.ofLag(29));
    assertEquals(Verdict.WARN, limits.ofLag(30));
    assertEquals(Verdict.WRONG, limits.ofLag(120));
    assertEquals(Verdict.WRONG, limits.ofSnapshot(300));
  }

  @Test
  void a_password_in_a_url_is_not_shown() {
    var login = new Login("jdbc:postgresql://db:5432/waybill?password=hunter2", "waybill", "x");
    assertEquals("postgresql://db:5432/waybill as waybill", login.toString());
  }

  @Test
  void it_knows_the_newest_migration() throws IOException {
    try (Stream<Path> files = Files.list(RESOURCES.resolve("db/waybill"))) {
      int newest =
          files
              .map(file -> String.valueOf(file.getFileName()))
              .filter(name -> name.matches("V\\d+__.*"))
              .mapToInt(name -> Integer.parseInt(name.substring(1, name.indexOf("__"))))
              .max()
              .orElseThrow();
      assertEquals(newest, SchemaChecks.NEWEST, "tell doctor.SchemaChecks of the new migration");
    }
  }

  @Test
  void what_it_asks_of_a_role_behind_a_pooler_is_what_the_engine_sets() throws IOException {
    String settings =
        Files.readString(RESOURCES.resolve("META-INF/microprofile-config.properties"));
    List<String> unknown =
        Ears.ENGINE.stream().filter(one -> !settings.contains("SET " + one)).toList();
    assertEquals(List.of(), unknown);
  }
}
