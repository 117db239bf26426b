package dev.waybill.api;

import io.quarkus.smallrye.openapi.OpenApiFilter;
import java.util.List;
import java.util.Map;
import org.eclipse.microprofile.openapi.OASFactory;
import org.eclipse.microprofile.openapi.OASFilter;
import org.eclipse.microprofile.openapi.models.media.Schema;
import org.eclipse.microprofile.openapi.models.media.Schema.SchemaType;
import org.eclipse.microprofile.openapi.models.parameters.Parameter;
import org.jspecify.annotations.Nullable;

/**
 * Says of parameters what they are. To the methods all of them are text, so that a wrong one is
 * refused by name and not by the framework.
 */
@OpenApiFilter(stages = OpenApiFilter.RunStage.BUILD)
public final class ParametersInDocument implements OASFilter {

  /** What a path needs. Not of a query: Swagger UI would send them with each try. */
  private static final Map<String, Object> EXAMPLES =
      Map.of("id", 42, "kind", "email", "tenant", "acme");

  @Override
  public @Nullable Parameter filterParameter(Parameter parameter) {
    @Nullable Schema said = parameter.getSchema();
    Schema schema = said == null ? OASFactory.createSchema() : said;
    boolean path = parameter.getIn() == Parameter.In.PATH;
    if ((path && parameter.getName().equals("id")) || parameter.getName().equals("limit")) {
      schema.setType(List.of(SchemaType.INTEGER));
      schema.setFormat(path ? "int64" : "int32");
    } else if (schema.getType() == null) {
      schema.setType(List.of(SchemaType.STRING));
    }
    parameter.setSchema(schema);
    if (path && parameter.getExample() == null) {
      parameter.setExample(EXAMPLES.get(parameter.getName()));
    }
    return parameter;
  }
}
