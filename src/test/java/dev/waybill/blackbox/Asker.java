package dev.waybill.blackbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** Somebody who asks one process over HTTP, with a credential or without. */
record Asker(int port, @Nullable String credential) {

  static final ObjectMapper JSON = new ObjectMapper();
  private static final HttpClient CLIENT =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(5))
          .build();

  /** An answer, whatever its status. */
  record Answer(int status, HttpHeaders headers, String body) {
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
  }

  Asker with(@Nullable String other) {
    return new Asker(port, other);
  }

  Answer get(String path) throws IOException {
    return ask("GET", path, null);
  }

  Answer post(String path, String json) throws IOException {
    return ask("POST", path, json);
  }

  Answer delete(String path) throws IOException {
    return ask("DELETE", path, null);
  }

  Answer ask(String method, String path, @Nullable String json, String... headers)
      throws IOException {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
            .timeout(Duration.ofSeconds(20))
            .method(
                method,
                json == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(json));
    if (json != null) {
      request.header("Content-Type", "application/json");
    }
    if (credential != null) {
      request.header("Authorization", "Bearer " + credential);
    }
    for (int i = 0; i < headers.length; i += 2) {
      request.header(headers[i], headers[i + 1]);
    }
    try {
      HttpResponse<String> response =
          CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
      return new Answer(response.statusCode(), response.headers(), response.body());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }
}
