"""Small machines for simulations, from the sizes of their islands."""

from collections.abc import Sequence

from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink


def machine(name: str, islands: Sequence[int], *, sockets: int = 0) -> NodeTopology:
    """A node whose NUMA nodes hold so many GPUs each; UUIDs are made from `name`.

    With `sockets`, the islands are dealt out to as many sockets; without, each island is a socket of its own.
    """
    of = [island for island, size in enumerate(islands) for _ in range(size)]
    per_socket = max(1, len(islands) // sockets) if sockets else 1
    devices = tuple(
        Device(
            index=n,
            uuid=f"GPU-{name}-{n}",
            pci_address=f"0000:{n + 16:02x}:00.0",
            numa=island,
            socket=island // per_socket,
        )
        for n, island in enumerate(of)
    )
    near, far = PairLink(PcieLink.PIX, 0), PairLink(PcieLink.SYS, 0)
    links = tuple(
        tuple(PairLink() if a == b else near if of[a] == of[b] else far for b in range(len(of))) for a in range(len(of))
    )
    return NodeTopology(devices, links, nics_known=True)
