package dev.waybill.deliver;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.List;
import java.util.stream.Stream;

/**
 * Which addresses may be connected to: public ones, and those that a setting names. Everything else
 * would let whoever writes a push URL, or answers for its name in the DNS, talk to what only this
 * machine can reach.
 */
final class Addresses {

  /** IANA's special-purpose registries, and the one metadata service that has a public address. */
  private static final List<Network> NOT_PUBLIC_V4 =
      Stream.of(
              "0.0.0.0/8",
              "10.0.0.0/8",
              "100.64.0.0/10",
              "127.0.0.0/8",
              "168.63.129.16/32",
              "169.254.0.0/16",
              "172.16.0.0/12",
              "192.0.0.0/24",
              "192.0.2.0/24",
              "192.31.196.0/24",
              "192.52.193.0/24",
              "192.88.99.0/24",
              "192.168.0.0/16",
              "192.175.48.0/24",
              "198.18.0.0/15",
              "198.51.100.0/24",
              "203.0.113.0/24",
              "224.0.0.0/4",
              "240.0.0.0/4")
          .map(Network::of)
          .toList();

  /**
   * Global unicast; mapped, translated, unique local and link-local addresses are outside of it.
   */
  private static final Network GLOBAL_V6 = Network.of("2000::/3");

  /** Inside of it: protocol assignments with Teredo, documentation, 6to4. */
  private static final List<Network> NOT_PUBLIC_V6 =
      Stream.of("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20").map(Network::of).toList();

  private final List<Network> allowed;

  Addresses(List<Network> allowed) {
    this.allowed = List.copyOf(allowed);
  }

  /** All of them: one good address among bad ones is no reason to trust the name. */
  void check(Target target, List<InetAddress> resolved) throws Refused {
    for (InetAddress address : resolved) {
      if (!isPublic(address) && allowed.stream().noneMatch(network -> network.holds(address))) {
        // Not the address itself: the history of a job is no way to look into a network.
        throw new Refused(
            "the push target "
                + target.origin()
                + " has an address that is not public and not in WAYBILL_PUSH_ALLOW_PRIVATE");
      }
    }
  }

  /** Java makes an Inet4Address of a mapped one (::ffff:10.0.0.1) by itself. */
  static boolean isPublic(InetAddress address) {
    return address instanceof Inet4Address
        ? NOT_PUBLIC_V4.stream().noneMatch(network -> network.holds(address))
        : GLOBAL_V6.holds(address)
            && NOT_PUBLIC_V6.stream().noneMatch(network -> network.holds(address));
  }
}
