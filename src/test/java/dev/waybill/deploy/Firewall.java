package dev.waybill.deploy;

import io.fabric8.kubernetes.api.model.IntOrString;
import io.fabric8.kubernetes.api.model.LabelSelector;
import io.fabric8.kubernetes.api.model.networking.v1.IPBlock;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicy;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicyPeer;
import io.fabric8.kubernetes.api.model.networking.v1.NetworkPolicyPort;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The network policies of one namespace, as a network plugin reads them: a pod that a policy of a
 * direction selects may do there what one of its policies allows, and nothing else.
 */
final class Firewall {

  /** Whom a pod speaks with: another pod, by the labels of both, or an address. */
  record Peer(
      @Nullable Map<String, String> namespace,
      @Nullable Map<String, String> pod,
      @Nullable String address) {

    /** In the same namespace. */
    static Peer pod(Map<String, String> labels) {
      return new Peer(null, labels, null);
    }

    static Peer in(Map<String, String> namespace, Map<String, String> labels) {
      return new Peer(namespace, labels, null);
    }

    static Peer at(String address) {
      return new Peer(null, null, address);
    }
  }

  /** Where it goes. The name is that of the target's container port. */
  record Port(int number, String name, String protocol) {
    static Port tcp(int number) {
      return new Port(number, "", "TCP");
    }
  }

  private record Rule(List<NetworkPolicyPeer> peers, List<NetworkPolicyPort> ports) {}

  private final List<NetworkPolicy> policies;

  Firewall(List<NetworkPolicy> policies) {
    this.policies = policies;
  }

  boolean lets(Map<String, String> pod, Peer to, Port port) {
    return allowed("Egress", pod, to, port);
  }

  boolean lets(Peer from, Map<String, String> pod, Port port) {
    return allowed("Ingress", pod, from, port);
  }

  private boolean allowed(String direction, Map<String, String> pod, Peer peer, Port port) {
    List<NetworkPolicy> own =
        policies.stream()
            .filter(policy -> policy.getSpec().getPolicyTypes().contains(direction))
            .filter(policy -> matches(policy.getSpec().getPodSelector(), pod))
            .toList();
    return own.isEmpty()
        || own.stream()
            .flatMap(policy -> rules(direction, policy).stream())
            .anyMatch(rule ->
                (rule.peers().isEmpty()
                        || rule.peers().stream().anyMatch(one -> matches(one, peer)))
                    && (rule.ports().isEmpty()
                        || rule.ports().stream().anyMatch(one -> matches(one, port))));
  }

  private static List<Rule> rules(String direction, NetworkPolicy policy) {
    return direction.equals("Egress")
        ? policy.getSpec().getEgress().stream()
            .map(rule -> new Rule(rule.getTo(), rule.getPorts()))
            .toList()
        : policy.getSpec().getIngress().stream()
            .map(rule -> new Rule(rule.getFrom(), rule.getPorts()))
            .toList();
  }

  private static boolean matches(NetworkPolicyPeer rule, Peer peer) {
    if (rule.getIpBlock() != null) {
      return peer.address() != null && inside(rule.getIpBlock(), peer.address());
    }
    if (peer.address() != null) {
      return false;
    }
    boolean here = rule.getNamespaceSelector() == null;
    boolean namespace =
        here
            ? peer.namespace() == null
            : peer.namespace() != null && matches(rule.getNamespaceSelector(), peer.namespace());
    return namespace
        && (rule.getPodSelector() == null
            || (peer.pod() != null && matches(rule.getPodSelector(), peer.pod())));
  }

  private static boolean matches(LabelSelector selector, Map<String, String> labels) {
    if (!selector.getMatchExpressions().isEmpty()) {
      throw new IllegalArgumentException("not read here: " + selector);
    }
    return labels.entrySet().containsAll(selector.getMatchLabels().entrySet());
  }

  private static boolean matches(NetworkPolicyPort rule, Port port) {
    @Nullable String protocol = rule.getProtocol();
    @Nullable IntOrString of = rule.getPort();
    return port.protocol().equals(protocol == null ? "TCP" : protocol)
        && (of == null
            || (of.getIntVal() == null
                ? port.name().equals(of.getStrVal())
                : of.getIntVal() == port.number()));
  }

  private static boolean inside(IPBlock block, String address) {
    return inside(block.getCidr(), address)
        && block.getExcept().stream().noneMatch(cidr -> inside(cidr, address));
  }

  /** Of version 4; one of version 6 holds none of them. */
  private static boolean inside(String cidr, String address) {
    if (cidr.contains(":")) {
      return false;
    }
    String[] parts = cidr.split("/", 2);
    int bits = Integer.parseInt(parts[1]);
    long mask = bits == 0 ? 0 : (0xFFFFFFFFL << (32 - bits)) & 0xFFFFFFFFL;
    return (number(parts[0]) & mask) == (number(address) & mask);
  }

  private static long number(String address) {
    long number = 0;
    for (String part : address.split("\\.", -1)) {
      number = (number << 8) | Integer.parseInt(part);
    }
    return number;
  }
}
