"""The kubelet's device manager: hints, what is taken from where, what the plugin is asked; one case per row."""

from collections.abc import Callable, Iterable

import pytest

from atoll.core.gpuset import mask_of, positions
from atoll.models.kubelet.device_hints import (
    Asking,
    ContainerLimits,
    Devices,
    device_hints,
    hints_of,
    pod_request,
)
from atoll.models.kubelet.device_manager import Allotment, allotment
from atoll.models.kubelet.hints import ResourceHints
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy
from tests.data import cases, data_folder
from tests.vectors.numbered import Row, hint_of, numa_of, provider_of
from tests.vectors.numbered import hints_of as told_hints

CASES = data_folder("vectors") / "devicemanager_cases.jsonl"


class Named:
    """Devices by the names that a row gives them."""

    def __init__(self, told: dict[str, list[int] | None], nodes: Iterable[int] = ()) -> None:
        self.names = list(told)
        every = mask_of(nodes) or mask_of(node for reported in told.values() for node in reported or ())
        self.devices = Devices(tuple(mask_of(reported or ()) for reported in told.values()), every)

    def mask(self, names: Iterable[str] | None) -> int:
        return mask_of(map(self.names.index, names or ()))

    def free(self, taken: int) -> int:
        return (1 << len(self.names)) - 1 & ~taken


def in_any_order(hints: ResourceHints) -> object:
    return None if hints is None else sorted(hints, key=str)


def check_hints(row: Row) -> None:
    first, pod = row["containers"][:1], row["scope"] == "pod"
    if pod:
        asked = pod_request(limits(row["init_containers"]), limits(row["containers"]), frozenset(row["devices"]))
    else:
        asked = {name: count for name, count in first[0]["limits"].items() if name in row["devices"]}
    found = {}
    for resource, count in asked.items():
        named = Named(row["devices"][resource], row["numa_nodes"])
        by_pod = {
            uid: {name: named.mask(each.get(resource)) for name, each in containers.items()}
            for uid, containers in (row["allocated"] or {}).items()
        }
        taken = mask_of(n for held in by_pod.values() for mask in held.values() for n in positions(mask))
        own = by_pod.get(row["pod_uid"], {})
        recorded = mask_of(n for mask in own.values() for n in positions(mask)) if pod else own.get(first[0]["name"], 0)
        found[resource] = device_hints(named.devices, named.free(taken), Asking(count, recorded))

    assert found.keys() == row["expected"].keys()
    for resource, hints in row["expected"].items():
        assert in_any_order(found[resource]) == in_any_order(told_hints(hints))


def limits(containers: list[Row]) -> list[ContainerLimits]:
    return [ContainerLimits(each["limits"], each.get("restart_always", False)) for each in containers]


def check_request(row: Row) -> None:
    asked = pod_request(limits(row["init_containers"]), limits(row["containers"]), frozenset(row["registered"]))

    assert asked == row["expected"]


def check_allocation(row: Row) -> None:
    named = Named(row["devices"])
    free = named.free(named.mask(row["allocated"]))
    found = allotment(named.devices, free, 0, row["request"], hint_of(row["hint"]).numa)

    assert isinstance(found, Allotment)
    # What a plugin prefers may be no device at all.
    draws = found.answered(named.mask({*(row["plugin_preferred"] or ())} & {*named.names}))
    sure = {n for draw in draws if draw.count == draw.pool.bit_count() for n in positions(draw.pool)}
    assert sum(draw.count for draw in draws) == row["request"]
    assert set(positions(named.mask(row["expected_must_contain"]))) <= sure
    for node, count in row["expected_count_per_numa"].items():
        there = named.devices.touching(1 << int(node))
        least = sum(max(0, draw.count - (draw.pool & ~there).bit_count()) for draw in draws)
        most = sum(min(draw.count, (draw.pool & there).bit_count()) for draw in draws)
        assert (least, most) == (count, count)


def check_question(row: Row) -> None:
    named = Named(row["devices"])
    reusable = named.mask(row["reusable"])
    free = named.free(named.mask(row["allocated"]))
    found = allotment(named.devices, free, reusable, row["request"], hint_of(row["hint"]).numa)

    assert isinstance(found, Allotment)
    assert found.question is not None
    assert found.question.available == named.mask(row["expected_available"])
    assert found.question.must_include == named.mask(row["expected_must_include"])
    assert found.question.size == row["expected_size"]


def check_nodes(row: Row) -> None:
    assert list(positions(Named(row["devices"], row["numa_nodes"]).devices.own_nodes)) == row["expected"]


def check_generated(row: Row) -> None:
    named = Named(row["devices"], row["numa_nodes"])
    found = hints_of(named.devices, named.mask(row["available"]), named.mask(row["reusable"]), row["request"])

    if "expected" in row:
        assert in_any_order(found) == in_any_order(told_hints(row["expected"]))
    else:
        every = mask_of(row["numa_nodes"])
        assert [hint.numa for hint in found].count(every) == row["expected_count_of_full_mask"]


def check_merge(row: Row) -> None:
    named = Named(row["devices"], row["numa_nodes"])
    manager = TopologyManager(TopologyPolicy(row["policy"]), numa_of(row["numa_nodes"], None))
    ours = {"devices": device_hints(named.devices, named.free(0), Asking(row["request"]))}
    merged = manager.affinity([ours, *(provider_of(each) for each in row["other_providers"])])

    assert merged == hint_of(row["expected"])
    assert manager.admits(merged) == row["admit"]


CHECKS: dict[str, Callable[[Row], None]] = {
    "device_hints": check_hints,
    "pod_device_request": check_request,
    "aligned_allocation": check_allocation,
    "preferred_allocation_args": check_question,
    "device_numa_nodes": check_nodes,
    "generate_hints": check_generated,
    "device_hints_merge": check_merge,
}


@pytest.mark.parametrize("row", cases(CASES))
def test_the_device_manager_s_own_tables_hold(row: Row) -> None:
    CHECKS[row["kind"]](row)
