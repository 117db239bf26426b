package dev.waybill.deploy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.networknt.schema.JsonSchemaFactory;
import com.networknt.schema.SpecVersion;
import dev.waybill.run.PoolPlan;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerPort;
import io.fabric8.kubernetes.api.model.LabelSelector;
import io.fabric8.kubernetes.api.model.PodSpec;
import io.fabric8.kubernetes.api.model.PodTemplateSpec;
import io.fabric8.kubernetes.api.model.Quantity;
import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceAccount;
import io.fabric8.kubernetes.api.model.Volume;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.autoscaling.v2.HorizontalPodAutoscaler;
import io.fabric8.kubernetes.api.model.batch.v1.Job;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import io.fabric8.kubernetes.api.model.policy.v1.PodDisruptionBudget;
import io.fabric8.openshift.api.model.monitoring.v1.ServiceMonitor;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What deploy/k8s amounts to, as the API server and the cluster would read it, held against what
 * the service reads, serves and needs.
 */
final class ManifestsTest {

  private static final Path RENDERED = Manifests.DIRECTORY.resolve("rendered");

  /** Made by hand in a cluster, as the README says. */
  private static final Set<String> GIVEN =
      Set.of(
          "Secret/waybill-runtime",
          "Secret/waybill-owner",
          "Secret/waybill-access",
          "ConfigMap/waybill-database-ca");

  /** Made by CloudNativePG. */
  private static final Set<String> BY_OPERATOR = Set.of("Secret/waybill-db-ca");

  static List<String> overlays() {
    return Manifests.overlays();
  }

  @Test
  void there_is_an_overlay_for_each_way_to_run() {
    assertEquals(List.of("cnpg", "dev", "hpa", "keda", "production"), overlays());
  }

  /** Needs no kustomize: the digest of everything that went in stands in the first line. */
  @ParameterizedTest
  @MethodSource("overlays")
  void what_was_rendered_is_of_these_very_files(String overlay) throws Exception {
    String first = Files.readAllLines(RENDERED.resolve(overlay + ".yaml")).getFirst();
    assertTrue(first.endsWith("sha256 " + digest()), overlay + " is stale: run deploy/k8s/render");
  }

  private static String digest() throws Exception {
    var digest = MessageDigest.getInstance("SHA-256");
    Path deploy = Path.of("deploy");
    try (Stream<Path> k8s = Files.walk(deploy.resolve("k8s"));
        Stream<Path> sql = Files.walk(deploy.resolve("postgresql"))) {
      List<String> inputs =
          Stream.concat(k8s, sql)
              .filter(Files::isRegularFile)
              .map(file -> deploy.relativize(file).toString())
              .filter(file -> file.endsWith(".yaml") || file.endsWith(".sql"))
              .filter(file -> !file.startsWith("k8s/rendered/"))
              .sorted()
              .toList();
      for (String input : inputs) {
        digest.update((input + "\n").getBytes(StandardCharsets.UTF_8));
        digest.update(Files.readAllBytes(deploy.resolve(input)));
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Where there is a kubectl, which brings kustomize with it, it is asked itself as well. */
  @ParameterizedTest
  @MethodSource("overlays")
  void kustomize_says_the_same_where_it_is_installed(String overlay) throws Exception {
    Path built = Files.createTempFile("waybill-kustomize-", ".yaml");
    try {
      Process process;
      try {
        process =
            new ProcessBuilder("kubectl", "kustomize", "deploy/k8s/overlays/" + overlay)
                .redirectOutput(built.toFile())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
      } catch (IOException _) {
        return; // Not installed: the digest has to do.
      }
      assertTrue(process.waitFor(60, TimeUnit.SECONDS));
      assertEquals(0, process.exitValue());
      assertEquals(
          Manifests.documents(built), Manifests.documents(RENDERED.resolve(overlay + ".yaml")));
    } finally {
      Files.delete(built);
    }
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void every_object_is_one_that_the_cluster_takes(String overlay) throws IOException {
    Manifests manifests = Manifests.of(overlay);
    assertTrue(manifests.names().size() > 15, manifests.names().toString());
    for (JsonNode custom : manifests.custom()) {
      assertEquals(Set.of(), faults(custom), overlay + " " + Manifests.kind(custom));
    }
  }

  private static Set<String> faults(JsonNode custom) throws IOException {
    String file = "/crd/" + custom.path("kind").asText() + ".json";
    try (InputStream schema = ManifestsTest.class.getResourceAsStream(file)) {
      assertNotNull(schema, file);
      return JsonSchemaFactory.getInstance(SpecVersion.VersionFlag.V202012)
          .getSchema(schema)
          .validate(custom)
          .stream()
          .map(Object::toString)
          .collect(Collectors.toSet());
    }
  }

  /** The check itself must be able to fail. */
  @Test
  void a_field_that_kubernetes_does_not_know_is_refused() throws IOException {
    for (String overlay : List.of("production", "keda", "cnpg")) {
      for (JsonNode document : Manifests.documents(RENDERED.resolve(overlay + ".yaml"))) {
        var wrong = (ObjectNode) document.deepCopy();
        wrong.putObject("metadata").put("name", "x").put("lables", "wrong");
        if (Manifests.CUSTOM.contains(Manifests.kind(document))) {
          assertFalse(faults(wrong).isEmpty());
        } else {
          var refused = assertThrows(IllegalArgumentException.class, () -> Manifests.strict(wrong));
          assertTrue(String.valueOf(refused.getMessage()).contains("lables"), refused.getMessage());
        }
      }
    }
    JsonNode deep =
        Manifests.documents(
                "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, livenessProbe: {httpGet: {paht: /}}}]}}}")
            .getFirst();
    assertThrows(IllegalArgumentException.class, () -> Manifests.strict(deep));
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void what_is_named_is_there(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    var known = new HashSet<>(manifests.names());
    if (!overlay.equals("dev")) {
      known.addAll(GIVEN);
    }
    if (overlay.equals("cnpg")) {
      known.addAll(BY_OPERATOR);
    }
    manifests
        .pods()
        .forEach((name, pod) -> {
          for (String named : named(pod)) {
            assertTrue(known.contains(named), overlay + " " + name + " wants " + named);
          }
          Set<String> volumes =
              pod.getSpec().getVolumes().stream().map(Volume::getName).collect(Collectors.toSet());
          Manifests.container(pod)
              .getVolumeMounts()
              .forEach(mount ->
                  assertTrue(
                      volumes.contains(mount.getName()), name + " mounts " + mount.getName()));
        });
    if (overlay.equals("dev")) {
      assertTrue(manifests.all(Secret.class).size() >= 3);
    }
    assertEquals(
        "waybill", manifests.the(ServiceAccount.class, "waybill").getMetadata().getNamespace());
  }

  private static Set<String> named(PodTemplateSpec pod) {
    var named = new TreeSet<String>();
    for (Volume volume : pod.getSpec().getVolumes()) {
      if (volume.getSecret() != null) {
        named.add("Secret/" + volume.getSecret().getSecretName());
      }
      if (volume.getConfigMap() != null) {
        named.add("ConfigMap/" + volume.getConfigMap().getName());
      }
    }
    Manifests.container(pod)
        .getEnvFrom()
        .forEach(from -> named.add("ConfigMap/" + from.getConfigMapRef().getName()));
    if (pod.getSpec().getServiceAccountName() != null) {
      named.add("ServiceAccount/" + pod.getSpec().getServiceAccountName());
    }
    return named;
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void selectors_find_pods_and_ports_are_those_of_the_process(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    for (Service service : manifests.all(Service.class)) {
      List<PodTemplateSpec> found = selected(manifests, service.getSpec().getSelector());
      assertFalse(found.isEmpty(), service.getMetadata().getName());
      for (PodTemplateSpec pod : found) {
        Set<String> ports =
            Manifests.container(pod).getPorts().stream()
                .map(ContainerPort::getName)
                .collect(Collectors.toSet());
        service
            .getSpec()
            .getPorts()
            .forEach(port ->
                assertTrue(
                    ports.contains(port.getTargetPort().getStrVal()),
                    service.getMetadata().getName()));
      }
    }
    for (PodDisruptionBudget budget : manifests.all(PodDisruptionBudget.class)) {
      assertFalse(selected(manifests, budget.getSpec().getSelector().getMatchLabels()).isEmpty());
      assertEquals(1, budget.getSpec().getMaxUnavailable().getIntVal());
    }
    for (ServiceMonitor monitor : manifests.all(ServiceMonitor.class)) {
      LabelSelector selector = monitor.getSpec().getSelector();
      List<Service> scraped =
          manifests.all(Service.class).stream()
              .filter(service ->
                  service
                      .getMetadata()
                      .getLabels()
                      .entrySet()
                      .containsAll(selector.getMatchLabels().entrySet()))
              .toList();
      assertEquals(1, scraped.size());
      assertEquals("/q/metrics", monitor.getSpec().getEndpoints().getFirst().getPath());
      assertEquals(
          scraped.getFirst().getSpec().getPorts().getFirst().getName(),
          monitor.getSpec().getEndpoints().getFirst().getPort());
      Map<String, PodTemplateSpec> all = manifests.ours();
      all.remove("waybill-migrate");
      assertEquals(
          all.size(), selected(manifests, scraped.getFirst().getSpec().getSelector()).size());
    }
    assertEquals(overlay.equals("dev") ? 0 : 1, manifests.all(ServiceMonitor.class).size());
    manifests
        .ours()
        .forEach((name, pod) -> {
          if (!name.equals("waybill-migrate")) {
            assertEquals(
                manifests.environment(name).get("WAYBILL_HTTP_PORT"),
                String.valueOf(Manifests.container(pod).getPorts().getFirst().getContainerPort()));
            assertEquals("0.0.0.0", manifests.environment(name).get("WAYBILL_HTTP_HOST"));
          }
        });
  }

  private static List<PodTemplateSpec> selected(Manifests manifests, Map<String, String> labels) {
    return manifests.pods().values().stream()
        .filter(pod -> pod.getMetadata().getLabels().entrySet().containsAll(labels.entrySet()))
        .toList();
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void every_variable_is_a_setting_that_the_service_knows(String overlay) throws Exception {
    Manifests manifests = Manifests.of(overlay);
    Set<String> known = KnownSettings.variables();
    assertTrue(
        known.contains("WAYBILL_DB_URL") && known.contains("WAYBILL_DB_PASSWORD_FILE"),
        known.toString());
    for (String name : manifests.ours().keySet()) {
      for (String variable : manifests.environment(name).keySet()) {
        assertTrue(
            known.contains(variable),
            overlay + " " + name + ": " + variable + " is none of " + known);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void secrets_come_as_files_and_the_service_is_no_owner(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    manifests
        .ours()
        .forEach((name, pod) -> {
          for (var variable : Manifests.container(pod).getEnv()) {
            assertTrue(
                variable.getValueFrom() == null
                    || variable.getValueFrom().getSecretKeyRef() == null,
                name + ": " + variable.getName());
          }
          Map<String, String> environment = manifests.environment(name);
          assertFalse(environment.containsKey("WAYBILL_DB_PASSWORD"), name);
          for (String url : List.of("WAYBILL_DB_URL", "WAYBILL_LISTEN_URL")) {
            assertFalse(environment.getOrDefault(url, "").contains("@"), name + ": " + url);
          }
          boolean migrates = name.equals("waybill-migrate");
          assertEquals(migrates ? "only" : "never", environment.get("WAYBILL_MIGRATE"), name);
          if (!overlay.equals("dev")) {
            assertEquals(
                migrates ? "waybill" : "waybill_runtime", environment.get("WAYBILL_DB_USER"), name);
            assertTrue(
                environment.getOrDefault("WAYBILL_DB_URL", "").contains("sslmode=verify-full"),
                name);
          }
          Set<String> files =
              Manifests.container(pod).getVolumeMounts().stream()
                  .map(mount -> mount.getMountPath())
                  .collect(Collectors.toSet());
          environment.forEach((variable, value) -> {
            if (variable.endsWith("_FILE")) {
              assertTrue(
                  files.contains(String.valueOf(Path.of(value).getParent())),
                  name + ": " + variable);
            }
          });
        });
  }

  /**
   * The standard's list for "restricted", version 1.34:
   * kubernetes.io/docs/concepts/security/pod-security-standards.
   */
  @ParameterizedTest
  @MethodSource("overlays")
  void every_pod_keeps_the_restricted_standard_on_a_root_that_is_read_only(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    manifests
        .pods()
        .forEach((name, pod) -> {
          PodSpec spec = pod.getSpec();
          assertNull(spec.getHostNetwork(), name);
          assertNull(spec.getHostPID(), name);
          assertNull(spec.getHostIPC(), name);
          assertEquals(true, spec.getSecurityContext().getRunAsNonRoot(), name);
          assertTrue(spec.getSecurityContext().getRunAsUser() > 0, name);
          assertEquals(
              "RuntimeDefault", spec.getSecurityContext().getSeccompProfile().getType(), name);
          assertEquals(false, spec.getAutomountServiceAccountToken(), name);
          for (Volume volume : spec.getVolumes()) {
            assertTrue(
                volume.getSecret() != null
                    || volume.getConfigMap() != null
                    || volume.getEmptyDir() != null,
                name);
          }
          assertTrue(spec.getInitContainers().isEmpty(), name);
          for (Container container : spec.getContainers()) {
            var context = container.getSecurityContext();
            assertEquals(false, context.getAllowPrivilegeEscalation(), name);
            assertEquals(true, context.getReadOnlyRootFilesystem(), name);
            assertEquals(List.of("ALL"), context.getCapabilities().getDrop(), name);
            assertTrue(context.getCapabilities().getAdd().isEmpty(), name);
            assertNull(context.getPrivileged(), name);
            assertNull(context.getRunAsUser(), name);
            container.getPorts().forEach(port -> assertNull(port.getHostPort(), name));
          }
        });
    assertEquals(
        "restricted",
        manifests
            .the(io.fabric8.kubernetes.api.model.Namespace.class, "waybill")
            .getMetadata()
            .getLabels()
            .get("pod-security.kubernetes.io/enforce"));
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void a_pod_has_the_time_to_drain_and_is_replaced_before_it_goes(String overlay) throws Exception {
    Manifests manifests = Manifests.of(overlay);
    for (Deployment deployment : manifests.all(Deployment.class)) {
      String name = deployment.getMetadata().getName();
      if (!manifests.ours().containsKey(name)) {
        continue;
      }
      long drain =
          KnownSettings.seconds(String.valueOf(manifests.environment(name).get("WAYBILL_DRAIN")));
      assertTrue(
          manifests.grace(name).toSeconds()
              >= manifests.preStop(name).toSeconds() + drain + KnownSettings.afterDrainSeconds(),
          name);
      assertTrue(
          manifests.preStop(name).compareTo(manifests.readiness(name).period().multipliedBy(2))
              >= 0,
          "a Service has heard of it by then");
      assertEquals(
          0,
          deployment.getSpec().getStrategy().getRollingUpdate().getMaxUnavailable().getIntVal(),
          name);
      assertEquals("/q/health/started", manifests.startup(name).path());
      assertEquals("/q/health/ready", manifests.readiness(name).path());
      assertEquals("/q/health/live", manifests.liveness(name).path());
      // A start waits for its database for a minute.
      assertTrue(
          manifests
                  .startup(name)
                  .period()
                  .multipliedBy(manifests.startup(name).failures())
                  .toSeconds()
              >= 75);
      var spread = deployment.getSpec().getTemplate().getSpec().getTopologySpreadConstraints();
      assertEquals(
          Set.of("kubernetes.io/hostname", "topology.kubernetes.io/zone"),
          spread.stream().map(one -> one.getTopologyKey()).collect(Collectors.toSet()));
      spread.forEach(one ->
          assertTrue(
              deployment
                  .getSpec()
                  .getTemplate()
                  .getMetadata()
                  .getLabels()
                  .entrySet()
                  .containsAll(one.getLabelSelector().getMatchLabels().entrySet())));
    }
    assertEquals(
        "OnFailure",
        manifests
            .the(Job.class, "waybill-migrate")
            .getSpec()
            .getTemplate()
            .getSpec()
            .getRestartPolicy());
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void each_pool_has_its_workers_and_each_worker_its_pool(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    String setting = manifests.the(ConfigMap.class, "waybill").getData().get("WAYBILL_POOLS");
    assertNotNull(setting);
    Set<String> pools =
        PoolPlan.parse(setting).stream()
            .map(PoolPlan::name)
            .collect(Collectors.toCollection(TreeSet::new));
    var served = new TreeSet<String>();
    for (Deployment deployment : manifests.all(Deployment.class)) {
      @Nullable String pool =
          manifests.ours().containsKey(deployment.getMetadata().getName())
              ? manifests.environment(deployment.getMetadata().getName()).get("WAYBILL_POOL")
              : null;
      if (pool != null) {
        assertTrue(served.add(pool), pool);
        assertEquals("waybill-worker-" + pool, deployment.getMetadata().getName());
        assertEquals(
            pool, deployment.getSpec().getSelector().getMatchLabels().get("waybill.dev/pool"));
        assertEquals(
            "worker",
            manifests.environment(deployment.getMetadata().getName()).get("WAYBILL_ROLES"));
      }
    }
    assertEquals(pools, served);
    assertTrue(served.containsAll(Set.of("bulk", "default")), served.toString());
  }

  /** So that a figure that was measured again is looked at here again. */
  @ParameterizedTest
  @MethodSource("overlays")
  void memory_is_asked_for_as_it_was_measured(String overlay) throws IOException {
    JsonNode measured =
        new ObjectMapper()
            .readTree(Files.readString(Path.of("bench/native/results.json")))
            .path("native");
    var idle = BigDecimal.valueOf(measured.path("idle").path("rss_mb").asDouble());
    var peak = BigDecimal.valueOf(measured.path("peak_rss_after_both_mb").asDouble());
    Manifests manifests = Manifests.of(overlay);
    manifests
        .ours()
        .forEach((name, pod) -> {
          var resources = Manifests.container(pod).getResources();
          assertTrue(
              megabytes(resources.getRequests().get("memory"))
                      .compareTo(name.contains("worker") ? peak : idle)
                  >= 0,
              name);
          assertTrue(
              megabytes(resources.getLimits().get("memory"))
                      .compareTo(peak.multiply(BigDecimal.TWO))
                  >= 0,
              name);
          assertNotNull(resources.getRequests().get("cpu"), name);
        });
  }

  private static BigDecimal megabytes(@Nullable Quantity quantity) {
    assertNotNull(quantity);
    return Quantity.getAmountInBytes(quantity).movePointLeft(6);
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void nothing_goes_in_or_out_that_no_rule_allows(String overlay) {
    Manifests manifests = Manifests.of(overlay);
    NetworkPolicy deny = manifests.the(NetworkPolicy.class, "default-deny");
    assertTrue(deny.getSpec().getPodSelector().getMatchLabels().isEmpty());
    assertTrue(deny.getSpec().getPodSelector().getMatchExpressions().isEmpty());
    assertEquals(List.of("Ingress", "Egress"), deny.getSpec().getPolicyTypes());
    assertTrue(deny.getSpec().getIngress().isEmpty() && deny.getSpec().getEgress().isEmpty());
    for (String name : List.of("dns", "database", "api", "metrics", "push", "maintenance")) {
      NetworkPolicy policy = manifests.the(NetworkPolicy.class, name);
      assertFalse(
          selected(manifests, policy.getSpec().getPodSelector().getMatchLabels()).isEmpty(), name);
      policy
          .getSpec()
          .getIngress()
          .forEach(rule -> assertFalse(rule.getFrom().isEmpty(), name + " lets everybody in"));
      if (policy.getSpec().getPolicyTypes().contains("Egress")) {
        policy
            .getSpec()
            .getEgress()
            .forEach(rule -> assertFalse(rule.getPorts().isEmpty(), name + " lets everything out"));
      }
    }
  }

  @Test
  void the_kinds_of_a_pool_are_chosen_as_prometheus_does_it() {
    assertEquals("kind=\"backfill\"", selector(false, Set.of("backfill")));
    assertEquals("kind=~\"email|newsletter\"", selector(false, Set.of("newsletter", "email")));
    assertEquals("kind!~\"backfill|email\"", selector(true, Set.of("email", "backfill")));
  }

  @Test
  void whoever_is_scaled_by_a_machine_has_no_number_of_its_own() {
    for (String overlay : List.of("hpa", "keda")) {
      Manifests manifests = Manifests.of(overlay);
      Set<String> scaled = overlay.equals("hpa") ? scaledByHpa(manifests) : scaledByKeda(manifests);
      for (Deployment deployment : manifests.all(Deployment.class)) {
        String name = deployment.getMetadata().getName();
        assertEquals(
            scaled.contains(name),
            deployment.getSpec().getReplicas() == null,
            overlay + " " + name);
      }
    }
  }

  private static Set<String> scaledByHpa(Manifests manifests) {
    var scaled = new TreeSet<String>();
    for (HorizontalPodAutoscaler scaler : manifests.all(HorizontalPodAutoscaler.class)) {
      var target = scaler.getSpec().getScaleTargetRef();
      assertNotNull(manifests.the(Deployment.class, target.getName()));
      assertTrue(scaler.getSpec().getMinReplicas() >= 1);
      scaled.add(target.getName());
    }
    var served = new TreeSet<>(Set.of("waybill-api"));
    plans(manifests).forEach(plan -> served.add("waybill-worker-" + plan.name()));
    assertEquals(served, scaled);
    return scaled;
  }

  /** One scaler a pool, by the kinds of that pool and no others. */
  private static Set<String> scaledByKeda(Manifests manifests) {
    List<PoolPlan> plans = plans(manifests);
    var scaled = new TreeSet<String>();
    for (JsonNode scaler : manifests.custom()) {
      String target = scaler.at("/spec/scaleTargetRef/name").asText();
      scaled.add(target);
      PoolPlan plan =
          plans.stream()
              .filter(one -> target.equals("waybill-worker-" + one.name()))
              .findFirst()
              .orElseThrow();
      String selector =
          plan.kinds().contains("*") ? selector(true, named(plans)) : selector(false, plan.kinds());
      var queries = new ArrayList<String>();
      scaler
          .at("/spec/triggers")
          .forEach(trigger -> queries.add(trigger.at("/metadata/query").asText()));
      assertEquals(2, queries.size());
      queries.forEach(query -> assertTrue(query.contains(selector), query + " lacks " + selector));
      assertEquals(
          String.valueOf(plan.slots()), scaler.at("/spec/triggers/0/metadata/threshold").asText());
    }
    assertEquals(plans.size(), scaled.size());
    return scaled;
  }

  private static List<PoolPlan> plans(Manifests manifests) {
    return PoolPlan.parse(
        String.valueOf(manifests.the(ConfigMap.class, "waybill").getData().get("WAYBILL_POOLS")));
  }

  private static Set<String> named(List<PoolPlan> plans) {
    return plans.stream()
        .flatMap(plan -> plan.kinds().stream())
        .filter(kind -> !kind.equals("*"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** As PromQL has it: one kind is equal, several match. */
  private static String selector(boolean without, Collection<String> kinds) {
    boolean one = kinds.size() == 1;
    String operator = without ? one ? "!=" : "!~" : one ? "=" : "=~";
    return "kind" + operator + "\"" + String.join("|", new TreeSet<>(kinds)) + "\"";
  }

  /** The operator makes the memberships of a role that it manages exactly those it is told. */
  @Test
  void with_cloudnativepg_the_service_keeps_what_the_script_grants_it() throws IOException {
    var granted = new TreeSet<String>();
    Matcher grants =
        Pattern.compile("(?m)^GRANT ([a-z_]+) TO ([a-z_, ]+);")
            .matcher(Files.readString(Path.of("deploy/postgresql/roles.sql")));
    while (grants.find()) {
      if (List.of(grants.group(2).split(", ")).contains("waybill_runtime")) {
        granted.add(grants.group(1));
      }
    }
    assertTrue(granted.contains("waybill_history"), granted.toString());
    JsonNode role =
        Manifests.of("cnpg").custom().stream()
            .filter(one -> one.path("kind").asText().equals("Cluster"))
            .findFirst()
            .orElseThrow()
            .at("/spec/managed/roles/0");
    assertEquals("waybill_runtime", role.path("name").asText());
    var kept = new TreeSet<String>();
    role.path("inRoles").forEach(one -> kept.add(one.asText()));
    assertEquals(granted, kept);
  }

  /** Through a pooler in transaction mode. */
  @Test
  void with_cloudnativepg_the_service_listens_and_migrates_past_the_pooler() throws IOException {
    Manifests manifests = Manifests.of("cnpg");
    Map<String, String> worker = manifests.environment("waybill-worker-default");
    assertTrue(
        worker.getOrDefault("WAYBILL_DB_URL", "").contains("//waybill-pooler.")
            && worker.getOrDefault("WAYBILL_DB_URL", "").contains("prepareThreshold=0"));
    assertTrue(worker.getOrDefault("WAYBILL_LISTEN_URL", "").contains("//waybill-db-rw."));
    assertTrue(
        manifests
            .environment("waybill-migrate")
            .getOrDefault("WAYBILL_DB_URL", "")
            .contains("//waybill-db-rw."));
    JsonNode cluster =
        manifests.custom().stream()
            .filter(one -> one.path("kind").asText().equals("Cluster"))
            .findFirst()
            .orElseThrow();
    assertEquals(3, cluster.at("/spec/instances").asInt());
    for (JsonNode ref :
        cluster.at("/spec/bootstrap/initdb/postInitApplicationSQLRefs/configMapRefs")) {
      String sql =
          manifests
              .the(ConfigMap.class, ref.path("name").asText())
              .getData()
              .get(ref.path("key").asText());
      assertEquals(Files.readString(Path.of("deploy/postgresql", ref.path("key").asText())), sql);
    }
  }
}
