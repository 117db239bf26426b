package dev.waybill.deliver;

import java.io.IOException;
import java.time.Duration;
import java.time.InstantSource;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLHandshakeException;

/**
 * A URL of the operator's, posted to as jobs are: signed, no redirects. Neither allowlist nor
 * address check apply: whoever sets the environment of the process has no need to be kept from its
 * network.
 */
public final class Webhook {

  /** What is known of a post. */
  public sealed interface Sent {

    record Arrived() implements Sent {}

    /** Surely not: there was no connection, no TLS on it, or the answer says so. */
    record NotTaken(String why) implements Sent {}

    /** It was sent, and no answer came. */
    record Unknown(String why) implements Sent {}
  }

  private final Target target;
  private final List<byte[]> keys;
  private final Names names;
  private final Post post;
  private final Duration nameLimit;
  private final InstantSource clock;

  /**
   * @param clock for what the receiver compares with its own clock; nothing is stored of it
   */
  Webhook(
      Target target,
      List<byte[]> keys,
      Names names,
      Post post,
      Duration nameLimit,
      InstantSource clock) {
    this.target = target;
    this.keys = keys;
    this.names = names;
    this.post = post;
    this.nameLimit = nameLimit;
    this.clock = clock;
  }

  /**
   * @param id the same for each attempt, so that a receiver can tell a repeat
   */
  public Sent send(String id, byte[] body) {
    try {
      var addresses = names.of(target.host(), nameLimit);
      int status = post.send(target, addresses, headers(id, body), body).status();
      return status >= 200 && status < 300
          ? new Sent.Arrived()
          : new Sent.NotTaken("status " + status);
    } catch (Names.Unknown | Post.NoConnection | SSLHandshakeException nothing) {
      // A handshake may end after the request was written, when a server wants a certificate of us:
      // it reads nothing without one.
      return new Sent.NotTaken(reason(nothing));
    } catch (IOException failure) {
      return new Sent.Unknown(reason(failure));
    } catch (InterruptedException _) {
      // Only the lookup of the name heeds it: nothing was sent.
      Thread.currentThread().interrupt();
      return new Sent.NotTaken("the service stops");
    }
  }

  private static String reason(IOException failure) {
    return failure instanceof SSLHandshakeException
        ? "no TLS connection"
        : String.valueOf(failure.getMessage());
  }

  private Map<String, String> headers(String id, byte[] body) {
    var headers = new LinkedHashMap<String, String>();
    headers.put("Content-Type", "application/json");
    headers.put("Accept", "*/*");
    headers.put("User-Agent", "Waybill");
    headers.put("webhook-id", id);
    long timestamp = clock.instant().getEpochSecond();
    headers.put("webhook-timestamp", String.valueOf(timestamp));
    if (!keys.isEmpty()) {
      headers.put("webhook-signature", Signature.of(keys, id, timestamp, body));
    }
    return headers;
  }
}
