"""What the audit says of the stock parts: every outcome where they are known, the gates where they are not."""

from dataclasses import replace

import pytest

from atoll.core.audit.audit import audit
from atoll.core.audit.picture import AuditNode, Component, Role
from atoll.core.audit.report import Prospect, StockSizeView, StockView
from atoll.core.topology import Health, PairLink, PcieLink
from atoll.models.setup import predicted
from tests.core.audit.pictures import node, picture, pod

PLUGIN = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1")


def views(*nodes: AuditNode, plugin: Component = PLUGIN, **facts: object) -> list[StockView]:
    report = audit(picture(*nodes, components=(plugin,), **facts), predict=predicted)  # type: ignore[arg-type]
    return [each.stock for each in report.nodes]


def prospect(view: StockView, gpus: int) -> Prospect:
    return next(each for each in view.prospects if each.gpus == gpus)


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_a_broken_node_gives_a_split_four_where_nothing_refuses_it(policy: str) -> None:
    (view,) = views(node(policy=policy), pods=(pod("a", "n1", (0, 1, 6, 7)),))

    assert prospect(view, 4) == Prospect(4, sets=1, split=1, rejects=False, fails=False, asks=policy == "none")
    assert prospect(view, 2).split == 0


def test_a_broken_node_fails_the_four_after_binding_under_restricted() -> None:
    (view,) = views(node(policy="restricted"), pods=(pod("a", "n1", (0, 1, 6, 7)),))

    assert prospect(view, 4) == Prospect(4, sets=0, split=0, rejects=True, fails=False, asks=False)


def test_of_owners_without_names_every_possible_state_is_looked_through() -> None:
    (view,) = views(node(policy="best-effort"), pods=(pod("a", "n1", 4),))

    # Four of eight are free in seventy ways, and in two of them they are an island.
    assert (prospect(view, 4).sets, prospect(view, 4).split) == (70, 68)
    assert prospect(view, 1).split == 0


def with_link(box: AuditNode, link: PairLink) -> AuditNode:
    """The same node with this link between GPU 0 and GPU 7."""
    assert box.machine is not None
    assert box.machine.topology is not None
    links = tuple(
        tuple(link if {a, b} == {0, 7} else each for b, each in enumerate(row))
        for a, row in enumerate(box.machine.topology.links)
    )
    return replace(box, machine=replace(box.machine, topology=replace(box.machine.topology, links=links)))


def test_a_bridge_across_islands_splits_a_pair_although_islands_are_free() -> None:
    bridged = with_link(node(policy="none"), PairLink(PcieLink.SYS, 4))
    report = audit(picture(bridged, node("n2", policy="restricted"), components=(PLUGIN,)), predict=predicted)

    assert prospect(report.nodes[0].stock, 2).split
    assert report.stock[1] == StockSizeView(gpus=2, whole=1, split=1, avoidable=("n1",), fails=0, unknown=0)


def sick(box: AuditNode) -> AuditNode:
    assert box.machine is not None
    assert box.machine.topology is not None
    first, *others = box.machine.topology.devices
    devices = (replace(first, health=Health.LOST), *others)
    return replace(box, machine=replace(box.machine, topology=box.machine.topology.with_devices(devices)))


@pytest.mark.parametrize(
    ("box", "plugin", "gate"),
    [
        (node(policy="none"), Component(Role.DEVICE_PLUGIN, "hami", "v2.6"), "what hami prefers is not modelled"),
        (node(policy="none"), replace(PLUGIN, version="v0.13.0"), "nvidia-device-plugin v0.13.0 is not one of those"),
        (node(policy="none"), replace(PLUGIN, version=""), "nvidia-device-plugin an unknown version is not one"),
        (node(), PLUGIN, "the Topology Manager policy is not known"),
        (node(islands="000? 1111", policy="restricted"), PLUGIN, "the NUMA node of GPU 3 is not known"),
        (node(islands="000? 1111", policy="none"), PLUGIN, "the PCIe path of some pairs is not known"),
        (node(islands="00000000 11111111", policy="none"), PLUGIN, "with more than 12 GPUs"),
        (sick(node(policy="none")), PLUGIN, "GPU 0 is lost or unhealthy"),
        (with_link(node(policy="none"), PairLink(None, 4)), PLUGIN, "the PCIe path of some pairs is not known"),
        (replace(node(policy="none"), labels={"nvidia.com/gpu.replicas": "4"}), PLUGIN, "GPUs are shared"),
    ],
)
def test_a_gate_says_why_nobody_can_tell(box: AuditNode, plugin: Component, gate: str) -> None:
    (view,) = views(box, plugin=plugin)

    assert not view.prospects
    assert any(each.startswith(gate) for each in view.gates)


def test_nodes_that_take_no_pods_do_not_count() -> None:
    down = replace(node("n2", policy="none"), ready=False)
    report = audit(picture(node(policy="none"), down, components=(PLUGIN,)), predict=predicted)

    assert [(size.whole, size.split) for size in report.stock if size.gpus <= 4] == [(1, 0)] * 3
