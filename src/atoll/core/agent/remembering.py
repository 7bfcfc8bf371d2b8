"""What is known of a machine after it was looked at again: a GPU that is lost tells nothing, and is not forgotten."""

from dataclasses import replace

from atoll.core.topology import Device, Health, NodeTopology, PairLink


def names_gpus(seen: NodeTopology) -> bool:
    """Whether anybody told the GPUs by name; the kernel alone knows only where they are."""
    return not seen.devices or any(device.uuid or device.health is Health.LOST for device in seen.devices)


def after_look(known: NodeTopology | None, seen: NodeTopology) -> NodeTopology:
    """The machine as it is known now.

    A GPU that has fallen off the bus lists no UUID any more, or is not listed at all. It keeps its name, its place and
    its links as last known, and is lost.

    Args:
        known: from an earlier look since the same boot, None = there was none. seen: `names_gpus`.
    """
    if known is None:
        return seen
    named = {device.uuid for device in seen.devices}
    lost = [n for n, device in enumerate(known.devices) if device.uuid and device.uuid not in named]
    if not lost:
        return seen
    kept = [
        n
        for n, device in enumerate(seen.devices)
        if device.uuid or not any(_is_trace(device, known.devices[other]) for other in lost)
    ]
    # Where each device is told: by its position in what is seen, or in what is known.
    told = [(seen.devices[n], n, -1) for n in kept] + [(known.devices[n], -1, n) for n in lost]
    told.sort(key=lambda each: each[0].index)
    where = {device.uuid: n for n, device in enumerate(known.devices) if device.uuid}

    def link(a: int, b: int) -> PairLink:
        (one, here, _), (other, there, _) = told[a], told[b]
        if here >= 0 and there >= 0:
            return seen.links[here][there]
        places = where.get(one.uuid or ""), where.get(other.uuid or "")
        return PairLink() if a == b or None in places else known.links[places[0]][places[1]]  # type: ignore[index]

    everyone = range(len(told))
    return NodeTopology(
        tuple(device if here >= 0 else replace(device, health=Health.LOST) for device, here, _ in told),
        tuple(tuple(link(a, b) for b in everyone) for a in everyone),
        tuple(
            replace(nic, links=tuple(nic.links[here] if here >= 0 else None for _, here, _ in told))
            for nic in seen.nics
        ),
        nics_known=seen.nics_known,
    )


def _is_trace(nameless: Device, lost: Device) -> bool:
    """Whether this is what is still to be seen of a lost GPU: its place on the bus, or its number in the driver."""
    if nameless.pci_address is not None:
        return nameless.pci_address == lost.pci_address
    return nameless.health is Health.LOST and nameless.index == lost.index
