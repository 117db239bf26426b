package dev.waybill.retain;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A bucket of anything that speaks S3, by paths. What is small is one PUT. What is larger goes up
 * in parts, one of which is in memory at a time, and is there when S3 has put them together.
 */
final class S3Shelf implements Shelf {

  /** Time for the signature. S3 refuses what is a quarter of an hour off. */
  interface Time {
    Instant now() throws IOException;
  }

  private static final int PART_BYTES = 8 << 20;
  private static final int TRIES = 4;
  private static final Duration CONNECT = Duration.ofSeconds(10);
  private static final Duration ANSWER = Duration.ofSeconds(60);
  private static final int ANSWER_SAID = 300;
  private static final Pattern UPLOAD_ID = Pattern.compile("<UploadId>([^<]+)</UploadId>");
  private static final Pattern ERROR_CODE = Pattern.compile("<Code>([^<]+)</Code>");

  private final URI endpoint;
  private final String bucket;
  private final String prefix;
  private final Signature signature;
  private final @Nullable String sessionToken;
  private final Time time;
  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .followRedirects(HttpClient.Redirect.NEVER)
          .connectTimeout(CONNECT)
          .build();

  S3Shelf(
      URI endpoint,
      String bucket,
      String prefix,
      Signature signature,
      @Nullable String sessionToken,
      Time time) {
    this.endpoint = endpoint;
    this.bucket = bucket;
    this.prefix = prefix;
    this.signature = signature;
    this.sessionToken = sessionToken;
    this.time = time;
  }

  @Override
  public String locationOf(String name) {
    return "s3://" + bucket + "/" + prefix + name;
  }

  @Override
  public Parcel begin(String name) {
    return new Upload(name);
  }

  private HttpResponse<String> send(
      String method, String name, String query, byte[] body, boolean mayBeGone) throws IOException {
    for (int tries = 1; ; tries++) {
      String said;
      try {
        HttpResponse<String> answer = sendOnce(method, name, query, body);
        boolean refused = answer.statusCode() / 100 != 2 || isError(answer.body());
        if (!refused || (mayBeGone && answer.statusCode() == 404)) {
          return answer;
        }
        said = "S3 answered " + answer.statusCode() + " " + code(answer.body());
        boolean passing =
            answer.statusCode() >= 500 || answer.statusCode() == 429 || answer.statusCode() == 200;
        if (!passing) {
          throw new Refused(said);
        }
      } catch (Refused refused) {
        throw refused;
      } catch (IOException failure) {
        said = failure.getClass().getSimpleName();
      }
      if (tries == TRIES) {
        throw new IOException(said + " to " + method + " after " + TRIES + " tries");
      }
      pause(tries);
    }
  }

  /** Trying again does not help. */
  private static final class Refused extends IOException {
    private static final long serialVersionUID = 1L;

    Refused(String message) {
      super(message);
    }
  }

  /** Putting parts together may fail after 200 was answered; the body says so then. */
  private static boolean isError(String body) {
    return body.contains("<Error>");
  }

  private static String code(String body) {
    Matcher code = ERROR_CODE.matcher(body);
    String said = code.find() ? code.group(1) : "";
    return said.substring(0, Math.min(said.length(), ANSWER_SAID));
  }

  private static void pause(int tries) throws IOException {
    try {
      TimeUnit.MILLISECONDS.sleep(200L << tries);
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }

  private HttpResponse<String> sendOnce(String method, String name, String query, byte[] body)
      throws IOException {
    URI uri =
        URI.create(
            endpoint.toString().replaceAll("/+$", "")
                + "/"
                + Signature.encode(bucket + "/" + prefix + name, false)
                + (query.isEmpty() ? "" : "?" + query));
    String sha256 = Signature.sha256(body);
    Map<String, String> headers = new TreeMap<>();
    headers.put("x-amz-date", Signature.stamp(time.now()));
    headers.put("x-amz-content-sha256", sha256);
    if (sessionToken != null) {
      headers.put("x-amz-security-token", sessionToken);
    }
    var request =
        HttpRequest.newBuilder(uri)
            .timeout(ANSWER)
            .method(
                method,
                body.length == 0 && !method.equals("PUT") && !method.equals("POST")
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofByteArray(body));
    headers.forEach(request::header);
    headers.put("host", hostOf(uri)); // The client sends it by itself.
    request.header("Authorization", signature.authorization(method, uri, headers, sha256));
    try {
      return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }

  private static String hostOf(URI uri) {
    int usual = uri.getScheme().equals("https") ? 443 : 80;
    boolean named = uri.getPort() != -1 && uri.getPort() != usual;
    return named ? uri.getHost() + ":" + uri.getPort() : uri.getHost();
  }

  private final class Upload extends Parcel {

    private final String name;
    private final ByteArrayOutputStream part = new ByteArrayOutputStream();
    private final List<String> tags = new ArrayList<>();
    private @Nullable String uploadId;
    private boolean complete;

    Upload(String name) {
      this.name = name;
    }

    @Override
    public void write(int value) throws IOException {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      part.write(bytes, offset, length);
      if (part.size() >= PART_BYTES) {
        sendPart();
      }
    }

    private void sendPart() throws IOException {
      String upload = uploadId;
      if (upload == null) {
        String answer = send("POST", name, "uploads=", new byte[0], false).body();
        Matcher id = UPLOAD_ID.matcher(answer);
        if (!id.find()) {
          throw new IOException("S3 named no UploadId");
        }
        upload = id.group(1).replace("&amp;", "&");
        uploadId = upload;
      }
      String query =
          "partNumber=" + (tags.size() + 1) + "&uploadId=" + Signature.encode(upload, true);
      HttpResponse<String> answer = send("PUT", name, query, part.toByteArray(), false);
      tags.add(
          answer
              .headers()
              .firstValue("ETag")
              .orElseThrow(() -> new IOException("S3 sent no ETag")));
      part.reset();
    }

    @Override
    void complete() throws IOException {
      String upload = uploadId;
      if (upload == null) {
        HttpResponse<String> _ = send("PUT", name, "", part.toByteArray(), false);
      } else {
        if (part.size() > 0) {
          sendPart();
        }
        var list = new StringBuilder("<CompleteMultipartUpload>");
        for (int i = 0; i < tags.size(); i++) {
          list.append("<Part><PartNumber>").append(i + 1).append("</PartNumber><ETag>");
          list.append(tags.get(i).replace("\"", "&quot;")).append("</ETag></Part>");
        }
        byte[] body =
            list.append("</CompleteMultipartUpload>").toString().getBytes(StandardCharsets.UTF_8);
        HttpResponse<String> _ =
            send("POST", name, "uploadId=" + Signature.encode(upload, true), body, false);
      }
      complete = true;
    }

    /** Parts that nobody puts together would be kept, and paid for, until somebody looks. */
    @Override
    public void close() throws IOException {
      String upload = uploadId;
      if (upload != null && !complete) {
        uploadId = null;
        HttpResponse<String> _ =
            send("DELETE", name, "uploadId=" + Signature.encode(upload, true), new byte[0], true);
      }
    }
  }
}
