package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Two services, one receiver: what is told of jobs that die. */
@ExtendWith(Processes.class)
final class DeadAlertsIT {

  private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq=";

  @Test
  void two_services_tell_each_growth_once() throws Exception {
    var came = new CopyOnWriteArrayList<String>();
    HttpServer receiver =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    receiver.createContext(
        "/hook",
        exchange -> {
          boolean signed = exchange.getRequestHeaders().getFirst("webhook-signature") != null;
          String body =
              new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
          came.add(signed + " " + body);
          exchange.sendResponseHeaders(204, -1);
          exchange.close();
        });
    receiver.start();
    try {
      TestDatabase database = TestPostgres.shared().newDatabase();
      database.policy("fail", "max_attempts = 1");
      List<ServiceProcess> services =
          Stream.of(service(database, receiver), service(database, receiver)).toList();
      for (int round = 1; round <= 2; round++) {
        int before = round;
        database.enqueueMany("fail", "{\"message\": \"card 4111-secret\"}", 6);
        Awaitility.await("told of round " + round)
            .atMost(ServiceProcess.PATIENCE)
            .until(() -> came.size() >= before);
      }
      // Two beats of both later there is no third: the sums are those of two growths.
      long look = System.nanoTime();
      Awaitility.await("beats")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> System.nanoTime() - look > 25_000_000_000L);
      assertEquals(2, came.size(), came::toString);
      // A look in the middle of a round may leave a job or two to the next growth.
      assertTrue(grown(came) >= 10 && grown(came) <= 12, came::toString);
      assertTrue(
          came.stream()
              .allMatch(post -> post.startsWith("true {\"type\":\"waybill.dead_letters.growth\"")));
      assertFalse(came.toString().contains("secret"));
      assertEquals(2, logged(services), () -> services.get(0).output() + services.get(1).output());
      assertTrue(services.stream().noneMatch(each -> each.output().contains("4111-secret")));
      double sent =
          services.get(0).rest().metric("waybill_dead_alerts_total")
              + services.get(1).rest().metric("waybill_dead_alerts_total");
      assertEquals(2, sent);
    } finally {
      receiver.stop(0);
    }
  }

  private static int grown(List<String> posts) {
    return posts.stream()
        .mapToInt(
            post -> Integer.parseInt(post.replaceAll("(?s).*?\"grown\":\\s*([0-9]+).*", "$1")))
        .sum();
  }

  private static long logged(List<ServiceProcess> services) {
    return services.stream()
        .flatMap(service -> service.lines().stream())
        .filter(line -> line.contains("dead letters grow") && line.contains("kind=fail"))
        .count();
  }

  private static ServiceProcess service(TestDatabase database, HttpServer receiver)
      throws Exception {
    return ServiceProcess.on(database)
        .with("WAYBILL_ALERT_GROWTH", "5")
        .with(
            "WAYBILL_ALERT_WEBHOOK",
            "http://127.0.0.1:" + receiver.getAddress().getPort() + "/hook")
        .with("WAYBILL_ALERT_SECRET", SECRET)
        .startReady();
  }
}
