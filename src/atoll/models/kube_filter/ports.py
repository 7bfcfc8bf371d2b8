"""NodePorts: a host port is taken on one address or on all of them."""

from collections.abc import Iterable, Mapping

from atoll.core.kube_facts import ANY_ADDRESS, HostPort, Refuses, Rule


def refusal(wanted: Iterable[HostPort], taken: Mapping[HostPort, int]) -> Refuses | None:
    for port in wanted:
        if any(_collide(port, other) for other in taken):
            return Refuses(Rule.HOST_PORT, f"host port {port.port}/{port.protocol} is taken on the node")
    return None


def _collide(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return ANY_ADDRESS in (one.address, other.address) or one.address == other.address
