package dev.waybill.deliver;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;

/** A range of addresses, such as {@code 10.0.0.0/8}. */
final class Network {

  private final byte[] first;
  private final int bits;

  private Network(byte[] first, int bits) {
    this.first = first;
    this.bits = bits;
  }

  /**
   * @throws IllegalArgumentException when it is none
   */
  static Network of(String text) {
    String[] parts = text.split("/", -1);
    if (parts.length > 2 || !parts[0].matches("[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")) {
      throw new IllegalArgumentException(text);
    }
    try {
      byte[] first = InetAddress.getByName(parts[0]).getAddress();
      int bits = parts.length == 1 ? first.length * 8 : Integer.parseInt(parts[1]);
      if (bits < 0 || bits > first.length * 8) {
        throw new IllegalArgumentException(text);
      }
      return new Network(first, bits);
    } catch (UnknownHostException | NumberFormatException _) {
      throw new IllegalArgumentException(text);
    }
  }

  /** As a setting lists them; the message of a refusal says what would be right. */
  static List<Network> parse(String setting) {
    var networks = new ArrayList<Network>();
    for (String part : setting.split("[,\\s]+", -1)) {
      if (!part.isEmpty()) {
        try {
          networks.add(of(part));
        } catch (IllegalArgumentException _) {
          throw new IllegalArgumentException(
              "WAYBILL_PUSH_ALLOW_PRIVATE: '"
                  + part
                  + "' is no network; right would be 10.20.0.0/16,fd00:1::/32");
        }
      }
    }
    return List.copyOf(networks);
  }

  boolean holds(InetAddress address) {
    byte[] other = address.getAddress();
    if (other.length != first.length) {
      return false;
    }
    for (int bit = 0; bit < bits; bit++) {
      int mask = 0x80 >> (bit % 8);
      if ((first[bit / 8] & mask) != (other[bit / 8] & mask)) {
        return false;
      }
    }
    return true;
  }
}
