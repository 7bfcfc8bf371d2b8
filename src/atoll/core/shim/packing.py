"""Which devices a pod gets that nobody decided about: those whose loss harms the islands least, by NUMA nodes alone."""

from collections.abc import Mapping


def packed(free: frozenset[str], count: int, numa: Mapping[str, tuple[int, ...]]) -> frozenset[str]:
    """`count` of the free devices: of the fullest NUMA node that has so many; else of the fullest ones, one by one.

    Args:
        count: at most as many as are free. numa: NUMA nodes by device; none, where the plugin names none.
    """
    by_node: dict[tuple[int, ...], list[str]] = {}
    for device in sorted(free):
        by_node.setdefault(numa.get(device, ()), []).append(device)
    fullest_first = sorted(by_node.items(), key=lambda one: (len(one[1]), one[0]))
    whole = next((devices for _, devices in fullest_first if len(devices) >= count), None)
    ordered = whole if whole is not None else [device for _, devices in fullest_first for device in devices]
    return frozenset(ordered[:count])
