"""What is known of a machine after it was looked at again: a GPU that is lost tells nothing, and is not forgotten."""

from dataclasses import replace

from atoll.core.topology import Health, NodeTopology, PairLink


def after_look(known: NodeTopology | None, seen: NodeTopology) -> NodeTopology:
    """The machine as it is known now.

    A GPU that has fallen off the bus lists no UUID any more, or is not listed at all. It keeps its name, its place and
    its links as last known, and is lost.

    Args:
        known: from an earlier look since the same boot, None = there was none.
    """
    if known is None:
        return seen
    named = {device.uuid for device in seen.devices}
    lost = [n for n, device in enumerate(known.devices) if device.uuid and device.uuid not in named]
    if not lost:
        return seen
    at_index = {known.devices[n].index: n for n in lost}
    # Position as known of each GPU that is lost, by position now; those that are not even listed come last.
    places: dict[int, int] = {
        n: at_index.pop(device.index)
        for n, device in enumerate(seen.devices)
        if device.uuid is None and device.index in at_index
    }
    added = list(at_index.values())
    places |= {len(seen.devices) + n: there for n, there in enumerate(added)}
    devices = [*seen.devices, *(known.devices[n] for n in added)]
    for here, there in places.items():
        devices[here] = replace(known.devices[there], health=Health.LOST)
    where = {device.uuid: n for n, device in enumerate(known.devices) if device.uuid}

    def link(a: int, b: int) -> PairLink:
        if a not in places and b not in places:
            return seen.links[a][b]
        one, other = (where.get(devices[n].uuid or "") for n in (a, b))
        return PairLink() if one is None or other is None else known.links[one][other]

    everyone = range(len(devices))
    return NodeTopology(
        tuple(devices),
        tuple(tuple(link(a, b) for b in everyone) for a in everyone),
        tuple(replace(nic, links=(*nic.links, *(None for _ in added))) for nic in seen.nics),
        nics_known=seen.nics_known,
    )
