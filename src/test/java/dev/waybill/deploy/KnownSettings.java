package dev.waybill.deploy;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import io.quarkus.runtime.configuration.DurationConverter;
import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithName;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The settings of the service, read from the service: every room's configuration, and the files.
 */
final class KnownSettings {

  private KnownSettings() {}

  static Set<String> variables() throws ReflectiveOperationException {
    var variables = new TreeSet<String>();
    for (JavaClass room :
        new ClassFileImporter()
            .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
            .importPackages("dev.waybill")) {
      if (room.isAnnotatedWith(ConfigMapping.class)) {
        Class<?> settings = Class.forName(room.getName());
        add(settings.getAnnotation(ConfigMapping.class).prefix(), settings, variables);
      }
    }
    for (Object secret : secrets().keySet()) {
      variables.add(secret + "_FILE");
    }
    return variables;
  }

  private static void add(String prefix, Class<?> settings, Set<String> to) {
    for (Method method : settings.getDeclaredMethods()) {
      @Nullable WithName name = method.getAnnotation(WithName.class);
      String setting = prefix + "." + (name == null ? kebab(method.getName()) : name.value());
      if (method.getReturnType().isInterface()
          && method.getReturnType().getEnclosingClass() != null) {
        add(setting, method.getReturnType(), to);
      } else {
        to.add(setting.toUpperCase(Locale.ROOT).replaceAll("[^A-Z0-9]", "_"));
      }
    }
  }

  private static String kebab(String method) {
    return method.replaceAll("([A-Z])", "-$1").toLowerCase(Locale.ROOT);
  }

  private static Map<?, ?> secrets() throws ReflectiveOperationException {
    return (Map<?, ?>) hidden("dev.waybill.SecretFiles", "SECRETS");
  }

  /** How much longer than WAYBILL_DRAIN a stop may take. */
  static long afterDrainSeconds() throws ReflectiveOperationException {
    return ((Duration) hidden("dev.waybill.Preflight", "AFTER_DRAIN")).toSeconds();
  }

  private static Object hidden(String type, String field) throws ReflectiveOperationException {
    Field constant = Class.forName(type).getDeclaredField(field);
    constant.setAccessible(true);
    return constant.get(null);
  }

  static long seconds(String duration) {
    return DurationConverter.parseDuration(duration).toSeconds();
  }
}
