package dev.waybill.deploy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.deploy.Firewall.Peer;
import dev.waybill.deploy.Firewall.Port;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Everything is denied by default: what the service needs has to be let through, and no more. */
final class NetworkTest {

  private static final Port HTTP = new Port(8080, "http", "TCP");
  private static final Map<String, String> CLUSTER = Map.of("cnpg.io/cluster", "waybill-db");
  private static final Map<String, String> POOLER = Map.of("cnpg.io/poolerName", "waybill-pooler");

  static List<String> overlays() {
    return Manifests.overlays();
  }

  private static Firewall firewall(Manifests manifests) {
    return new Firewall(manifests.all(NetworkPolicy.class));
  }

  private static Map<String, String> namespace(String name) {
    return Map.of("kubernetes.io/metadata.name", name);
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void every_pod_finds_names_in_each_kind_of_cluster(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    Peer dns = Peer.in(namespace("kube-system"), Map.of("k8s-app", "kube-dns"));
    manifests
        .pods()
        .forEach((name, pod) -> {
          for (String protocol : List.of("UDP", "TCP")) {
            for (Peer server : List.of(dns, Peer.at("169.254.20.10"))) {
              assertTrue(
                  firewall(manifests)
                      .lets(pod.getMetadata().getLabels(), server, new Port(53, "", protocol)),
                  name + " " + server);
            }
          }
        });
  }

  /** Both ends of it: what may leave the one must be let into the other. */
  @ParameterizedTest
  @MethodSource("overlays")
  void every_pod_reaches_the_database_that_its_settings_name(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    Firewall firewall = firewall(manifests);
    manifests
        .ours()
        .forEach((name, pod) -> {
          Map<String, String> labels = pod.getMetadata().getLabels();
          Map<String, String> environment = manifests.environment(name);
          for (String setting : List.of("WAYBILL_DB_URL", "WAYBILL_LISTEN_URL")) {
            String url = environment.getOrDefault(setting, "none");
            if (url.equals("none")) {
              continue;
            }
            Matcher host = Pattern.compile("//([a-z0-9.-]+)[^/]*:5432/").matcher(url);
            assertTrue(host.find(), url);
            String where = name + " to " + host.group(1);
            if (host.group(1).endsWith(".svc")) {
              Map<String, String> server = behind(manifests, host.group(1).split("\\.", 2)[0]);
              Port port = new Port(5432, "postgresql", "TCP");
              assertTrue(firewall.lets(labels, Peer.pod(server), Port.tcp(5432)), where);
              assertTrue(firewall.lets(Peer.pod(labels), server, port), where);
            } else {
              assertTrue(firewall.lets(labels, Peer.at("10.1.2.3"), Port.tcp(5432)), where);
              assertFalse(firewall.lets(labels, Peer.at("203.0.113.7"), Port.tcp(5432)), where);
            }
          }
        });
  }

  private static Map<String, String> behind(Manifests manifests, String service) {
    return switch (service) {
      case "waybill-db-rw" -> CLUSTER;
      case "waybill-pooler" -> POOLER;
      default -> manifests.the(Service.class, service).getSpec().getSelector();
    };
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void prometheus_scrapes_every_pod_and_only_clients_of_the_api_reach_it(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    Firewall firewall = firewall(manifests);
    Peer prometheus = Peer.in(namespace("monitoring"), Map.of("any", "pod"));
    Peer client = Peer.in(Map.of("waybill.dev/client", "true"), Map.of("any", "pod"));
    Peer stranger = Peer.in(namespace("other"), Map.of("any", "pod"));
    manifests
        .ours()
        .forEach((name, pod) -> {
          Map<String, String> labels = pod.getMetadata().getLabels();
          assertEquals(!name.equals("waybill-migrate"), firewall.lets(prometheus, labels, HTTP));
          assertEquals(name.equals("waybill-api"), firewall.lets(client, labels, HTTP), name);
          assertFalse(firewall.lets(stranger, labels, HTTP), name);
          assertFalse(firewall.lets(Peer.at("203.0.113.7"), labels, HTTP), name);
        });
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void posts_and_archives_go_to_public_addresses_and_to_no_private_one(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    Firewall firewall = firewall(manifests);
    manifests
        .ours()
        .forEach((name, pod) -> {
          Map<String, String> labels = pod.getMetadata().getLabels();
          assertEquals(
              name.startsWith("waybill-worker-") || name.equals("waybill-maintenance"),
              firewall.lets(labels, Peer.at("203.0.113.7"), Port.tcp(443)),
              name);
          for (String closed : List.of("10.0.0.1", "192.168.1.1", "169.254.169.254", "127.0.0.1")) {
            assertFalse(firewall.lets(labels, Peer.at(closed), Port.tcp(443)), name + closed);
          }
          assertFalse(firewall.lets(labels, Peer.at("203.0.113.7"), Port.tcp(80)), name);
        });
  }

  @Test
  void the_database_of_cloudnativepg_is_whole_behind_its_rules() {
    Firewall firewall = firewall(Manifests.of("cnpg"));
    for (Map<String, String> from : List.of(POOLER, CLUSTER)) {
      assertTrue(firewall.lets(from, Peer.pod(CLUSTER), Port.tcp(5432)));
      assertTrue(firewall.lets(Peer.pod(from), CLUSTER, Port.tcp(5432)));
      assertTrue(firewall.lets(from, Peer.at("10.0.0.1"), Port.tcp(443)), "the Kubernetes API");
    }
    assertTrue(firewall.lets(CLUSTER, Peer.pod(CLUSTER), Port.tcp(8000)));
    assertTrue(firewall.lets(Peer.pod(CLUSTER), CLUSTER, Port.tcp(8000)));
    Peer operator = Peer.in(namespace("cnpg-system"), Map.of("any", "pod"));
    assertTrue(firewall.lets(operator, CLUSTER, Port.tcp(8000)));
    Peer prometheus = Peer.in(namespace("monitoring"), Map.of("any", "pod"));
    assertTrue(firewall.lets(prometheus, CLUSTER, Port.tcp(9187)));
    assertTrue(firewall.lets(prometheus, POOLER, Port.tcp(9127)));
    Peer stranger = Peer.in(namespace("other"), Map.of("any", "pod"));
    assertFalse(firewall.lets(stranger, CLUSTER, Port.tcp(5432)));
    assertFalse(firewall.lets(stranger, POOLER, Port.tcp(5432)));
  }
}
