package dev.waybill.retain;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.jspecify.annotations.Nullable;

/**
 * As much of S3 as an archive meets, in memory. It works the signature out by itself, from what
 * arrived, and knows nothing of the code that made it.
 */
final class FakeS3 implements AutoCloseable {

  static final String ACCESS_KEY = "key-of-the-archive";
  static final String SECRET_KEY = "a secret with / and + in it";

  private static final Pattern AUTHORIZATION =
      Pattern.compile(
          "AWS4-HMAC-SHA256 Credential=([^/]+)/(\\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})");
  private static final Pattern PART =
      Pattern.compile("<PartNumber>(\\d+)</PartNumber><ETag>&quot;([0-9a-f]+)&quot;</ETag>");

  /** What to answer instead, by "METHOD query-name", so many times. */
  record Fault(String request, int status, String body, AtomicInteger times) {}

  private final HttpServer server;
  private final Map<String, byte[]> objects = new ConcurrentHashMap<>();
  private final Map<String, TreeMap<Integer, byte[]>> uploads = new ConcurrentHashMap<>();
  private final List<String> requests = new CopyOnWriteArrayList<>();
  private final List<Fault> faults = new CopyOnWriteArrayList<>();
  private final AtomicInteger ids = new AtomicInteger();

  FakeS3() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    server.createContext("/", this::serve);
    server.start();
  }

  String endpoint() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  Map<String, byte[]> objects() {
    return objects;
  }

  /** Begun and neither put together nor taken back. */
  int openUploads() {
    return uploads.size();
  }

  List<String> requests() {
    return requests;
  }

  void fail(String request, int status, String body, int times) {
    faults.add(new Fault(request, status, body, new AtomicInteger(times)));
  }

  @Override
  public void close() {
    server.stop(0);
  }

  private void serve(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      String path = exchange.getRequestURI().getRawPath();
      Map<String, String> query = query(exchange.getRequestURI().getRawQuery());
      String request = exchange.getRequestMethod() + " " + String.join(",", query.keySet());
      requests.add(request.strip());
      @Nullable String wrong = wrongSignature(exchange, body);
      if (wrong != null) {
        answer(exchange, 403, "<Error><Code>" + wrong + "</Code></Error>");
        return;
      }
      for (Fault fault : faults) {
        if (fault.request().equals(request.strip()) && fault.times().getAndDecrement() > 0) {
          answer(exchange, fault.status(), fault.body());
          return;
        }
      }
      handle(exchange, path, query, body);
    }
  }

  private void handle(HttpExchange exchange, String path, Map<String, String> query, byte[] body)
      throws IOException {
    String upload = query.getOrDefault("uploadId", "");
    switch (exchange.getRequestMethod()) {
      case "POST" -> {
        if (query.containsKey("uploads")) {
          String id = "an id/with+signs&" + ids.incrementAndGet();
          uploads.put(id, new TreeMap<>());
          answer(exchange, 200, "<R><UploadId>" + id.replace("&", "&amp;") + "</UploadId></R>");
        } else {
          complete(exchange, path, upload, new String(body, StandardCharsets.UTF_8));
        }
      }
      case "PUT" -> {
        exchange.getResponseHeaders().set("ETag", "\"" + hex("MD5", body) + "\"");
        if (upload.isEmpty()) {
          objects.put(path, body);
        } else if (!uploads.containsKey(upload)) {
          answer(exchange, 404, "<Error><Code>NoSuchUpload</Code></Error>");
          return;
        } else {
          uploads.get(upload).put(Integer.valueOf(query.getOrDefault("partNumber", "")), body);
        }
        answer(exchange, 200, "");
      }
      case "DELETE" -> {
        uploads.remove(upload);
        exchange.sendResponseHeaders(204, -1);
      }
      default -> answer(exchange, 405, "");
    }
  }

  private void complete(HttpExchange exchange, String path, String upload, String list)
      throws IOException {
    @Nullable TreeMap<Integer, byte[]> parts = uploads.get(upload);
    var whole = new ByteArrayOutputStream();
    var named = PART.matcher(list);
    int n = 0;
    while (named.find() && parts != null) {
      byte[] part = parts.getOrDefault(Integer.valueOf(named.group(1)), new byte[0]);
      n++;
      boolean last = n == parts.size();
      if (!hex("MD5", part).equals(named.group(2)) || (!last && part.length < 5 << 20)) {
        answer(exchange, 400, "<Error><Code>InvalidPart</Code></Error>");
        return;
      }
      whole.write(part);
    }
    if (parts == null || n != parts.size()) {
      answer(exchange, 404, "<Error><Code>NoSuchUpload</Code></Error>");
      return;
    }
    uploads.remove(upload);
    objects.put(path, whole.toByteArray());
    answer(exchange, 200, "<CompleteMultipartUploadResult/>");
  }

  private static void answer(HttpExchange exchange, int status, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
    if (bytes.length > 0) {
      exchange.getResponseBody().write(bytes);
    }
  }

  private static Map<String, String> query(@Nullable String raw) {
    var query = new TreeMap<String, String>();
    if (raw != null) {
      for (String parameter : raw.split("&", -1)) {
        String[] pair = parameter.split("=", 2);
        query.put(pair[0], URLDecoder.decode(pair[1].replace("+", "%2B"), StandardCharsets.UTF_8));
      }
    }
    return query;
  }

  /** Null when it is right. */
  private static @Nullable String wrongSignature(HttpExchange exchange, byte[] body) {
    var headers = exchange.getRequestHeaders();
    var said = AUTHORIZATION.matcher(String.valueOf(headers.getFirst("Authorization")));
    if (!said.matches() || !said.group(1).equals(ACCESS_KEY)) {
      return "InvalidAccessKeyId";
    }
    String stamp = String.valueOf(headers.getFirst("x-amz-date"));
    Instant when =
        LocalDateTime.parse(stamp, DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'"))
            .toInstant(ZoneOffset.UTC);
    if (Duration.between(when, Instant.now()).abs().toMinutes() > 15) {
      return "RequestTimeTooSkewed";
    }
    if (!hex("SHA-256", body).equals(headers.getFirst("x-amz-content-sha256"))) {
      return "XAmzContentSHA256Mismatch";
    }
    List<String> names = List.of(said.group(4).split(";"));
    if (!names.contains("host") || !names.contains("x-amz-date")) {
      return "AccessDenied";
    }
    var lines = new ArrayList<String>();
    lines.add(exchange.getRequestMethod());
    lines.add(exchange.getRequestURI().getRawPath());
    var query = new ArrayList<String>();
    @Nullable String raw = exchange.getRequestURI().getRawQuery();
    if (raw != null) {
      query.addAll(List.of(raw.split("&")));
      query.sort(null);
    }
    lines.add(String.join("&", query));
    for (String name : names) {
      lines.add(name + ":" + String.valueOf(headers.getFirst(name)).trim());
    }
    lines.add("");
    lines.add(said.group(4));
    lines.add(String.valueOf(headers.getFirst("x-amz-content-sha256")));
    String scope = said.group(2) + "/" + said.group(3) + "/s3/aws4_request";
    String canonical = hex("SHA-256", String.join("\n", lines).getBytes(StandardCharsets.UTF_8));
    byte[] key = ("AWS4" + SECRET_KEY).getBytes(StandardCharsets.UTF_8);
    key = hmac(key, said.group(2));
    key = hmac(key, said.group(3));
    key = hmac(key, "s3");
    key = hmac(key, "aws4_request");
    byte[] right = hmac(key, "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + canonical);
    return HexFormat.of().formatHex(right).equals(said.group(5)) ? null : "SignatureDoesNotMatch";
  }

  private static byte[] hmac(byte[] key, String text) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  private static String hex(String algorithm, byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance(algorithm).digest(content));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }
}
