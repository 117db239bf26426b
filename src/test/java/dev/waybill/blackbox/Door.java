package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The REST door of one process; every answer is held against the OpenAPI document it serves. */
final class Door {

  static final String JSON_TYPE = "application/json";
  static final String LINES_TYPE = "application/x-ndjson";

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final HttpClient CLIENT =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(5))
          .build();

  private final ServiceProcess process;
  private final Document document;

  Door(ServiceProcess process) throws IOException {
    this.process = process;
    this.document = Document.of(process.rest());
  }

  Document document() {
    return document;
  }

  int port() {
    return process.port();
  }

  /** An answer that fits the document. */
  record Reply(int status, String type, HttpHeaders headers, String body) {

    JsonNode json() {
      try {
        return JSON.readTree(body);
      } catch (JsonProcessingException failure) {
        throw new IllegalStateException("no JSON: " + body, failure);
      }
    }

    String header(String name) {
      return headers.firstValue(name).orElse("");
    }

    Reply is(int expected) {
      assertEquals(expected, status, body);
      return this;
    }

    /** A problem document that names this field ("" for none). */
    Reply isProblem(int expected, String problem, String field) {
      is(expected);
      assertTrue(type.startsWith("application/problem+json"), type);
      assertEquals("/problems/" + problem, json().path("type").asText(), body);
      assertEquals(field, json().path("field").asText(""), body);
      assertEquals(expected, json().path("status").asInt(), body);
      return this;
    }

    long id() {
      return json().path("id").asLong();
    }
  }

  Reply get(String path) throws IOException {
    return call("GET", path, Map.of(), "");
  }

  Reply post(String path, String body) throws IOException {
    return call("POST", path, Map.of("Content-Type", JSON_TYPE), body);
  }

  Reply put(String path, String body, String... headers) throws IOException {
    var all = new java.util.HashMap<>(Map.of("Content-Type", JSON_TYPE));
    for (int i = 0; i < headers.length; i += 2) {
      all.put(headers[i], headers[i + 1]);
    }
    return call("PUT", path, all, body);
  }

  /** Under an idempotency key. */
  Reply postKeyed(String path, String key, String type, String body) throws IOException {
    return call("POST", path, Map.of("Content-Type", type, "Idempotency-Key", key), body);
  }

  Reply lines(String path, String body) throws IOException {
    return call("POST", path, Map.of("Content-Type", LINES_TYPE), body);
  }

  Reply call(String method, String path, Map<String, String> headers, String body)
      throws IOException {
    Reply reply = send(method, path, headers, body.getBytes(StandardCharsets.UTF_8));
    List<String> faults = document.faults(method, path, reply.status(), reply.type(), reply.body());
    assertEquals(List.of(), faults, () -> method + " " + path + " -> " + reply);
    return reply;
  }

  /** Without a look at the document. */
  Reply send(String method, String path, Map<String, String> headers, byte[] body)
      throws IOException {
    var request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + process.port() + path))
            .timeout(Duration.ofSeconds(60))
            .method(method, HttpRequest.BodyPublishers.ofByteArray(body));
    headers.forEach(request::header);
    try {
      HttpResponse<byte[]> response =
          CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
      return new Reply(
          response.statusCode(),
          response.headers().firstValue("Content-Type").orElse(""),
          response.headers(),
          new String(response.body(), StandardCharsets.UTF_8));
    } catch (HttpTimeoutException silence) {
      throw new IOException(method + " " + path + " got no answer" + process.dump(), silence);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }
}
