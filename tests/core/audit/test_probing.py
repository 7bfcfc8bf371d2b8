"""Which node may be probed, and what a probe's pods got beside what was foreseen."""

from dataclasses import replace

import pytest

from atoll.core.audit.picture import AuditNode, Component, Role
from atoll.core.audit.probing import NoProbe, Probed, ProbeSite, judged, site_of
from atoll.core.probe import Got
from atoll.models.setup import predicted
from tests.core.audit.pictures import node, picture, pod, uuid

PLUGIN = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1")
IDLE = replace(node(policy="restricted"), unschedulable=True)


def site(box: AuditNode = IDLE, **facts: object) -> ProbeSite:
    found = site_of(picture(box, components=(PLUGIN,), **facts), "n1", predicted)  # type: ignore[arg-type]
    assert isinstance(found, ProbeSite), found
    return found


def got(nth: int, *gpus: int, of: int = 2, size: int = 4, why: str = "") -> Got:
    uuids = tuple(uuid("n1", gpu) for gpu in gpus) or None
    return Got(size, nth, of, uuids, failed=bool(why), why=why)


def seen(*pods: Got, box: AuditNode = IDLE) -> list[Probed]:
    return list(judged(site(box), pods))


@pytest.mark.parametrize(
    ("box", "pods", "why"),
    [
        (replace(IDLE, name="n2"), (), "there is no node n1"),
        (replace(IDLE, in_cluster=False), (), "there is no node n1"),
        (replace(IDLE, allocatable=0), (), "n1 offers no GPU"),
        (replace(IDLE, ready=False), (), "n1 is not ready"),
        (replace(IDLE, unschedulable=False), (), "n1 is open to other pods"),
        (IDLE, (pod("a", "n1", (0, 1)),), "n1 is not idle: team/a holds 2"),
        (IDLE, None, "the pods of the cluster cannot be listed"),
    ],
)
def test_a_node_that_must_not_be_probed_is_refused(box: AuditNode, pods: tuple, why: str) -> None:  # type: ignore[type-arg]
    found = site_of(picture(box, pods=pods, components=(PLUGIN,)), "n1", predicted)

    assert isinstance(found, NoProbe)
    assert why in found.why


def test_a_node_that_is_not_cordoned_may_be_probed_where_somebody_says_so() -> None:
    open_ = replace(IDLE, unschedulable=False)

    assert isinstance(site_of(picture(open_, components=(PLUGIN,)), "n1", predicted, cordoned=False), ProbeSite)


def test_pods_that_an_earlier_probe_left_are_no_tenants() -> None:
    left = pod("atoll-probe-0a1b2c-4-1", "n1", (0, 1, 2, 3))

    found = site_of(picture(IDLE, pods=(left,), components=(PLUGIN,)), "n1", predicted, probes="team/atoll-probe-")

    assert isinstance(found, ProbeSite)
    assert found.left == ("team/atoll-probe-0a1b2c-4-1",)


def test_islands_are_foreseen_and_whole() -> None:
    first, second = seen(got(1, 0, 1, 2, 3), got(2, 4, 5, 6, 7))

    assert (first.foreseen, first.whole, first.indexes, first.domain) == (True, True, (0, 1, 2, 3), "PCIeRoot")
    assert (second.foreseen, second.whole, second.sets) == (True, True, 1)


def test_a_split_set_that_no_model_foresaw_is_told() -> None:
    (pod_,) = seen(got(1, 2, 3, 4, 5))

    assert (pod_.foreseen, pod_.whole) == (False, False)


def test_what_is_foreseen_depends_on_the_pods_before_it_in_its_round() -> None:
    again = seen(got(1, 0, 1, 2, 3), got(2, 0, 1, 2, 3))

    assert [each.foreseen for each in again] == [True, False]  # nobody gets GPUs that another one holds
    rounds = seen(got(1, 0, 1, 2, 3), got(1, 0, 1, 2, 3))
    assert [each.foreseen for each in rounds] == [True, True]


def test_a_rejection_is_foreseen_where_the_topology_manager_may_reject() -> None:
    no = "TopologyAffinityError: Resources cannot be allocated with Topology locality"
    beside_three = seen(*(got(n, n - 1, of=8, size=1) for n in range(1, 4)), got(4, of=8, size=4, why=no))

    assert [each.foreseen for each in beside_three] == [True] * 3 + [False]  # the other island is whole
    (empty,) = seen(got(1, why=no))
    assert empty.foreseen is False


def test_a_pod_that_says_nothing_hides_gpus_from_those_after_it() -> None:
    silent, second = seen(Got(4, 1, 2, None, why="nobody tells"), got(2, 0, 1, 2, 3))

    assert (silent.foreseen, silent.whole) == (None, None)
    assert second.foreseen


def test_uuids_of_another_machine_were_not_foreseen() -> None:
    (strange,) = seen(Got(2, 1, 4, ("GPU-x", "GPU-y")))

    assert (strange.foreseen, strange.whole, strange.indexes) == (False, None, ())


def test_where_nobody_can_tell_what_is_handed_out_the_gates_say_why() -> None:
    unknown = replace(node(), unschedulable=True)

    assert any("Topology Manager" in gate for gate in site(unknown).gates)
    (pod_,) = seen(got(1, 0, 1, 2, 3), box=unknown)
    assert (pod_.foreseen, pod_.whole) == (None, True)
