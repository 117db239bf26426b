package dev.waybill.deploy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.waybill.deploy.Firewall.Peer;
import dev.waybill.deploy.Firewall.Port;
import dev.waybill.run.PoolPlan;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What the README says that an operator adds, added to a copy and rendered by kustomize itself;
 * where there is no kubectl this is left out.
 */
final class OwnOverlayTest {

  /** The overlay production of a copy with these lines in its list of components. */
  private static Manifests production(Path copy, String components) throws Exception {
    Path overlay = copy.resolve("k8s/overlays/production");
    Path file = overlay.resolve("kustomization.yaml");
    String was = Files.readString(file);
    String now = was.replace("  - ../../pools/bulk\n", "  - ../../pools/bulk\n" + components);
    assertFalse(now.equals(was));
    Files.writeString(file, now);
    Path rendered = copy.resolve("rendered.yaml");
    Process process =
        new ProcessBuilder("kubectl", "kustomize", overlay.toString())
            .redirectOutput(rendered.toFile())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue());
    return Manifests.read("production", rendered);
  }

  private static void copyDeploy(Path to) throws IOException {
    assumeTrue(
        Stream.of(System.getenv().getOrDefault("PATH", "").split(":"))
            .anyMatch(directory -> Files.isExecutable(Path.of(directory, "kubectl"))),
        "no kubectl here");
    Path deploy = Path.of("deploy");
    try (Stream<Path> tree = Files.walk(deploy)) {
      for (Path file : tree.filter(Files::isRegularFile).toList()) {
        Path target = to.resolve(deploy.relativize(file).toString());
        Files.createDirectories(target.resolveSibling(""));
        Files.copy(file, target);
      }
    }
  }

  @Test
  void a_pool_is_one_file_and_one_line(@TempDir Path copy) throws Exception {
    copyDeploy(copy);
    Path pools = copy.resolve("k8s/pools");
    String bulk = Files.readString(pools.resolve("bulk/kustomization.yaml"));
    Path mail = Files.createDirectory(pools.resolve("mail"));
    Files.writeString(
        mail.resolve("kustomization.yaml"),
        bulk.replace("bulk=backfill:8", "mail=email,newsletter:32").replace("bulk", "mail"));
    Manifests manifests = production(copy, "  - ../../pools/mail\n");
    String setting =
        String.valueOf(manifests.the(ConfigMap.class, "waybill").getData().get("WAYBILL_POOLS"));
    assertEquals(
        Set.of(
            new PoolPlan("default", Set.of("*"), 64),
            new PoolPlan("bulk", Set.of("backfill"), 8),
            new PoolPlan("mail", Set.of("email", "newsletter"), 32)),
        Set.copyOf(PoolPlan.parse(setting)));
    for (String pool : List.of("default", "bulk", "mail")) {
      Deployment worker = manifests.the(Deployment.class, "waybill-worker-" + pool);
      assertEquals(pool, worker.getSpec().getSelector().getMatchLabels().get("waybill.dev/pool"));
      assertEquals(pool, manifests.environment("waybill-worker-" + pool).get("WAYBILL_POOL"), pool);
    }
  }

  @Test
  void traces_reach_the_collector_that_their_component_names(@TempDir Path copy) throws Exception {
    copyDeploy(copy);
    Manifests manifests = production(copy, "  - ../../components/traces\n");
    var firewall = new Firewall(manifests.all(NetworkPolicy.class));
    manifests
        .ours()
        .forEach((name, pod) -> {
          URI collector =
              URI.create(
                  String.valueOf(manifests.environment(name).get("OTEL_EXPORTER_OTLP_ENDPOINT")));
          String namespace = collector.getHost().split("\\.", -1)[1];
          Peer peer =
              Peer.in(Map.of("kubernetes.io/metadata.name", namespace), Map.of("any", "pod"));
          Map<String, String> labels = pod.getMetadata().getLabels();
          assertTrue(firewall.lets(labels, peer, Port.tcp(collector.getPort())), name);
          assertFalse(firewall.lets(labels, peer, Port.tcp(9090)), name);
        });
  }

  @Test
  void alerts_have_their_webhook_in_the_pods_that_send_them(@TempDir Path copy) throws Exception {
    copyDeploy(copy);
    Manifests manifests = production(copy, "  - ../../components/alerts\n");
    Set<String> known = KnownSettings.variables();
    manifests
        .ours()
        .forEach((name, pod) -> {
          Map<String, String> environment = manifests.environment(name);
          boolean sends = name.equals("waybill-maintenance");
          for (String setting :
              List.of("WAYBILL_ALERT_WEBHOOK_FILE", "WAYBILL_ALERT_SECRET_FILE")) {
            assertTrue(known.contains(setting), setting);
            assertEquals(sends, environment.containsKey(setting), name + " " + setting);
          }
          Set<String> mounts =
              Manifests.container(pod).getVolumeMounts().stream()
                  .map(mount -> mount.getMountPath())
                  .collect(Collectors.toSet());
          assertEquals(sends, mounts.contains("/run/secrets/waybill-alert"), name);
          assertTrue(mounts.contains("/run/secrets/waybill"), "the others are left: " + name);
        });
  }
}
