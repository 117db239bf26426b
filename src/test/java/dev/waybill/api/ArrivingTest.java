package dev.waybill.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.vertx.core.Future;
import io.vertx.core.Handler;
import io.vertx.core.MultiMap;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.StreamResetException;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Bodies on their way in; what HTTP/1.1 makes of them is seen at the door. */
class ArrivingTest {

  private final Vertx vertx = Vertx.vertx();

  @AfterEach
  void close() throws Exception {
    await(vertx.close());
  }

  private static <T> T await(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
  }

  /** Hands on what is told to it, and keeps its handlers. */
  private static final class Request {
    private final Map<String, Object> handlers = new ConcurrentHashMap<>();
    private final HttpServerRequest request = fake(HttpServerRequest.class, this::call);

    private @Nullable Object call(String method, Object @Nullable [] told) {
      return switch (method) {
        case "isEnded" -> false;
        case "headers" -> MultiMap.caseInsensitiveMultiMap();
        case "version" -> HttpVersion.HTTP_1_1;
        case "connection" -> fake(HttpConnection.class, (_, _) -> null);
        case "handler", "endHandler", "exceptionHandler" -> {
          @Nullable Object handler = told == null ? null : told[0];
          if (handler == null) {
            handlers.remove(method);
          } else {
            handlers.put(method, handler);
          }
          yield this.request;
        }
        default -> this.request;
      };
    }

    @SuppressWarnings("unchecked")
    private <T> void tell(String handler, @Nullable T what) {
      var handles = (Handler<@Nullable T>) handlers.get(handler);
      assertNotNull(handles, handler);
      handles.handle(what);
    }
  }

  private interface Calls {
    @Nullable Object call(String method, Object @Nullable [] told);
  }

  private static <T> T fake(Class<T> type, Calls calls) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (_, method, told) -> calls.call(method.getName(), told)));
  }

  /** As its request's event loop would, without going back to it in between. */
  private CompletableFuture<byte[]> arrive(Request from, Buffer... parts) throws Exception {
    var there = new CompletableFuture<CompletableFuture<byte[]>>();
    vertx
        .getOrCreateContext()
        .runOnContext(_ -> {
          try {
            var all = Arriving.body(from.request).toCompletableFuture();
            for (Buffer part : parts) {
              from.tell("handler", part);
            }
            from.tell("endHandler", null);
            there.complete(all);
          } catch (RuntimeException | Error failure) {
            there.completeExceptionally(failure);
          }
        });
    return there.get(30, TimeUnit.SECONDS);
  }

  @Test
  void a_body_with_a_part_that_found_no_memory_is_none() throws Exception {
    Buffer lost =
        fake(
            Buffer.class,
            (method, _) -> {
              if (method.equals("length")) {
                return 4;
              }
              throw new OutOfMemoryError("of the test");
            });
    var body = arrive(new Request(), Buffer.buffer("[\"a"), lost, Buffer.buffer("b\"]"));
    var why = assertThrows(ExecutionException.class, () -> body.get(30, TimeUnit.SECONDS));
    assertInstanceOf(OutOfMemoryError.class, why.getCause());
  }

  @Test
  void a_request_that_waits_for_its_answer_does_not_keep_its_body() throws Exception {
    var request = new Request();
    var body = arrive(request, Buffer.buffer("[\"a"), Buffer.buffer("b\"]"));
    assertEquals("[\"ab\"]", Buffer.buffer(body.get(30, TimeUnit.SECONDS)).toString());
    assertEquals(Map.of(), request.handlers);
  }

  private static void serve(HttpServerRequest request, Set<HttpConnection> connections) {
    boolean _ = connections.add(request.connection());
    request.pause();
    var _ =
        Arriving.body(request)
            .whenComplete((body, why) -> {
              int status = why == null ? 200 : problem(why).status();
              Future<Void> _ =
                  request
                      .response()
                      .setStatusCode(status)
                      .end(body == null ? "" : String.valueOf(body.length));
            });
  }

  private static Problem problem(Throwable why) {
    Throwable cause = why instanceof CompletionException ? why.getCause() : why;
    return assertInstanceOf(Problem.Thrown.class, cause).problem();
  }

  @Test
  void who_sends_too_much_over_http_2_does_not_end_the_requests_of_others() throws Exception {
    Set<HttpConnection> connections = ConcurrentHashMap.newKeySet();
    int port =
        await(
                vertx
                    .createHttpServer()
                    .requestHandler(request -> serve(request, connections))
                    .listen(0, "127.0.0.1"))
            .actualPort();
    HttpClient client =
        vertx.createHttpClient(
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false));
    HttpClientRequest other = await(client.request(HttpMethod.POST, port, "127.0.0.1", "/"));
    Future<Buffer> answer = other.response().compose(HttpClientResponse::body);
    await(other.setChunked(true).write("12345"));

    HttpClientRequest tooMuch = await(client.request(HttpMethod.POST, port, "127.0.0.1", "/"));
    var ended = new CompletableFuture<Throwable>();
    tooMuch.exceptionHandler(ended::complete);
    tooMuch.setChunked(true);
    Buffer part = Buffer.buffer(new byte[1 << 20]);
    for (int sent = 0; sent <= 64; sent++) {
      await(tooMuch.write(part));
    }
    assertEquals(413, await(tooMuch.response()).statusCode());
    assertInstanceOf(StreamResetException.class, ended.get(30, TimeUnit.SECONDS));

    await(other.end("67890"));
    assertEquals("10", await(answer).toString());
    assertEquals(1, connections.size());
  }
}
