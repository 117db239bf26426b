package dev.waybill.retain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The examples that AWS prints in "Signature Calculations for the Authorization Header". */
class SignatureTest {

  private static final String EMPTY =
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

  private final Signature signature =
      new Signature(
          "us-east-1", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");

  private String sign(String method, String path, Map<String, String> more, String sha256) {
    var headers = new HashMap<>(more);
    headers.put("Host", "examplebucket.s3.amazonaws.com");
    headers.put("X-Amz-Date", "20130524T000000Z");
    headers.put("x-amz-content-sha256", sha256);
    URI uri = URI.create("https://examplebucket.s3.amazonaws.com" + path);
    String said = signature.authorization(method, uri, headers, sha256);
    return said.substring(said.indexOf("Signature=") + "Signature=".length());
  }

  @Test
  void get_an_object() {
    assertEquals(
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        sign("GET", "/test.txt", Map.of("Range", "bytes=0-9"), EMPTY));
  }

  @Test
  void put_an_object() {
    String body = Signature.sha256("Welcome to Amazon S3.".getBytes(StandardCharsets.UTF_8));
    assertEquals("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", body);
    assertEquals(
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        sign(
            "PUT",
            "/" + Signature.encode("test$file.text", false),
            Map.of(
                "Date", "Fri, 24 May 2013 00:00:00 GMT",
                "x-amz-storage-class", "REDUCED_REDUNDANCY"),
            body));
  }

  @Test
  void a_parameter_without_value() {
    assertEquals(
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        sign("GET", "/?lifecycle", Map.of(), EMPTY));
  }

  @Test
  void parameters_in_any_order() {
    assertEquals(
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        sign("GET", "/?prefix=J&max-keys=2", Map.of(), EMPTY));
  }

  @Test
  void the_secret_is_not_said() {
    assertFalse(signature.toString().contains("wJalr"), signature::toString);
  }
}
