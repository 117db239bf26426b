package dev.waybill.alert;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.standardwebhooks.Webhook;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.waybill.TestDatabase;
import dev.waybill.deliver.TestWebhooks;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CyclicBarrier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What is told of dead letters, to a receiver of this test's own. */
class AlertsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq=";

  /** What came, with its body. */
  private record Came(Map<String, List<String>> headers, String body) {
    String header(String name) {
      return headers.entrySet().stream()
          .filter(header -> header.getKey().equalsIgnoreCase(name))
          .map(header -> header.getValue().getFirst())
          .findFirst()
          .orElse("");
    }

    JsonNode json() throws IOException {
      return new ObjectMapper().readTree(body);
    }
  }

  private final List<Came> came = new CopyOnWriteArrayList<>();
  private final List<String> ended = new CopyOnWriteArrayList<>();
  private volatile int status = 200;
  private HttpServer receiver = server();

  private static HttpServer server() {
    try {
      return HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @BeforeEach
  void begin() throws SQLException {
    receiver.createContext("/hook", this::receive);
    receiver.start();
    DB.execute("DELETE FROM waybill.dead_watch");
    DB.execute("DELETE FROM waybill.dead_alerts");
    DB.execute(
        "INSERT INTO waybill.dead_alerts (what, day, told, state) VALUES ('daily', (now() AT TIME ZONE 'UTC')::date, '{}', 'none')");
  }

  @AfterEach
  void end() {
    receiver.stop(0);
  }

  /** A status of 0 hangs up without a word. */
  private void receive(HttpExchange exchange) throws IOException {
    String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
    came.add(new Came(Map.copyOf(exchange.getRequestHeaders()), body));
    if (status > 0) {
      exchange.sendResponseHeaders(status, -1);
    }
    exchange.close();
  }

  private String url() {
    return "http://127.0.0.1:" + receiver.getAddress().getPort() + "/hook";
  }

  private record Told(
      String growth, String window, String daily, Optional<String> webhook, Optional<String> secret)
      implements AlertSettings {}

  private Alerts service(String growth, String daily, @Nullable String webhook) {
    var alerts =
        new Alerts(
            DB.database(),
            new Told(
                growth,
                "10m",
                daily,
                Optional.ofNullable(webhook),
                webhook == null ? Optional.empty() : Optional.of(SECRET)),
            TestWebhooks.of("waybill.push.timeout", "30s", "waybill.push.connect-timeout", "10s"),
            ended::add);
    alerts.check();
    alerts.start();
    return alerts;
  }

  private Alerts service() {
    return service("10", "off", url());
  }

  private static void die(String kind, String fingerprint, int jobs) throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind, tenant, payload,
          last_error, fingerprint)
        SELECT nextval(pg_get_serial_sequence('waybill.jobs', 'id')), now(), now(), now(), 0, 1, 0, 1, ?, 'acme',
          '{"card": "4111-secret"}', 'could not charge 4111-secret', ?
        FROM generate_series(1, ?)
        """,
        kind,
        fingerprint,
        jobs);
  }

  private static long alerts(String state) throws SQLException {
    return DB.number(
        "SELECT count(*) FROM waybill.dead_alerts WHERE what = 'growth' AND state = ?", state);
  }

  /** So long ago that the marks move on at the next look. */
  private static void halfAWindowPasses() throws SQLException {
    DB.execute("UPDATE waybill.dead_watch SET turned_at = turned_at - interval '6 minutes'");
  }

  @Test
  void a_sudden_growth_is_told_by_kind_and_fingerprint_signed_and_without_what_jobs_hold()
      throws Exception {
    die("mail", "aaaa", 9);
    die("mail", "bbbb", 3);
    die("other", "cccc", 2);
    service().look();
    assertEquals(1, came.size());
    Came post = came.getFirst();
    new Webhook(SECRET).verify(post.body(), HttpHeaders.of(lower(post.headers()), (_, _) -> true));
    JsonNode said = post.json();
    assertEquals("waybill.dead_letters.growth", said.at("/type").asText());
    assertEquals("mail", said.at("/data/kinds/0/kind").asText());
    assertEquals(12, said.at("/data/kinds/0/grown").asInt());
    assertEquals("aaaa", said.at("/data/kinds/0/groups/0/fingerprint").asText());
    assertEquals(9, said.at("/data/kinds/0/groups/0/grown").asInt());
    assertEquals(1, said.at("/data/kinds").size());
    assertTrue(said.at("/text").asText().contains("*mail*: 12 more, 12 in all"), post::body);
    assertTrue(said.at("/text").asText().contains("within 10 min"), post::body);
    assertFalse(post.body().contains("secret") || post.body().contains("acme"), post::body);
    assertEquals(List.of("sent"), ended);
    assertEquals(1, alerts("sent"));
  }

  private static Map<String, List<String>> lower(Map<String, List<String>> headers) {
    var lower = new java.util.HashMap<String, List<String>>();
    headers.forEach((name, values) -> lower.put(name.toLowerCase(java.util.Locale.ROOT), values));
    return lower;
  }

  @Test
  void many_services_at_once_tell_one_growth_once() throws Exception {
    for (int round = 1; round <= 10; round++) {
      die("mail", "aaaa", 10);
      var together = new CyclicBarrier(4);
      var threads = new ArrayList<Thread>();
      for (int i = 0; i < 4; i++) {
        Alerts service = service();
        threads.add(
            Thread.ofPlatform()
                .start(() -> {
                  try {
                    together.await();
                  } catch (Exception e) {
                    throw new IllegalStateException(e);
                  }
                  service.look();
                  service.look();
                }));
      }
      for (Thread thread : threads) {
        thread.join();
      }
      // Who came while another looked left it to him; the next beat finds what is left.
      service().look();
      assertEquals(round, came.size());
      assertEquals(10L * round, came.getLast().json().at("/data/kinds/0/dead").asLong());
      assertEquals(10, came.getLast().json().at("/data/kinds/0/grown").asInt());
    }
    assertEquals(10, came.stream().map(post -> post.header("webhook-id")).distinct().count());
  }

  @Test
  void what_grows_slowly_is_not_told_and_what_grows_again_is() throws Exception {
    Alerts service = service();
    for (int i = 0; i < 6; i++) {
      die("mail", "aaaa", 4);
      service.look();
      halfAWindowPasses();
      service.look();
    }
    assertEquals(0, came.size());
    die("mail", "aaaa", 10);
    service.look();
    assertEquals(1, came.size());
    assertEquals(34, came.getFirst().json().at("/data/kinds/0/dead").asInt());
    service.look();
    halfAWindowPasses();
    service.look();
    assertEquals(1, came.size());
    die("mail", "dddd", 10);
    service.look();
    assertEquals(2, came.size());
    assertEquals("dddd", came.getLast().json().at("/data/kinds/0/groups/0/fingerprint").asText());
  }

  /** Six now and six a little later are twelve within the window, wherever it begins. */
  @Test
  void a_growth_is_seen_across_the_turn_of_the_marks() throws Exception {
    Alerts service = service();
    die("mail", "aaaa", 6);
    service.look();
    halfAWindowPasses();
    service.look();
    die("mail", "aaaa", 6);
    service.look();
    assertEquals(1, came.size());
  }

  @Test
  void letters_that_left_and_came_back_are_growth_again() throws Exception {
    Alerts service = service();
    die("mail", "aaaa", 10);
    service.look();
    DB.execute("DELETE FROM waybill.jobs_dead");
    service.look();
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.dead_watch"));
    die("mail", "aaaa", 10);
    service.look();
    assertEquals(2, came.size());
  }

  @Test
  void many_failures_of_one_kind_are_one_growth_and_a_growth_of_none_is_none() throws Exception {
    for (int i = 0; i < 12; i++) {
      die("mail", "f" + i, 1);
    }
    service("0", "off", url()).look();
    assertEquals(0, came.size());
    DB.execute("DELETE FROM waybill.dead_watch");
    service().look();
    assertEquals(12, came.getFirst().json().at("/data/kinds/0/grown").asInt());
    assertEquals(5, came.getFirst().json().at("/data/kinds/0/groups").size());
  }

  @Test
  void a_resting_group_is_not_written_again() throws Exception {
    die("mail", "aaaa", 4);
    Alerts service = service();
    service.look();
    halfAWindowPasses();
    service.look();
    halfAWindowPasses();
    service.look();
    String written = DB.text("SELECT xmin FROM waybill.dead_watch");
    halfAWindowPasses();
    String dated = DB.text("SELECT xmin FROM waybill.dead_watch");
    assertFalse(written.equals(dated));
    service.look();
    assertEquals(dated, DB.text("SELECT xmin FROM waybill.dead_watch"));
  }

  @Test
  void a_receiver_that_says_no_is_asked_again_later_under_the_same_id() throws Exception {
    status = 500;
    die("mail", "aaaa", 10);
    Alerts service = service();
    service.look();
    service.look();
    assertEquals(1, came.size());
    assertEquals(1, alerts("open"));
    status = 204;
    DB.execute("UPDATE waybill.dead_alerts SET next_at = now()");
    service.look();
    assertEquals(2, came.size());
    assertEquals(came.getFirst().header("webhook-id"), came.getLast().header("webhook-id"));
    assertEquals(1, alerts("sent"));
    assertEquals(List.of("sent"), ended);
  }

  @Test
  void after_ten_attempts_it_has_failed() throws Exception {
    int nobody;
    try (var socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      nobody = socket.getLocalPort();
    }
    die("mail", "aaaa", 10);
    Alerts service = service("10", "off", "http://127.0.0.1:" + nobody + "/");
    for (int i = 0; i < 12; i++) {
      service.look();
      DB.execute("UPDATE waybill.dead_alerts SET next_at = now()");
    }
    assertEquals(1, alerts("failed"));
    assertEquals(10, DB.number("SELECT attempts FROM waybill.dead_alerts WHERE what = 'growth'"));
    assertEquals(List.of("failed"), ended);
    assertEquals(Duration.ofSeconds(30), Alerts.pause(1));
    assertEquals(Duration.ofHours(1), Alerts.pause(10));
  }

  @Test
  void what_may_have_arrived_is_never_sent_again() throws Exception {
    status = 0;
    die("mail", "aaaa", 10);
    Alerts service = service();
    service.look();
    DB.execute("UPDATE waybill.dead_alerts SET next_at = now() - interval '1 day'");
    service.look();
    assertEquals(1, came.size());
    assertEquals(1, alerts("unknown"));
    assertEquals(List.of("unknown"), ended);
  }

  /** It claimed, and was killed before or after it sent. */
  @Test
  void what_a_killed_service_had_claimed_is_told_as_unknown_and_not_sent_again() throws Exception {
    die("mail", "aaaa", 10);
    Alerts service = service();
    DB.number("SELECT count(*) FROM waybill.watch_dead(10, interval '5 minutes', NULL, true)");
    DB.execute(
        "UPDATE waybill.dead_alerts SET state = 'sending', attempts = 1, claimed_at = now() - interval '4 minutes' WHERE what = 'growth'");
    service.look();
    assertEquals(1, alerts("sending"));
    DB.execute(
        "UPDATE waybill.dead_alerts SET claimed_at = now() - interval '6 minutes' WHERE what = 'growth'");
    service.look();
    assertEquals(1, alerts("unknown"));
    assertEquals(0, came.size());
    assertEquals(List.of("unknown"), ended);
  }

  @Test
  void the_daily_one_is_told_once_a_day_and_not_when_there_is_nothing() throws Exception {
    DB.execute("DELETE FROM waybill.dead_alerts");
    service("0", "00:00", url()).look();
    assertEquals(0, came.size());
    assertEquals("none", DB.text("SELECT state FROM waybill.dead_alerts WHERE what = 'daily'"));
    die("mail", "aaaa", 3);
    die("sms", "bbbb", 1);
    service("0", "00:00", url()).look();
    assertEquals(0, came.size());
    DB.execute("UPDATE waybill.dead_alerts SET day = day - 1");
    service("0", "00:00", url()).look();
    service("0", "00:00", url()).look();
    assertEquals(1, came.size());
    JsonNode said = came.getFirst().json();
    assertEquals("waybill.dead_letters.daily", said.at("/type").asText());
    assertEquals(3, said.at("/data/kinds/0/dead").asInt());
    assertEquals(3, said.at("/data/kinds/0/grown").asInt());
    assertEquals("bbbb", said.at("/data/kinds/1/groups/0/fingerprint").asText());
    assertTrue(
        said.at("/text").asText().contains("*sms*: 1 more in 24 hours, 1 in all"), said::toString);
  }

  @Test
  void without_a_webhook_it_is_written_down_for_the_log_alone() throws Exception {
    die("mail", "aaaa", 10);
    service("10", "off", null).look();
    assertEquals(1, alerts("none"));
    service().look();
    assertEquals(0, came.size());
  }

  @Test
  void what_was_left_open_for_a_day_is_not_sent_any_more() throws Exception {
    status = 500;
    die("mail", "aaaa", 10);
    service().look();
    service("10", "off", null).look();
    assertEquals(1, alerts("open"));
    String aDayPasses =
        "UPDATE waybill.dead_alerts SET next_at = now(), created_at = created_at - interval '25 hours'";
    DB.execute(aDayPasses);
    service("10", "off", null).look();
    assertEquals(1, alerts("none"));
    assertEquals(List.of(), ended);
    die("mail", "aaaa", 10);
    service().look();
    assertEquals(2, came.size());
    DB.execute(aDayPasses);
    service().look();
    assertEquals(2, came.size());
    assertEquals(1, alerts("failed"));
    assertEquals(List.of("failed"), ended);
  }

  /** A port that speaks no TLS, and a reset in the handshake: nothing was sent. */
  @Test
  void without_a_tls_connection_nothing_was_sent_and_it_is_tried_again() throws Exception {
    die("mail", "aaaa", 10);
    try (var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      Thread serving =
          Thread.ofPlatform()
              .start(() -> {
                try {
                  try (Socket plain = server.accept()) {
                    plain
                        .getOutputStream()
                        .write("HTTP/1.1 400 No\r\n\r\n".getBytes(StandardCharsets.UTF_8));
                    int _ = plain.getInputStream().readAllBytes().length;
                  }
                  try (Socket resets = server.accept()) {
                    int _ = resets.getInputStream().read();
                    resets.setSoLinger(true, 0);
                  }
                } catch (IOException e) {
                  throw new IllegalStateException(e);
                }
              });
      Alerts service = service("10", "off", "https://127.0.0.1:" + server.getLocalPort() + "/");
      service.look();
      assertEquals(1, alerts("open"));
      DB.execute("UPDATE waybill.dead_alerts SET next_at = now()");
      service.look();
      serving.join();
    }
    assertEquals(1, alerts("open"));
    assertEquals(2, DB.number("SELECT attempts FROM waybill.dead_alerts WHERE what = 'growth'"));
    assertEquals(List.of(), ended);
  }

  @Test
  void a_wrong_setting_is_refused_with_what_would_be_right() {
    assertRefused(
        "WAYBILL_ALERT_GROWTH: 'many'",
        new Told("many", "10m", "off", Optional.empty(), Optional.empty()));
    assertRefused(
        "WAYBILL_ALERT_WINDOW: '5s'",
        new Told("1", "5s", "off", Optional.empty(), Optional.empty()));
    assertRefused(
        "WAYBILL_ALERT_WINDOW: 'soon'",
        new Told("1", "soon", "off", Optional.empty(), Optional.empty()));
    assertRefused(
        "WAYBILL_ALERT_DAILY: '25:00'",
        new Told("1", "10m", "25:00", Optional.empty(), Optional.empty()));
    assertRefused(
        "WAYBILL_ALERT_WEBHOOK: ",
        new Told("1", "10m", "off", Optional.of("ftp://x/s3cret"), Optional.empty()));
    assertRefused(
        "WAYBILL_ALERT_SECRET: ",
        new Told("1", "10m", "off", Optional.of("https://x/"), Optional.of("s3cret")));
    assertRefused(
        "WAYBILL_ALERT_SECRET: ",
        new Told("1", "10m", "off", Optional.empty(), Optional.of(SECRET)));
  }

  private static void assertRefused(String begin, AlertSettings settings) {
    String said =
        String.valueOf(
            assertThrows(
                    IllegalArgumentException.class, () -> AlertPlan.of(settings, TestWebhooks.of()))
                .getMessage());
    assertTrue(said.startsWith(begin) && said.contains("right would be"), said);
    assertFalse(said.contains("s3cret") || said.contains("\n"), said);
  }
}
