package dev.waybill.access;

import io.quarkus.arc.ClientProxy;
import io.quarkus.runtime.BlockingOperationControl;
import jakarta.inject.Inject;
import jakarta.ws.rs.container.ResourceInfo;
import jakarta.ws.rs.core.HttpHeaders;
import java.lang.reflect.Method;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.Set;
import org.jboss.resteasy.reactive.server.ServerRequestFilter;
import org.jboss.resteasy.reactive.server.spi.ResteasyReactiveContainerRequestContext;
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
  public void check(ResourceInfo operation, ResteasyReactiveContainerRequestContext request)
      throws SQLException {
    @Nullable Method method = operation.getResourceMethod();
    @Nullable Allowed allowed = method == null ? null : method.getAnnotation(Allowed.class);
    var shown =
        new Access.Shown(
            request.getHeaderString(HttpHeaders.AUTHORIZATION),
            request.getHeaderString(HttpHeaders.HOST),
            new Origin(
                !READS.contains(request.getMethod()),
                request.getHeaderString("Origin"),
                request.getHeaderString("Sec-Fetch-Site")));
    if (BlockingOperationControl.isBlockingAllowed()) {
      current.is(authorised(access.caller(shown), allowed));
      return;
    }
    @Nullable Caller known = access.known(shown);
    if (known != null) {
      current.is(authorised(known, allowed));
    } else {
      request.suspend();
      // The scope of the request is not there on another thread.
      CurrentCaller found = ClientProxy.unwrap(current);
      try {
        Thread _ = Thread.startVirtualThread(() -> ask(shown, allowed, found, request));
      } catch (RuntimeException | Error failure) {
        request.resume(failure); // Thrown, it would leave the request suspended for ever.
      }
    }
  }

  /** The event loop must not wait for whoever knows the credential. */
  private void ask(
      Access.Shown shown,
      @Nullable Allowed allowed,
      CurrentCaller found,
      ResteasyReactiveContainerRequestContext request) {
    try {
      found.is(authorised(access.caller(shown), allowed));
    } catch (SQLException | RuntimeException | Error refused) {
      request.resume(refused);
      return;
    }
    request.resume();
  }

  private static Caller authorised(Caller caller, @Nullable Allowed allowed) {
    if (allowed == null) {
      throw Denied.forbidden("Nothing says who may do this.");
    }
    authorise(caller, allowed);
    return caller;
  }

  private static void authorise(Caller caller, Allowed allowed) {
    if (caller.role() != Role.OPERATOR && !Arrays.asList(allowed.value()).contains(caller.role())) {
      throw Denied.forbidden("It is not for the role " + caller.role().word() + ".");
    }
    if (allowed.everyTenant() && caller.tenant() != null) {
      throw Denied.forbidden("It concerns every tenant, and this credential is for one of them.");
    }
  }
}
