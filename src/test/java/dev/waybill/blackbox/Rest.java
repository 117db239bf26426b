package dev.waybill.blackbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** The REST door of one process, as curl would use it. */
final class Rest {

  private static final HttpClient CLIENT =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(10))
          .build();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration TIMEOUT = Duration.ofSeconds(20);

  private final int port;

  Rest(int port) {
    this.port = port;
  }

  /** An answer, whatever its status. */
  record Answer(int status, String type, String location, String body) {
    JsonNode json() {
      try {
        return JSON.readTree(body);
      } catch (JsonProcessingException failure) {
        throw new IllegalStateException("no JSON: " + body, failure);
      }
    }
  }

  Answer get(String path) throws IOException {
    return send(request(path).GET().build());
  }

  Answer post(String path, String body) throws IOException {
    return post(path, body.getBytes(StandardCharsets.UTF_8));
  }

  Answer post(String path, byte[] body) throws IOException {
    return send(
        request(path)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body))
            .build());
  }

  Answer delete(String path) throws IOException {
    return send(request(path).DELETE().build());
  }

  JsonNode job(long id) throws IOException {
    return get("/v1/jobs/" + id).json();
  }

  /** The status, or 0 when nobody answers. */
  int status(String path) {
    try {
      return get(path).status();
    } catch (IOException _) {
      return 0;
    }
  }

  /** The sum over all labels of a counter, 0 when it is not there. */
  double metric(String name) throws IOException {
    return get("/q/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith(name + "{") || line.startsWith(name + " "))
        .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
        .sum();
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path)).timeout(TIMEOUT);
  }

  private static Answer send(HttpRequest request) throws IOException {
    try {
      HttpResponse<String> response = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
      return new Answer(
          response.statusCode(),
          response.headers().firstValue("Content-Type").orElse(""),
          response.headers().firstValue("Location").orElse(""),
          response.body());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }
}
