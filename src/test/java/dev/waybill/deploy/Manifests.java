package dev.waybill.deploy;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.JacksonAnnotationIntrospector;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import com.fasterxml.jackson.dataformat.yaml.YAMLParser;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.EnvVar;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.Namespace;
import io.fabric8.kubernetes.api.model.PodTemplateSpec;
import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceAccount;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.autoscaling.v2.HorizontalPodAutoscaler;
import io.fabric8.kubernetes.api.model.batch.v1.Job;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import io.fabric8.kubernetes.api.model.policy.v1.PodDisruptionBudget;
import io.fabric8.openshift.api.model.monitoring.v1.ServiceMonitor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** One rendered overlay, read with the Kubernetes API's own types, which refuse unknown fields. */
public final class Manifests {

  public static final Path DIRECTORY = Path.of("deploy", "k8s");

  private static final Map<String, Class<? extends HasMetadata>> TYPES =
      Map.ofEntries(
          Map.entry("v1/Namespace", Namespace.class),
          Map.entry("v1/ServiceAccount", ServiceAccount.class),
          Map.entry("v1/ConfigMap", ConfigMap.class),
          Map.entry("v1/Secret", Secret.class),
          Map.entry("v1/Service", Service.class),
          Map.entry("apps/v1/Deployment", Deployment.class),
          Map.entry("batch/v1/Job", Job.class),
          Map.entry("policy/v1/PodDisruptionBudget", PodDisruptionBudget.class),
          Map.entry("networking.k8s.io/v1/NetworkPolicy", NetworkPolicy.class),
          Map.entry("autoscaling/v2/HorizontalPodAutoscaler", HorizontalPodAutoscaler.class),
          Map.entry("monitoring.coreos.com/v1/ServiceMonitor", ServiceMonitor.class));

  /** Of operators that Fabric8 has no types for: checked by the schemas of src/test/resources. */
  static final Set<String> CUSTOM =
      Set.of(
          "keda.sh/v1alpha1/ScaledObject",
          "postgresql.cnpg.io/v1/Cluster",
          "postgresql.cnpg.io/v1/Pooler");

  private static final ObjectMapper YAML =
      new ObjectMapper(
          YAMLFactory.builder()
              .enable(YAMLParser.Feature.PARSE_BOOLEAN_LIKE_WORDS_AS_STRINGS)
              .build());

  /** Fabric8's types keep what they do not know in a map on the side; here it is an error. */
  private static final ObjectMapper STRICT =
      JsonMapper.builder()
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .annotationIntrospector(
              new JacksonAnnotationIntrospector() {
                private static final long serialVersionUID = 1L;

                @Override
                public Boolean hasAnySetter(Annotated member) {
                  return false;
                }
              })
          .build();

  private final String overlay;
  private final Map<String, HasMetadata> typed = new LinkedHashMap<>();
  private final List<JsonNode> custom = new ArrayList<>();

  private Manifests(String overlay) {
    this.overlay = overlay;
  }

  public static Manifests of(String overlay) {
    return read(overlay, DIRECTORY.resolve("rendered").resolve(overlay + ".yaml"));
  }

  static Manifests read(String overlay, Path rendered) {
    var manifests = new Manifests(overlay);
    documents(rendered).forEach(manifests::add);
    return manifests;
  }

  static List<String> overlays() {
    try (Stream<Path> directories = Files.list(DIRECTORY.resolve("overlays"))) {
      return directories.map(path -> path.getFileName().toString()).sorted().toList();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  static List<JsonNode> documents(Path file) {
    try {
      return documents(Files.readString(file));
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  static List<JsonNode> documents(String yaml) throws IOException {
    try (var values = YAML.readerFor(JsonNode.class).<JsonNode>readValues(yaml)) {
      return values.readAll().stream().filter(JsonNode::isObject).toList();
    }
  }

  /** As the API server reads it: what it does not know is refused. */
  static HasMetadata strict(JsonNode document) {
    Class<? extends HasMetadata> type = TYPES.get(kind(document));
    if (type == null) {
      throw new IllegalArgumentException("no type for " + kind(document));
    }
    try {
      return STRICT.treeToValue(document, type);
    } catch (IOException failure) {
      throw new IllegalArgumentException(kind(document) + ": " + failure.getMessage(), failure);
    }
  }

  static String kind(JsonNode document) {
    return document.path("apiVersion").asText() + "/" + document.path("kind").asText();
  }

  private void add(JsonNode document) {
    if (CUSTOM.contains(kind(document))) {
      custom.add(document);
      return;
    }
    HasMetadata object = strict(document);
    String name = object.getKind() + "/" + object.getMetadata().getName();
    if (typed.put(name, object) != null) {
      throw new IllegalArgumentException(overlay + ": twice: " + name);
    }
  }

  List<JsonNode> custom() {
    return custom;
  }

  Set<String> names() {
    return typed.keySet();
  }

  <T extends HasMetadata> List<T> all(Class<T> type) {
    return typed.values().stream().filter(type::isInstance).map(type::cast).toList();
  }

  <T extends HasMetadata> T the(Class<T> type, String name) {
    return all(type).stream()
        .filter(one -> one.getMetadata().getName().equals(name))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException(overlay + " has no " + name));
  }

  /** The pods that this overlay makes, by the name of what makes them. */
  Map<String, PodTemplateSpec> pods() {
    var pods = new TreeMap<String, PodTemplateSpec>();
    all(Deployment.class)
        .forEach(one -> pods.put(one.getMetadata().getName(), one.getSpec().getTemplate()));
    all(Job.class)
        .forEach(one -> pods.put(one.getMetadata().getName(), one.getSpec().getTemplate()));
    return pods;
  }

  /** Those that are Waybill and not a database beside it. */
  Map<String, PodTemplateSpec> ours() {
    var ours = pods();
    ours.values()
        .removeIf(
            pod -> !"waybill".equals(pod.getMetadata().getLabels().get("app.kubernetes.io/name")));
    return ours;
  }

  static Container container(PodTemplateSpec pod) {
    return pod.getSpec().getContainers().getFirst();
  }

  /** What a pod's process finds in its environment, the fields of the pod itself put in. */
  public Map<String, String> environment(String name) {
    PodTemplateSpec pod = pod(name);
    var environment = new TreeMap<String, String>();
    container(pod)
        .getEnvFrom()
        .forEach(from ->
            environment.putAll(the(ConfigMap.class, from.getConfigMapRef().getName()).getData()));
    for (EnvVar variable : container(pod).getEnv()) {
      environment.put(variable.getName(), value(variable, pod));
    }
    return environment;
  }

  private static String value(EnvVar variable, PodTemplateSpec pod) {
    @Nullable String value = variable.getValue();
    if (value != null) {
      return value;
    }
    String path = variable.getValueFrom().getFieldRef().getFieldPath();
    String label = path.replaceFirst("^metadata\\.labels\\['(.+)'\\]$", "$1");
    return String.valueOf(pod.getMetadata().getLabels().get(label));
  }

  private PodTemplateSpec pod(String name) {
    PodTemplateSpec pod = pods().get(name);
    if (pod == null) {
      throw new IllegalArgumentException(overlay + " has no pod of " + name);
    }
    return pod;
  }

  public Duration preStop(String name) {
    return Duration.ofSeconds(
        container(pod(name)).getLifecycle().getPreStop().getSleep().getSeconds());
  }

  public Duration grace(String name) {
    return Duration.ofSeconds(pod(name).getSpec().getTerminationGracePeriodSeconds());
  }

  /** What the kubelet asks, how often, and after how many answers it believes them. */
  public record Probe(String path, Duration period, Duration timeout, int failures) {
    static Probe of(io.fabric8.kubernetes.api.model.Probe probe) {
      return new Probe(
          probe.getHttpGet().getPath(),
          Duration.ofSeconds(probe.getPeriodSeconds()),
          Duration.ofSeconds(probe.getTimeoutSeconds()),
          probe.getFailureThreshold());
    }
  }

  public Probe startup(String name) {
    return Probe.of(container(pod(name)).getStartupProbe());
  }

  public Probe readiness(String name) {
    return Probe.of(container(pod(name)).getReadinessProbe());
  }

  public Probe liveness(String name) {
    return Probe.of(container(pod(name)).getLivenessProbe());
  }
}
