package dev.waybill.api;

import io.vertx.core.buffer.Buffer;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import jakarta.enterprise.event.Observes;
import jakarta.inject.Singleton;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Serves the files of Swagger UI, which Quarkus puts into the class path at build time. Quarkus'
 * own handler for them copies them to a temporary directory first; this process writes no file
 * ({@code quarkus.vertx.classpath-resolving=false}), so that its container may be read-only.
 */
@Singleton
final class SwaggerUi {

  private static final Logger LOG = Logger.getLogger(SwaggerUi.class);
  private static final String PATH = "/q/swagger-ui/";
  private static final String FILES =
      "META-INF/io.smallrye_smallrye-open-api-ui__jar/META-INF/resources/openapi-ui/";
  private static final Map<String, String> TYPES =
      Map.of(
          "html", "text/html;charset=UTF-8",
          "js", "text/javascript;charset=UTF-8",
          "css", "text/css;charset=UTF-8",
          "png", "image/png",
          "ico", "image/x-icon");

  /** Before the handler of Quarkus, which would answer 404. */
  private static final int EARLY = -1_000;

  void install(@Observes Router router) {
    router.get(PATH + "*").order(EARLY).blockingHandler(SwaggerUi::serve, false);
  }

  private static void serve(RoutingContext request) {
    if (!request.normalizedPath().startsWith(PATH)) {
      request.redirect(PATH); // As people type it: without the slash at the end.
      return;
    }
    String asked = request.normalizedPath().substring(PATH.length());
    String file = asked.isEmpty() ? "index.html" : asked;
    @Nullable String type = TYPES.get(file.substring(file.lastIndexOf('.') + 1));
    if (type == null || !file.matches("[A-Za-z0-9._-]+")) {
      request.next();
      return;
    }
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    try (@Nullable InputStream in = loader.getResourceAsStream(FILES + file)) {
      if (in == null) {
        request.next();
        return;
      }
      request
          .response()
          .putHeader("Content-Type", type)
          .putHeader("X-Content-Type-Options", "nosniff")
          .putHeader("X-Frame-Options", "DENY")
          .putHeader("Cache-Control", "max-age=3600")
          .end(Buffer.buffer(in.readAllBytes()));
    } catch (IOException failure) {
      LOG.warnf("not served path=%s reason=%s", PATH, failure.getClass().getSimpleName());
      request.fail(500);
    }
  }
}
