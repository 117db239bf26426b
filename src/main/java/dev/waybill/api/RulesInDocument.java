package dev.waybill.api;

import dev.waybill.access.Allowed;
import io.quarkus.smallrye.openapi.OpenApiFilter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.eclipse.microprofile.openapi.OASFactory;
import org.eclipse.microprofile.openapi.OASFilter;
import org.eclipse.microprofile.openapi.models.OpenAPI;
import org.eclipse.microprofile.openapi.models.Operation;
import org.eclipse.microprofile.openapi.models.PathItem;
import org.eclipse.microprofile.openapi.models.security.SecurityScheme;
import org.jboss.jandex.AnnotationInstance;
import org.jboss.jandex.AnnotationTarget;
import org.jboss.jandex.AnnotationValue;
import org.jboss.jandex.IndexView;
import org.jspecify.annotations.Nullable;

/**
 * Puts who may call what into the OpenAPI document, from the annotations that the guard reads: the
 * document cannot say something else than what is done.
 */
@OpenApiFilter(stages = OpenApiFilter.RunStage.BUILD)
public final class RulesInDocument implements OASFilter {

  private static final String SCHEME = "bearer";
  private static final String OPERATION = "org.eclipse.microprofile.openapi.annotations.Operation";

  private record Rule(List<String> roles, boolean everyTenant) {}

  private final Map<String, Rule> rules = new HashMap<>();

  public RulesInDocument(IndexView index) {
    for (AnnotationInstance allowed : index.getAnnotations(Allowed.class)) {
      @Nullable AnnotationInstance operation =
          allowed.target().kind() == AnnotationTarget.Kind.METHOD
              ? allowed.target().asMethod().annotation(OPERATION)
              : null;
      @Nullable AnnotationValue id = operation == null ? null : operation.value("operationId");
      if (id != null) {
        rules.put(id.asString(), rule(allowed));
      }
    }
  }

  private static Rule rule(AnnotationInstance allowed) {
    var roles = new ArrayList<String>();
    for (String name : allowed.value().asEnumArray()) {
      roles.add(name.toLowerCase(Locale.ROOT));
    }
    roles.add("operator");
    @Nullable AnnotationValue everyTenant = allowed.value("everyTenant");
    return new Rule(roles, everyTenant != null && everyTenant.asBoolean());
  }

  @Override
  public void filterOpenAPI(OpenAPI document) {
    if (document.getComponents() == null) {
      document.setComponents(OASFactory.createComponents());
    }
    document
        .getComponents()
        .addSecurityScheme(
            SCHEME,
            OASFactory.createSecurityScheme()
                .type(SecurityScheme.Type.HTTP)
                .scheme("bearer")
                .description(
                    "An API token or a JWT, as WAYBILL_AUTH says; not asked for with none"));
    if (document.getPaths() != null && document.getPaths().getPathItems() != null) {
      document.getPaths().getPathItems().values().forEach(this::path);
    }
  }

  private void path(PathItem path) {
    path.getOperations().values().forEach(this::operation);
  }

  private void operation(Operation operation) {
    @Nullable Rule rule = rules.get(String.valueOf(operation.getOperationId()));
    if (rule == null) {
      return;
    }
    operation.addExtension("x-waybill-roles", rule.roles());
    operation.addExtension("x-waybill-every-tenant", rule.everyTenant());
    operation.addSecurityRequirement(OASFactory.createSecurityRequirement().addScheme(SCHEME));
    answer(operation, "401", "The credential is missing, not known, expired or revoked");
    answer(operation, "403", "The credential is not for this");
  }

  private static void answer(Operation operation, String status, String says) {
    if (operation.getResponses() == null) {
      operation.setResponses(OASFactory.createAPIResponses());
    }
    if (!operation.getResponses().hasAPIResponse(status)) {
      operation
          .getResponses()
          .addAPIResponse(status, OASFactory.createAPIResponse().description(says));
    }
  }
}
