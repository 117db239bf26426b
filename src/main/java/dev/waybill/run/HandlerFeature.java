package dev.waybill.run;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.HashSet;
import java.util.Set;
import org.graalvm.nativeimage.hosted.Feature;
import org.graalvm.nativeimage.hosted.RuntimeReflection;
import org.jspecify.annotations.Nullable;

/**
 * Runs while the native image is built: makes the payload records of all handlers known to Jackson,
 * so that nobody has to list them. Named in META-INF/native-image, which travels in the jar:
 * applications with handlers of their own get it too.
 */
public final class HandlerFeature implements Feature {

  private final Set<Class<?>> registered = new HashSet<>();

  @Override
  public String getDescription() {
    return "Waybill: payload records of job handlers";
  }

  @Override
  public void beforeAnalysis(BeforeAnalysisAccess access) {
    access.registerSubtypeReachabilityHandler((_, type) -> handler(type), JobHandler.class);
  }

  /** The handler's own nested records too: that is where its results usually are. */
  private synchronized void handler(Class<?> type) {
    if (type.isInterface() || !registered.add(type)) {
      return;
    }
    RuntimeReflection.register(type);
    for (Class<?> nested : type.getDeclaredClasses()) {
      data(nested);
    }
    for (@Nullable Class<?> at = type; at != null; at = at.getSuperclass()) {
      for (Type implemented : at.getGenericInterfaces()) {
        if (implemented instanceof ParameterizedType generic
            && generic.getRawType() == JobHandler.class) {
          all(generic.getActualTypeArguments()[0]);
        }
      }
    }
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
      default -> {
        // A type variable or a wildcard: Jackson makes maps and lists of it.
      }
    }
  }

  private void data(Class<?> type) {
    boolean known = type.isPrimitive() || type.getName().startsWith("java.") || type.isArray();
    if (known || (type.isInterface() && !type.isSealed()) || !registered.add(type)) {
      return;
    }
    RuntimeReflection.register(type);
    RuntimeReflection.register(type.getDeclaredConstructors());
    RuntimeReflection.register(type.getDeclaredMethods());
    RuntimeReflection.register(type.getDeclaredFields());
    if (type.isRecord()) {
      RuntimeReflection.registerAllRecordComponents(type);
      for (RecordComponent component : type.getRecordComponents()) {
        all(component.getGenericType());
      }
    }
    if (type.isSealed()) {
      for (Class<?> permitted : type.getPermittedSubclasses()) {
        data(permitted);
      }
    }
  }
}
