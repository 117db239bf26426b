package dev.waybill.run;

import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.databind.type.TypeFactory;
import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.graalvm.nativeimage.hosted.Feature;
import org.graalvm.nativeimage.hosted.RuntimeReflection;
import org.jspecify.annotations.Nullable;

/**
 * Runs while the native image is built: makes the payloads and the results of all handlers known to
 * Jackson, so that nobody has to list them. Named in META-INF/native-image, which travels in the
 * jar: applications with handlers of their own get it too.
 *
 * <p>A handler names its payload's type. Its results it does not: so it is the records that are
 * used, of every jar that has a handler.
 */
public final class HandlerFeature implements Feature {

  private final Set<Class<?>> registered = new HashSet<>();

  /** Places that have a handler. */
  private final Set<String> homes = new HashSet<>();

  /** Records of places that have no handler so far, by place. */
  private final Map<String, List<Class<?>>> waiting = new HashMap<>();

  @Override
  public String getDescription() {
    return "Waybill: payloads and results of job handlers";
  }

  @Override
  public void beforeAnalysis(BeforeAnalysisAccess access) {
    access.registerSubtypeReachabilityHandler((_, type) -> handler(type), JobHandler.class);
    access.registerSubtypeReachabilityHandler((_, type) -> record(type), Record.class);
  }

  private synchronized void handler(Class<?> type) {
    if (type.isInterface() || !registered.add(type)) {
      return;
    }
    // Handlers asks for its generic supertypes.
    RuntimeReflection.register(type);
    for (var parameter :
        TypeFactory.defaultInstance().constructType(type).findTypeParameters(JobHandler.class)) {
      all(parameter);
    }
    String home = home(type);
    if (homes.add(home)) {
      waiting.getOrDefault(home, List.of()).forEach(this::data);
      waiting.remove(home);
    }
  }

  private synchronized void record(Class<?> type) {
    String home = home(type);
    if (homes.contains(home)) {
      data(type);
    } else {
      waiting.computeIfAbsent(home, _ -> new ArrayList<>()).add(type);
    }
  }

  /** The jar or directory that the class is from; the JDK's own are at home nowhere. */
  private static String home(Class<?> type) {
    @Nullable CodeSource source = type.getProtectionDomain().getCodeSource();
    return source == null || source.getLocation() == null ? "" : source.getLocation().toString();
  }

  private void all(Type type) {
    switch (type) {
      case Class<?> plain -> data(plain);
      case ParameterizedType generic -> {
        all(generic.getRawType());
        for (Type argument : generic.getActualTypeArguments()) {
          all(argument);
        }
      }
      case GenericArrayType array -> all(array.getGenericComponentType());
      default -> {
        // A type variable or a wildcard: Jackson makes maps and lists of it.
      }
    }
  }

  /** With all that is in it. */
  private void data(Class<?> type) {
    if (type.isArray()) {
      data(type.getComponentType());
      return;
    }
    if (type.isPrimitive() || isLibrary(type) || !registered.add(type)) {
      return;
    }
    RuntimeReflection.register(type);
    RuntimeReflection.register(type.getDeclaredConstructors());
    RuntimeReflection.register(type.getDeclaredMethods());
    RuntimeReflection.register(type.getDeclaredFields());
    if (type.isRecord()) {
      RuntimeReflection.registerAllRecordComponents(type);
    }
    for (Field field : type.getDeclaredFields()) {
      if (!Modifier.isStatic(field.getModifiers())) {
        all(field.getGenericType());
      }
    }
    @Nullable Type base = type.getGenericSuperclass();
    if (base != null) {
      all(base);
    }
    subtypes(type);
  }

  private void subtypes(Class<?> type) {
    if (type.isSealed()) {
      for (Class<?> permitted : type.getPermittedSubclasses()) {
        data(permitted);
      }
    }
    @Nullable JsonSubTypes named = type.getDeclaredAnnotation(JsonSubTypes.class);
    if (named != null) {
      for (JsonSubTypes.Type subtype : named.value()) {
        data(subtype.value());
      }
    }
  }

  /** What Jackson knows by itself. */
  private static boolean isLibrary(Class<?> type) {
    return type.getName().startsWith("java.")
        || type.getName().startsWith("com.fasterxml.jackson.");
  }
}
