package dev.waybill.deliver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.standardwebhooks.Webhook;
import com.standardwebhooks.exceptions.WebhookVerificationException;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import dev.waybill.job.Claimed;
import dev.waybill.job.Delivery;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.run.JobContext;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Clock;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Posts to real servers on this machine; their signatures are checked by another's library. */
class CourierTest {

  private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  private static final String OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
  private static final String PAYLOAD = "{\"to\": \"a@b.c\", \"text\": \"Grüße 😀\"}";
  private static final InetAddress HERE = InetAddress.getLoopbackAddress();

  /** A request as the server saw it. */
  private record Got(Map<String, List<String>> headers, String path, String body) {
    String header(String name) {
      return headers.entrySet().stream()
          .filter(header -> header.getKey().equalsIgnoreCase(name))
          .map(header -> header.getValue().getFirst())
          .findFirst()
          .orElse("");
    }

    HttpHeaders asJdk() {
      return HttpHeaders.of(headers, (_, _) -> true);
    }
  }

  /** What the server does with a request. */
  private interface Answers {
    void to(HttpExchange exchange) throws IOException;
  }

  private final List<HttpServer> servers = new CopyOnWriteArrayList<>();
  private final CopyOnWriteArrayList<Got> got = new CopyOnWriteArrayList<>();
  private final Map<String, Policy> policies = new HashMap<>();
  private final AtomicInteger lookups = new AtomicInteger();
  private Names.Lookup lookup = _ -> new InetAddress[] {HERE};
  private String allow = "http://*:*,https://*:*";
  private String allowPrivate = "127.0.0.0/8";
  private String secrets = "default=" + SECRET;
  private Duration limit = Duration.ofSeconds(30);
  private Optional<String> authorities = Optional.empty();

  @AfterEach
  void stop() {
    servers.forEach(server -> server.stop(0));
  }

  private Courier courier() {
    var means =
        new Courier.Means(
            Allowlist.parse(allow),
            new Addresses(Network.parse(allowPrivate)),
            new Names(host -> {
              lookups.incrementAndGet();
              return lookup.of(host);
            }),
            Secrets.parse(secrets),
            new Post(Deliveries.tls(authorities), Duration.ofSeconds(10), limit));
    return new Courier(
        means,
        Duration.ofSeconds(2),
        4,
        kind -> policies.getOrDefault(kind, Policy.DEFAULT),
        Clock.systemUTC());
  }

  private static void respond(HttpExchange exchange, int status) throws IOException {
    exchange.sendResponseHeaders(status, -1);
  }

  private int serve(HttpServer server, Answers answers) {
    server.createContext(
        "/",
        exchange -> {
          String body =
              new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
          got.add(
              new Got(
                  Map.copyOf(exchange.getRequestHeaders()),
                  exchange.getRequestURI().toString(),
                  body));
          try (exchange) {
            answers.to(exchange);
          }
        });
    server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    server.start();
    servers.add(server);
    return server.getAddress().getPort();
  }

  private int serve(Answers answers) {
    try {
      return serve(HttpServer.create(new InetSocketAddress(HERE, 0), 0), answers);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private static Policy to(String url) {
    return to(url, null);
  }

  private static Policy to(String url, @Nullable String secret) {
    Policy or = Policy.DEFAULT;
    return new Policy(
        or.maxAttempts(),
        or.backoff(),
        or.lease(),
        or.timeout(),
        or.retention(),
        or.deadRetention(),
        or.caps(),
        false,
        Delivery.HTTP,
        url,
        secret,
        false);
  }

  private static Claimed job(@Nullable String traceparent) {
    return new Claimed(
        42,
        "mail",
        "acme",
        0,
        2,
        10,
        false,
        UUID.randomUUID(),
        PAYLOAD,
        1,
        List.of("a", "b\""),
        traceparent,
        0,
        30_000,
        System.nanoTime() + TimeUnit.SECONDS.toNanos(30));
  }

  private static final JobContext CONTEXT =
      (JobContext)
          Proxy.newProxyInstance(
              CourierTest.class.getClassLoader(),
              new Class<?>[] {JobContext.class},
              (_, method, _) -> method.getReturnType() == boolean.class ? Boolean.FALSE : null);

  private Outcome deliver(Courier courier, String url) throws InterruptedException {
    return courier.deliver(job(null), to(url), CONTEXT);
  }

  private static String reason(Outcome outcome) {
    return switch (outcome) {
      case Outcome.Retry retry -> retry.reason();
      case Outcome.Dead dead -> dead.reason();
      case Outcome.Done _, Outcome.Snooze _, Outcome.Release _, Outcome.Settled _ ->
          outcome.toString();
    };
  }

  private static void verify(Got got, String secret) throws WebhookVerificationException {
    new Webhook(secret).verify(got.body(), got.asJdk());
  }

  // ------------------------------------------------------------------------- what is posted,
  // signed

  @Test
  void a_post_holds_the_job_and_is_signed_as_standard_webhooks_says() throws Exception {
    int port = serve(exchange -> respond(exchange, 204));
    String trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Outcome outcome =
        courier().deliver(job(trace), to("http://hook.test:" + port + "/in?a=b%20c"), CONTEXT);
    assertInstanceOf(Outcome.Done.class, outcome, outcome::toString);
    Got post = got.getFirst();
    verify(post, SECRET);
    assertThrows(WebhookVerificationException.class, () -> verify(post, OLD));
    assertEquals("job_42", post.header("webhook-id"));
    assertEquals(trace, post.header("traceparent"));
    assertEquals("hook.test:" + port, post.header("Host"));
    assertEquals("/in?a=b%20c", post.path());
    JsonNode body = new ObjectMapper().readTree(post.body());
    assertEquals(42, body.get("id").asLong());
    assertEquals("mail", body.get("kind").asText());
    assertEquals("acme", body.get("tenant").asText());
    assertEquals(2, body.get("attempt").asInt());
    assertEquals("b\"", body.at("/tags/1").asText());
    assertEquals("Grüße 😀", body.at("/payload/text").asText());
  }

  @Test
  void while_a_secret_is_changed_both_sign() throws Exception {
    secrets = "crm=" + SECRET + "," + OLD;
    int port = serve(exchange -> respond(exchange, 200));
    Outcome outcome =
        courier().deliver(job(null), to("http://hook.test:" + port + "/", "crm"), CONTEXT);
    assertInstanceOf(Outcome.Done.class, outcome, outcome::toString);
    assertEquals(2, got.getFirst().header("webhook-signature").split(" ").length);
    verify(got.getFirst(), SECRET);
    verify(got.getFirst(), OLD);
  }

  @Test
  void a_secret_that_is_not_there_posts_nothing_and_is_named() throws Exception {
    int port = serve(exchange -> respond(exchange, 200));
    Outcome outcome =
        courier().deliver(job(null), to("http://hook.test:" + port + "/", "crm"), CONTEXT);
    assertInstanceOf(Outcome.Retry.class, outcome);
    assertTrue(reason(outcome).contains("crm"), reason(outcome));
    assertEquals(List.of(), got);
  }

  @Test
  void a_traceparent_that_is_none_is_left_out() throws Exception {
    int port = serve(exchange -> respond(exchange, 200));
    Outcome outcome =
        courier().deliver(job("00-x\r\nX-Evil: 1"), to("http://hook.test:" + port + "/"), CONTEXT);
    assertInstanceOf(Outcome.Done.class, outcome);
    assertEquals("", got.getFirst().header("X-Evil"));
    assertEquals("", got.getFirst().header("traceparent"));
  }

  // ------------------------------------------------------------------------------ what is answered

  @ParameterizedTest
  @CsvSource({
    "200, done",
    "201, done",
    "202, done",
    "204, done",
    "299, done",
    "301, retry",
    "302, retry",
    "303, retry",
    "304, retry",
    "307, retry",
    "308, retry",
    "400, dead",
    "401, dead",
    "403, dead",
    "404, dead",
    "409, dead",
    "410, dead",
    "422, dead",
    "408, retry",
    "425, retry",
    "429, retry",
    "500, retry",
    "501, retry",
    "502, retry",
    "503, retry",
    "504, retry",
    "599, retry"
  })
  void every_status_has_its_outcome(int status, String word) throws Exception {
    int port =
        serve(exchange -> {
          exchange.getResponseHeaders().add("Location", "http://hook.test:1/elsewhere");
          respond(exchange, status);
        });
    Outcome outcome = deliver(courier(), "http://hook.test:" + port + "/");
    assertEquals(word, outcome.word(), outcome::toString);
    assertEquals(1, got.size(), "and nobody was asked twice");
    if (!word.equals("done")) {
      assertTrue(reason(outcome).contains("status " + status), reason(outcome));
    }
  }

  @ParameterizedTest
  @CsvSource({
    "429, 7, 7",
    "503, 120, 120",
    "503, 0, 1",
    "429, 999999999, 86400",
    "500, 7, -1",
    "503, soon, -1"
  })
  void retry_after_in_seconds_is_honoured_within_bounds(int status, String says, long seconds)
      throws Exception {
    int port =
        serve(exchange -> {
          exchange.getResponseHeaders().add("Retry-After", says);
          respond(exchange, status);
        });
    Outcome outcome = deliver(courier(), "http://hook.test:" + port + "/");
    Duration delay = assertInstanceOf(Outcome.Retry.class, outcome).delay();
    assertEquals(seconds, delay == null ? -1 : delay.toSeconds());
  }

  @Test
  void retry_after_as_a_date_counts_from_the_targets_own_clock() throws Exception {
    try (var raw =
        new RawServer(
            String.join(
                "\r\n",
                "HTTP/1.1 503 Busy",
                "Date: Mon, 02 Jan 2006 15:04:05 GMT",
                "Retry-After: Mon, 02 Jan 2006 15:05:35 GMT",
                "Content-Length: 0",
                "",
                ""))) {
      Outcome outcome = deliver(courier(), "http://hook.test:" + raw.port() + "/");
      assertEquals(Duration.ofSeconds(90), assertInstanceOf(Outcome.Retry.class, outcome).delay());
    }
  }

  /** Answers each connection with the same bytes, and may keep it open. */
  private static final class RawServer implements AutoCloseable {
    private final ServerSocket socket;

    RawServer(String answer) throws IOException {
      socket = new ServerSocket(0, 50, HERE);
      Thread.ofVirtual()
          .start(() -> {
            while (!socket.isClosed()) {
              try {
                Socket one = socket.accept();
                Thread.ofVirtual().start(() -> talk(one, answer));
              } catch (IOException _) {
                return;
              }
            }
          });
    }

    private static void talk(Socket one, String answer) {
      try {
        InputStream in = one.getInputStream();
        int _ = in.read(new byte[65_536]);
        OutputStream out = one.getOutputStream();
        out.write(answer.getBytes(StandardCharsets.ISO_8859_1));
        out.flush();
        // Not closed: it is the other side that must not wait for it.
      } catch (IOException _) {
        // The other side went.
      }
    }

    int port() {
      return socket.getLocalPort();
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.0 204\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nnever so much",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n"
      })
  void odd_answers_are_read_and_their_bodies_not_waited_for(String answer) throws Exception {
    try (var raw = new RawServer(answer)) {
      Outcome outcome = deliver(courier(), "http://hook.test:" + raw.port() + "/");
      assertInstanceOf(Outcome.Done.class, outcome, outcome::toString);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"SSH-2.0-OpenSSH\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n"})
  void what_is_no_answer_is_tried_again_and_not_quoted(String answer) throws Exception {
    try (var raw = new RawServer(answer)) {
      Outcome outcome = deliver(courier(), "http://hook.test:" + raw.port() + "/");
      assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
      assertFalse(reason(outcome).contains("SSH"), reason(outcome));
    }
  }

  @Test
  void an_endless_head_is_cut_off() throws Exception {
    try (var raw = new RawServer("HTTP/1.1 200 OK\r\n" + "X: y\r\n".repeat(20_000))) {
      Outcome outcome = deliver(courier(), "http://hook.test:" + raw.port() + "/");
      assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    }
  }

  @Test
  void a_target_that_does_not_answer_in_time_is_tried_again() throws Exception {
    limit = Duration.ofMillis(300);
    try (var raw = new RawServer("")) {
      long begin = System.nanoTime();
      Outcome outcome = deliver(courier(), "http://hook.test:" + raw.port() + "/");
      assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
      assertTrue(reason(outcome).contains("300 ms"), reason(outcome));
      assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(20), "it never answers");
    }
  }

  @Test
  void a_target_that_drips_is_cut_off_at_the_limit_for_the_whole() throws Exception {
    limit = Duration.ofSeconds(10);
    int port =
        serve(exchange -> {
          exchange.sendResponseHeaders(200, 0);
          respondSlowly(exchange.getResponseBody());
        });
    // Its head is there: the status has decided, and the rest is not waited for.
    assertInstanceOf(Outcome.Done.class, deliver(courier(), "http://hook.test:" + port + "/"));
  }

  private static void respondSlowly(OutputStream body) throws IOException {
    for (int i = 0; i < 200; i++) { // Twice as long as the limit.
      body.write('x');
      body.flush();
      try {
        TimeUnit.MILLISECONDS.sleep(100);
      } catch (InterruptedException _) {
        return;
      }
    }
  }

  // -------------------------------------------------------------------------- where it may connect

  @ParameterizedTest
  @ValueSource(
      strings = {
        "http://other.test:%d/", // not on the list
        "https://hook.test:%d/", // another scheme
        "http://hook.test:1/", // another port
        "http://user:secret@hook.test:%d/",
        "ftp://hook.test/",
        "//hook.test/",
        "http:hook.test",
        "http://hook.test:%d/grüße"
      })
  void a_target_that_is_not_allowed_is_not_looked_up(String url) throws Exception {
    int port = serve(exchange -> respond(exchange, 200));
    allow = "http://hook.test:" + port;
    Outcome outcome = deliver(courier(), url.formatted(port));
    assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    assertEquals(0, lookups.get());
    assertEquals(List.of(), got);
  }

  @Test
  void without_an_allowlist_nothing_is_posted() throws Exception {
    allow = "";
    int port = serve(exchange -> respond(exchange, 200));
    Outcome outcome = deliver(courier(), "http://hook.test:" + port + "/");
    assertTrue(reason(outcome).contains("WAYBILL_PUSH_ALLOW"), reason(outcome));
    assertEquals(List.of(), got);
  }

  @Test
  void a_pattern_allows_what_is_below_it_and_no_lookalike() throws Exception {
    Allowlist list = Allowlist.parse("*.example.com, http://intern:8080 https://[2001:4860::1]:*");
    for (String good :
        List.of(
            "https://a.example.com/x",
            "https://A.B.EXAMPLE.com",
            "http://intern:8080/",
            "https://[2001:4860::1]:9/")) {
      list.check(Target.of(good));
    }
    for (String bad :
        List.of(
            "https://example.com/",
            "https://evilexample.com/",
            "https://example.com.evil.org/",
            "https://a.example.com:444/",
            "http://a.example.com/",
            "http://intern/",
            "https://intern:8080/")) {
      assertThrows(Refused.class, () -> list.check(Target.of(bad)), bad);
    }
    assertThrows(
        Refused.class, () -> Allowlist.parse("*:*").check(Target.of("https://93.184.216.34/")));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "2002:a00:1::",
        "2001::1"
      })
  void addresses_that_are_not_public_are_refused(String address) throws Exception {
    allowPrivate = "";
    int port = serve(exchange -> respond(exchange, 200));
    lookup = _ -> new InetAddress[] {InetAddress.getByName(address)};
    Outcome outcome = deliver(courier(), "http://hook.test:" + port + "/");
    assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    assertTrue(reason(outcome).contains("WAYBILL_PUSH_ALLOW_PRIVATE"), reason(outcome));
    assertFalse(reason(outcome).contains(address), "the network is not told: " + reason(outcome));
    assertEquals(List.of(), got);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "100.128.0.1"})
  void addresses_that_are_public_are_not(String address) throws UnknownHostException {
    assertTrue(Addresses.isPublic(InetAddress.getByName(address)));
  }

  @Test
  void one_bad_address_among_good_ones_is_refused() throws Exception {
    allowPrivate = "127.0.0.1/32";
    int port = serve(exchange -> respond(exchange, 200));
    lookup = _ -> new InetAddress[] {HERE, InetAddress.getByName("10.0.0.1")};
    Outcome outcome = deliver(courier(), "http://hook.test:" + port + "/");
    assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    assertEquals(List.of(), got);
  }

  /** The name's second answer would be another address: nobody asks for it. */
  @Test
  void a_name_is_looked_up_once_and_the_checked_address_is_connected_to() throws Exception {
    allowPrivate = "127.0.0.1/32";
    int port = serve(exchange -> respond(exchange, 200));
    lookup =
        _ ->
            new InetAddress[] {
              lookups.get() == 1 ? HERE : InetAddress.getByName("169.254.169.254")
            };
    Courier courier = courier();
    assertInstanceOf(Outcome.Done.class, deliver(courier, "http://hook.test:" + port + "/"));
    assertEquals(1, lookups.get());
    assertInstanceOf(Outcome.Retry.class, deliver(courier, "http://hook.test:" + port + "/"));
    assertEquals(1, got.size());
  }

  @Test
  void a_name_that_is_not_known_is_tried_again() throws Exception {
    lookup =
        host -> {
          throw new UnknownHostException(host);
        };
    Outcome outcome = deliver(courier(), "http://hook.test:80/");
    assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    assertTrue(reason(outcome).contains("name is not known"), reason(outcome));
  }

  // --------------------------------------------------------------------------------------------
  // TLS

  private int serveTls(Path directory, String name) throws Exception {
    Path store = directory.resolve(name + ".p12");
    Path pem = directory.resolve(name + ".pem");
    String tool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
    run(
        tool,
        "-genkeypair",
        "-alias",
        "k",
        "-keyalg",
        "EC",
        "-dname",
        "CN=" + name,
        "-ext",
        "SAN=dns:" + name,
        "-keystore",
        store.toString(),
        "-storepass",
        "changeit",
        "-validity",
        "3");
    run(
        tool,
        "-exportcert",
        "-rfc",
        "-alias",
        "k",
        "-keystore",
        store.toString(),
        "-storepass",
        "changeit",
        "-file",
        pem.toString());
    authorities = Optional.of(pem.toString());
    KeyStore keys = KeyStore.getInstance(store.toFile(), "changeit".toCharArray());
    var managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    managers.init(keys, "changeit".toCharArray());
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(managers.getKeyManagers(), null, null);
    HttpsServer server = HttpsServer.create(new InetSocketAddress(HERE, 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(context));
    return serve(server, exchange -> respond(exchange, 200));
  }

  private static void run(String... command) throws Exception {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), said);
  }

  @Test
  void a_certificate_for_the_name_is_accepted_and_for_another_name_not(@TempDir Path directory)
      throws Exception {
    int port = serveTls(directory, "hook.test");
    assertTrue(Files.exists(directory.resolve("hook.test.pem")));
    Courier courier = courier();
    Outcome right = deliver(courier, "https://hook.test:" + port + "/");
    assertInstanceOf(Outcome.Done.class, right, right::toString);
    verify(got.getFirst(), SECRET);
    // The same address, under a name that the certificate does not hold.
    Outcome wrong = deliver(courier, "https://other.test:" + port + "/");
    assertInstanceOf(Outcome.Retry.class, wrong, wrong::toString);
    assertTrue(reason(wrong).contains("TLS"), reason(wrong));
    assertEquals(1, got.size());
  }

  @Test
  void a_certificate_that_nobody_vouches_for_is_refused(@TempDir Path directory) throws Exception {
    int port = serveTls(directory, "hook.test");
    authorities = Optional.empty();
    Outcome outcome = deliver(courier(), "https://hook.test:" + port + "/");
    assertInstanceOf(Outcome.Retry.class, outcome, outcome::toString);
    assertEquals(List.of(), got);
  }

  // ------------------------------------------------------------------------------------ the
  // circuit

  private static int closedPort() throws IOException {
    try (var socket = new ServerSocket(0, 1, HERE)) {
      return socket.getLocalPort();
    }
  }

  @Test
  void a_target_that_is_down_is_left_alone_without_using_attempts() throws Exception {
    String url = "http://hook.test:" + closedPort() + "/";
    int port = serve(exchange -> respond(exchange, 200));
    policies.put("down", to(url));
    policies.put("up", to("http://hook.test:" + port + "/"));
    Courier courier = courier();
    assertEquals(Map.of("down", 4, "up", 3), courier.room(Map.of("down", 0, "up", 1)), "4 at once");
    for (int i = 0; i < 5; i++) {
      assertInstanceOf(Outcome.Retry.class, deliver(courier, url));
    }
    Outcome after = deliver(courier, url);
    assertInstanceOf(Outcome.Snooze.class, after, after::toString);
    assertEquals(Map.of("down", 0, "up", 4), courier.room(Map.of("down", 0, "up", 0)));
    assertInstanceOf(Outcome.Done.class, deliver(courier, "http://hook.test:" + port + "/"));
  }

  @Test
  void a_target_that_answers_errors_of_the_job_is_up() throws Exception {
    int port = serve(exchange -> respond(exchange, 500));
    Courier courier = courier();
    for (int i = 0; i < 8; i++) {
      assertInstanceOf(Outcome.Retry.class, deliver(courier, "http://hook.test:" + port + "/"));
    }
    assertEquals(8, got.size());
  }

  @Test
  void after_the_pause_one_post_tries_and_then_all_go() {
    var circuit = new Circuit(5_000); // At least half of it.
    for (int i = 0; i < 4; i++) {
      assertEquals(0, circuit.failed());
    }
    assertTrue(circuit.failed() > 0);
    assertEquals(0, circuit.room(16, 0));
    assertTrue(circuit.begin() > 0);
    Awaitility.await().atMost(Duration.ofSeconds(60)).until(() -> circuit.room(16, 0) == 1);
    assertEquals(0, circuit.room(16, 1), "while one tries");
    assertEquals(0, circuit.begin());
    assertTrue(circuit.begin() > 0, "only one");
    assertTrue(circuit.succeeded());
    assertEquals(16, circuit.room(16, 0));
    assertEquals(0, circuit.begin());
  }

  @Test
  void two_kinds_of_one_target_share_its_room() throws Exception {
    policies.put("a", to("http://hook.test:81/one"));
    policies.put("b", to("http://hook.test:81/two"));
    assertEquals(Map.of("a", 1, "b", 1), courier().room(Map.of("a", 1, "b", 2)));
  }

  @Test
  void a_post_that_is_interrupted_ends_at_once() throws Exception {
    try (var raw = new RawServer("")) {
      Courier courier = courier();
      var ended = new CopyOnWriteArrayList<Throwable>();
      Thread post =
          Thread.ofVirtual()
              .start(() -> {
                try {
                  Outcome _ = deliver(courier, "http://hook.test:" + raw.port() + "/");
                } catch (InterruptedException stop) {
                  ended.add(stop);
                }
              });
      Awaitility.await().until(() -> lookups.get() == 1);
      TimeUnit.MILLISECONDS.sleep(100);
      post.interrupt();
      assertTrue(post.join(Duration.ofSeconds(20)), "the limit is thirty");
      assertEquals(1, ended.size());
    }
  }

  // ------------------------------------------------------------------------------------- settings

  @ParameterizedTest
  @ValueSource(
      strings = {
        "nothing",
        "a=whsec_short",
        "a=MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "a=whsec_!!!",
        "a b=" + SECRET,
        "a=" + SECRET + ";a=" + OLD
      })
  void a_wrong_secret_is_refused_without_being_said(String setting) {
    IllegalArgumentException refused =
        assertThrows(IllegalArgumentException.class, () -> Secrets.parse(setting));
    String says = String.valueOf(refused.getMessage());
    assertTrue(says.startsWith("WAYBILL_PUSH_SECRETS: "), says);
    assertFalse(says.contains("MfKQ") || says.contains("!!!") || says.contains("C2FV"), says);
  }

  @Test
  void secrets_may_stand_on_lines_of_their_own() throws Exception {
    Secrets read = Secrets.parse("a=" + SECRET + "\nb=" + OLD + " " + SECRET + "\n");
    assertEquals(1, read.of("a").size());
    assertEquals(2, read.of("b").size());
  }
}
