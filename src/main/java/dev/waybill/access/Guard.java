package dev.waybill.access;

import jakarta.inject.Inject;
import jakarta.ws.rs.container.ContainerRequestContext;
import jakarta.ws.rs.container.ResourceInfo;
import jakarta.ws.rs.core.HttpHeaders;
import java.lang.reflect.Method;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.Set;
import org.jboss.resteasy.reactive.server.ServerRequestFilter;
import org.jspecify.annotations.Nullable;

/** Stands at the HTTP door: every request passes here before its body is read. */
final class Guard {

  private static final Set<String> READS = Set.of("GET", "HEAD", "OPTIONS");

  private final Access access;
  private final CurrentCaller current;

  @Inject
  Guard(Access access, CurrentCaller current) {
    this.access = access;
    this.current = current;
  }

  /**
   * That {@code getResourceMethod} is called in here, and not further down, makes Quarkus register
   * the resource methods for reflection in the native image.
   */
  @ServerRequestFilter
  public void check(ResourceInfo operation, ContainerRequestContext request) throws SQLException {
    @Nullable Method method = operation.getResourceMethod();
    @Nullable Allowed allowed = method == null ? null : method.getAnnotation(Allowed.class);
    Caller caller =
        access.caller(
            request.getHeaderString(HttpHeaders.AUTHORIZATION),
            request.getHeaderString(HttpHeaders.HOST),
            new Origin(
                !READS.contains(request.getMethod()),
                request.getHeaderString("Origin"),
                request.getHeaderString("Sec-Fetch-Site")));
    if (allowed == null) {
      throw Denied.forbidden("Nothing says who may do this.");
    }
    authorise(caller, allowed);
    current.is(caller);
  }

  static void authorise(Caller caller, Allowed allowed) {
    if (caller.role() != Role.OPERATOR && !Arrays.asList(allowed.value()).contains(caller.role())) {
      throw Denied.forbidden("It is not for the role " + caller.role().word() + ".");
    }
    if (allowed.everyTenant() && caller.tenant() != null) {
      throw Denied.forbidden("It concerns every tenant, and this credential is for one of them.");
    }
  }
}
