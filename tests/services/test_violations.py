"""Pods that got GPUs which nobody foresaw: told, recorded, evicted where that is wanted, and never in a loop."""

from dataclasses import replace

import pytest

from atoll.core.effects import EvictPod
from atoll.core.events import (
    ConfigSeen,
    LeadershipChanged,
    LedgerGone,
    LedgerSeen,
    PodEvicted,
    PodGone,
    PodNotEvicted,
    PodSeen,
)
from atoll.core.facts import Enforcement, Given, NodeConfigObject, OnViolation
from atoll.core.ledger import SEEN, LedgerRecord, NodeMode
from atoll.core.reasons import Code
from atoll.core.request import Policy
from atoll.services.violations import AGAIN_S
from tests.core.nodes import wish
from tests.services.observed_node import Site, pod

STRAY = ("GPU-n1-0", "GPU-n1-4")
"""Two GPUs of two islands."""
REST = tuple(f"GPU-n1-{n}" for n in range(8) if n not in (0, 4))


def config(on_violation: OnViolation) -> ConfigSeen:
    return ConfigSeen(
        NodeConfigObject("all", enforcement=Enforcement.ENFORCE, mode=NodeMode.OBSERVE, on_violation=on_violation)
    )


def violated(on_violation: OnViolation, policy: Policy = Policy.RESTRICTED, *, leading: bool = True) -> Site:
    """A node on which pod a was granted two GPUs of an island, and got two of two."""
    site = Site()
    site.hear(LeadershipChanged(leading=leading), config(on_violation))
    waiting = pod("a", 2, node="")
    site.hear(PodSeen(waiting))
    grant = replace(site.grant(waiting), policy=policy)
    assert STRAY not in grant.candidates
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(replace(waiting, node="n1", version="6")))
    site.tell(Given("a-uid", "main", STRAY), pods="7")
    return site


def beside_a_stranger(on_violation: OnViolation) -> Site:
    """A node on which pod a was granted two GPUs of an island, and a stranger came before it was admitted."""
    site = Site()
    site.hear(LeadershipChanged(leading=True), config(on_violation))
    waiting, stranger = pod("a", 2, node=""), pod("s", 6, version="6")
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(stranger))
    site.hear(PodSeen(replace(waiting, node="n1", version="7")))
    return site


def evictions(site: Site) -> int:
    return sum(isinstance(effect, EvictPod) for effect in site.effects)


def gone(site: Site) -> None:
    """The pod goes, and its node says so."""
    site.hear(PodGone("a-uid", "20"))
    site.tell(pods="21")


def test_it_is_recorded_before_anybody_is_evicted() -> None:
    site = violated(OnViolation.EVICT)

    writes = [type(effect).__name__ for effect in site.effects]
    assert writes.index("WriteLedger") < writes.index("EvictPod")
    assert site.service.mirror.record("n1").grants[0].violated
    assert site.reports == ["violation"]


def test_the_node_stays_closed_after_the_pod_is_gone_so_that_its_successor_goes_elsewhere() -> None:
    site = violated(OnViolation.EVICT)
    site.hear(PodEvicted("a-uid"))

    gone(site)
    site.wait(30)

    assert evictions(site) == 1
    assert site.code(1) is Code.NODE_CLOSED
    assert [grant.owner.uid for grant in site.service.mirror.record("n1").grants] == ["a-uid"]


def test_a_service_that_starts_anew_knows_of_it_and_evicts_nobody() -> None:
    site = violated(OnViolation.EVICT)
    gone(site)
    record = site.service.mirror.record("n1")

    again = Site()
    again.hear(LeadershipChanged(leading=True), config(OnViolation.EVICT), LedgerSeen(record), PodGone("a-uid"))
    again.tell(pods="30")

    assert again.code(1) is Code.NODE_CLOSED
    assert evictions(again) == 0


@pytest.mark.parametrize("change", ["boot", "plugin"])
def test_a_boot_or_another_version_of_the_parts_opens_it(change: str) -> None:
    site = violated(OnViolation.REPORT)
    gone(site)
    assert site.code() is Code.NODE_CLOSED

    if change == "boot":
        site.boot = "boot-2"
    else:
        site.parts = replace(site.parts, version="v0.17.2")
    site.tell(pods="22")

    assert site.code() is None
    assert site.service.mirror.record("n1").grants == ()


def test_a_plugin_that_is_away_for_a_moment_opens_nothing() -> None:
    site = violated(OnViolation.REPORT)
    gone(site)
    parts = site.parts

    site.parts = replace(parts, plugin="", version="")
    site.tell(pods="22")
    site.parts = parts
    site.tell(pods="23")

    assert site.code() is Code.NODE_CLOSED


def test_somebody_who_deletes_the_ledger_opens_it() -> None:
    site = violated(OnViolation.EVICT)
    gone(site)

    site.hear(LedgerGone("n1"))

    assert site.code() is None


def test_after_a_boot_the_same_pod_is_evicted_no_second_time_while_it_goes() -> None:
    site = violated(OnViolation.EVICT)
    site.hear(PodEvicted("a-uid"), PodSeen(replace(pod("a", 2, version="8"), deleting=True)))

    site.boot = "boot-2"
    site.tell(Given("a-uid", "main", STRAY), pods="9")
    site.wait(3 * AGAIN_S)

    assert evictions(site) == 1


@pytest.mark.parametrize(
    ("on_violation", "policy"),
    [(OnViolation.REPORT, Policy.RESTRICTED), (OnViolation.EVICT, Policy.PREFERRED)],
    ids=["report", "a preferred pod"],
)
def test_nobody_is_evicted_where_that_is_not_wanted(on_violation: OnViolation, policy: Policy) -> None:
    site = violated(on_violation, policy)

    assert evictions(site) == 0
    assert site.reports == ["violation"]
    assert site.code(1) is Code.NODE_CLOSED


def test_what_a_stranger_explains_closes_the_node_while_the_pod_is_there_and_no_longer() -> None:
    """He took all but two GPUs between the decision and the admission, and the parts gave what was left."""
    site = beside_a_stranger(OnViolation.EVICT)

    site.tell(Given("a-uid", "main", STRAY), Given("s-uid", "main", REST), pods="8")

    assert site.reports == ["violation"]
    assert site.service.mirror.record("n1").grants[0].violated == SEEN
    assert evictions(site) == 1
    assert site.code(1) is Code.NODE_CLOSED
    site.hear(PodGone("a-uid", "20"), PodGone("s-uid", "21"))
    site.tell(pods="22")
    assert site.code() is None


def test_a_verdict_stands_whoever_leaves_after_it() -> None:
    site = beside_a_stranger(OnViolation.REPORT)

    site.tell(Given("a-uid", "main", STRAY), pods="8")  # nothing is told of the stranger yet
    assert site.service.mirror.record("n1").grants[0].violated == ""
    site.tell(Given("a-uid", "main", STRAY), Given("s-uid", "main", REST), pods="9")
    site.hear(PodGone("s-uid", "20"))
    site.tell(Given("a-uid", "main", STRAY), pods="21")
    site.hear(PodGone("a-uid", "22"))
    site.tell(pods="23")

    assert site.code() is None


def test_what_a_container_has_before_and_after_a_lost_checkpoint_is_no_violation() -> None:
    site = Site()
    site.hear(LeadershipChanged(leading=True), config(OnViolation.EVICT))
    waiting = pod("a", 2, node="")
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(replace(waiting, node="n1", version="6")))

    site.tell(Given("a-uid", "main", (*grant.candidates[0], "GPU-n1-6", "GPU-n1-7")), pods="8")

    assert site.reports == []
    assert evictions(site) == 0


def test_a_plugin_that_is_away_when_the_pod_is_read_back_evicts_nobody_without_a_record() -> None:
    site = Site()
    site.hear(LeadershipChanged(leading=True), config(OnViolation.EVICT))
    waiting, parts = pod("a", 2, node=""), site.parts
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(replace(waiting, node="n1", version="6")))

    site.parts = replace(parts, plugin="", version="")
    site.tell(Given("a-uid", "main", STRAY), pods="7")
    assert evictions(site) == 0
    site.parts = parts
    site.tell(Given("a-uid", "main", STRAY), pods="8")

    assert evictions(site) == 1
    gone(site)
    assert site.code() is Code.NODE_CLOSED


def test_what_is_left_of_an_owner_who_is_gone_holds_no_gpu_and_one_such_record_is_enough() -> None:
    site = violated(OnViolation.REPORT, Policy.PREFERRED)
    gone(site)
    (left,) = site.service.mirror.record("n1").grants
    assert (left.count, left.candidates, left.uuids) == (0, (), frozenset())

    again = replace(pod("b", 2, node=""), version="30")
    site.hear(PodSeen(again))
    stray = replace(left, owner=replace(left.owner, name="b", uid="b-uid"), count=2, violated="",
                    candidates=(("GPU-n1-1", "GPU-n1-2"),))  # fmt: skip
    record = site.service.mirror.record("n1")
    site.hear(LedgerSeen(replace(record, version="999", grants=(left, stray))))
    site.hear(PodSeen(replace(again, node="n1", version="31")))
    site.tell(Given("b-uid", "main", STRAY), pods="32")

    assert site.service.mirror.record("n1").of("b-uid").violated == SEEN
    site.hear(PodGone("b-uid", "40"))
    site.tell(pods="41")
    assert [grant.owner.uid for grant in site.service.mirror.record("n1").grants] == ["a-uid"]


def test_nobody_is_evicted_where_the_node_is_only_watched_by_now() -> None:
    site = violated(OnViolation.REPORT)

    site.hear(
        ConfigSeen(
            NodeConfigObject(
                "all", enforcement=Enforcement.SHADOW, mode=NodeMode.OBSERVE, on_violation=OnViolation.EVICT
            )
        )
    )

    assert evictions(site) == 0


def test_a_node_whose_mode_is_another_for_a_moment_stays_closed() -> None:
    site = violated(OnViolation.REPORT)
    gone(site)

    site.hear(ConfigSeen(NodeConfigObject("all", enforcement=Enforcement.ENFORCE, mode=NodeMode.ASSUMED)))
    site.hear(config(OnViolation.REPORT))

    assert site.code() is Code.NODE_CLOSED


def test_only_the_leader_records_and_evicts() -> None:
    site = violated(OnViolation.EVICT, leading=False)

    assert site.effects == [effect for effect in site.effects if type(effect).__name__ == "Report"]
    site.hear(LeadershipChanged(leading=True))
    assert evictions(site) == 1


def test_an_eviction_that_a_budget_refuses_is_asked_for_again_ever_more_rarely() -> None:
    site = violated(OnViolation.EVICT)

    times = []
    for second in range(121):
        if evictions(site) > len(times):
            times.append(second)
            site.hear(PodNotEvicted("a-uid", "429 TooManyRequests: the disruption budget"))
        site.wait(1.0)

    assert times[0] == 0
    assert 4 <= len(times) <= 8
    assert times[1] >= AGAIN_S
    assert "not_evicted" in site.reports


def test_a_quarantined_node_takes_nobody_not_even_a_preferred_pod() -> None:
    site = violated(OnViolation.QUARANTINE)

    assert evictions(site) == 0
    refused = site.service.mirror.fleet.filter(wish(1, policy=Policy.PREFERRED), ["n1"]).failed
    assert refused
    site = violated(OnViolation.REPORT)
    assert not site.service.mirror.fleet.filter(wish(1, policy=Policy.PREFERRED), ["n1"]).failed
