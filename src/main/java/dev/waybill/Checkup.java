package dev.waybill;

import dev.waybill.doctor.Doctor;
import dev.waybill.doctor.Patient;
import dev.waybill.doctor.Patient.Limits;
import dev.waybill.doctor.Patient.Login;
import dev.waybill.doctor.Report;
import dev.waybill.doctor.Verdict;
import dev.waybill.embedded.EmbeddedDatabase;
import dev.waybill.embedded.Refused;
import io.quarkus.runtime.configuration.DurationConverter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * {@code waybill doctor}: with the service's own settings, before and without Quarkus. No port is
 * opened, no log begins, and no database is started.
 */
final class Checkup {

  static final String WORD = "doctor";

  static final int EXIT_WELL = 0;
  static final int EXIT_WRONG = 1;
  static final int EXIT_NOT_CHECKED = 2;

  private static final String USAGE =
      """
      waybill doctor [--json] [--strict] [--lag 2m] [--snapshot 5m]
      Looks at the database of the WAYBILL_ settings, changes nothing, and says what is wrong and how to mend it.
        --json      one JSON object instead of lines
        --strict    warnings count as wrong
        --lag       from such a wait of a ready job on something is wrong (a quarter of it: a warning)
        --snapshot  from such an age of a transaction on something is wrong (a quarter of it: a warning)
      Exit code: 0 nothing is wrong, 1 something is wrong, 2 it could not be checked.
      """;

  /** Beside the pools: one for heartbeats, one to listen. */
  private static final int CONNECTIONS_OF_THEIR_OWN = 2;

  private boolean json;
  private boolean strict;
  private boolean help;
  private double lagSeconds = Limits.USUAL.lagSeconds();
  private double snapshotSeconds = Limits.USUAL.snapshotSeconds();

  private Checkup() {}

  /** Answers the exit code. */
  static int run(List<String> words) {
    var checkup = new Checkup();
    try {
      checkup.read(words.iterator());
      if (checkup.help) {
        System.out.print(USAGE);
        return EXIT_WELL;
      }
      SecretFiles.read();
      Report report = Doctor.examine(checkup.patient());
      System.out.print(checkup.json ? report.json() : report.text());
      return checkup.exitCode(report);
    } catch (Preflight.Refused
        | DatabaseUrl.Refused
        | Refused
        | Doctor.Unreachable
        | IllegalArgumentException refused) {
      System.err.println("waybill: " + refused.getMessage());
      return EXIT_NOT_CHECKED;
    }
  }

  private int exitCode(Report report) {
    long wrong = report.count(Verdict.WRONG) + (strict ? report.count(Verdict.WARN) : 0);
    return wrong == 0 ? EXIT_WELL : EXIT_WRONG;
  }

  private void read(Iterator<String> words) throws Preflight.Refused {
    while (words.hasNext()) {
      String word = words.next();
      switch (word) {
        case "--json" -> json = true;
        case "--strict" -> strict = true;
        case "--help", "-h" -> help = true;
        case "--lag" -> lagSeconds = seconds(word, words);
        case "--snapshot" -> snapshotSeconds = seconds(word, words);
        default ->
            throw new Preflight.Refused(
                "doctor: '"
                    + word
                    + "' is not known; right would be --json, --strict, --lag 2m, --snapshot 5m");
      }
    }
  }

  private static double seconds(String option, Iterator<String> words) throws Preflight.Refused {
    String text = "";
    try {
      text = words.next();
      Duration read = DurationConverter.parseDuration(text);
      if (read.isPositive()) {
        return read.toMillis() / 1000.0;
      }
    } catch (IllegalArgumentException | NoSuchElementException _) {
      // Said below.
    }
    throw new Preflight.Refused("doctor: " + option + " '" + text + "' is no duration such as 2m");
  }

  private Patient patient() throws Preflight.Refused, DatabaseUrl.Refused, Refused {
    Login login = login();
    String listen = Preflight.setting("waybill.listen.url", "");
    boolean listens = !listen.equals(Wakeup.NONE);
    boolean maintains =
        Role.parse(Preflight.setting("waybill.roles", Settings.ROLES)).contains(Role.MAINTENANCE);
    int connections =
        Preflight.connections() + Preflight.engineConnections() + CONNECTIONS_OF_THEIR_OWN;
    return new Patient(
        login,
        listens && !listen.isEmpty() ? login(listen, login) : null,
        listens,
        connections,
        maintains,
        new Limits(lagSeconds, snapshotSeconds));
  }

  private static Login login() throws DatabaseUrl.Refused, Refused {
    String url = Preflight.setting("waybill.db.url", "");
    if (!url.isEmpty()) {
      return login(url, null);
    }
    if (!Waybill.EMBEDS) {
      throw new DatabaseUrl.Refused(
          "set WAYBILL_DB_URL, for example postgresql://waybill:secret@localhost:5432/waybill");
    }
    Path data = Path.of(Preflight.setting("waybill.data", Settings.DATA));
    List<String> running =
        EmbeddedDatabase.running(data)
            .orElseThrow(() ->
                new DatabaseUrl.Refused(
                    "no database runs in "
                        + data.toAbsolutePath()
                        + ": start the service there, or set WAYBILL_DB_URL"));
    return new Login(running.get(0), running.get(1), running.get(2));
  }

  private static Login login(String url, @Nullable Login otherwise) throws DatabaseUrl.Refused {
    DatabaseUrl read = DatabaseUrl.parse(url);
    String user =
        otherwise == null ? Preflight.setting("waybill.db.user", "waybill") : otherwise.user();
    String password =
        otherwise == null ? Preflight.setting("waybill.db.password", "") : otherwise.password();
    return new Login(
        read.jdbc(),
        Objects.requireNonNullElse(read.user(), user),
        Objects.requireNonNullElse(read.password(), password));
  }
}
