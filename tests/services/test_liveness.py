"""Agents of observed nodes that fall silent, and pods that are gone before their node has said so."""

from dataclasses import replace

from atoll.core.events import (
    AgentSeen,
    LedgerSeen,
    PodGone,
    PodSeen,
)
from atoll.core.facts import Given
from atoll.core.ledger import LedgerRecord, NodeMode
from atoll.core.reasons import Code
from atoll.services.liveness import SILENT_S
from tests.services.observed_node import Site, pod


def test_an_agent_that_falls_silent_closes_its_node_until_it_speaks() -> None:
    site = Site()
    assert site.code() is None

    site.wait(SILENT_S + 1)
    assert site.code() is Code.STALE_INVENTORY
    site.hear(AgentSeen("n1", "second"))

    assert site.code() is None


def test_the_same_word_again_is_no_sign_of_life() -> None:
    site = Site()
    for _ in range(7):
        site.wait(10.0)
        site.hear(AgentSeen("n1", "first", pods_version=str(site.now)))

    assert site.code() is Code.STALE_INVENTORY


def test_where_nothing_is_observed_nobody_needs_an_agent() -> None:
    site = Site(NodeMode.ASSUMED)
    site.wait(SILENT_S + 1)

    assert site.code() is None


def test_a_pod_that_goes_before_it_was_read_back_keeps_the_node_until_the_agent_has_seen_it_go() -> None:
    site = Site()
    site.hear(PodSeen(pod("a", 2)))
    assert site.code() is Code.UNCONFIRMED

    site.hear(PodGone("a-uid", "20"))
    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="19")
    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="20")

    assert site.code() is None


def test_a_pod_that_the_agent_still_names_is_still_there() -> None:
    site = Site()
    site.hear(PodSeen(pod("a", 2)), PodGone("a-uid", "20"))

    site.tell(Given("a-uid", "main", ()), pods="21")
    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="21")

    assert site.code() is None


def test_an_agent_with_nothing_to_write_says_so_by_its_lease() -> None:
    site = Site()
    site.hear(PodSeen(pod("a", 2)), PodGone("a-uid", "20"))

    site.hear(AgentSeen("n1", "second", "25", str(site.version + 1)))
    assert site.code() is Code.UNCONFIRMED  # it speaks of an inventory that we have not seen
    site.hear(AgentSeen("n1", "third", "25", str(site.version)))

    assert site.code() is None


def test_a_pod_whose_end_its_kubelet_has_told_is_waited_for_no_longer() -> None:
    site = Site()
    site.hear(PodSeen(pod("a", 2)), PodSeen(replace(pod("a", 2, version="6"), ended=True)))

    assert site.code() is None


def test_the_grant_of_a_pod_that_may_still_be_there_stays_in_the_ledger() -> None:
    site = Site()
    service = site.service
    bound = pod("a", 2, node="", version="5")
    site.hear(PodSeen(bound))
    grant = site.grant(bound)
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(replace(bound, node="n1", version="6")))

    site.hear(PodGone("a-uid", "20"))
    assert service.mirror.lingers("a-uid", "n1")
    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="20")

    assert not service.mirror.lingers("a-uid", "n1")
    assert site.code() is None


def test_after_a_restart_a_recorded_pod_that_is_gone_may_still_be_there() -> None:
    site, again = Site(), Site()
    waiting = pod("a", 2, node="", version="15")
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)

    again.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodGone("a-uid"))
    assert again.code() is Code.UNCONFIRMED
    again.tell(pods="16")

    assert again.code() is None


def test_gpus_that_nobody_foresaw_are_reported_once_and_close_the_node_while_they_are_held() -> None:
    site = Site()
    waiting = pod("a", 2, node="")
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)
    assert ("GPU-n1-0", "GPU-n1-4") not in grant.candidates
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))), PodSeen(replace(waiting, node="n1", version="6")))

    site.tell(Given("a-uid", "main", ("GPU-n1-0", "GPU-n1-4")), pods="7")
    site.tell(Given("a-uid", "main", ("GPU-n1-0", "GPU-n1-4")), pods="8")

    assert site.reports == ["violation"]
    assert site.code(1) is Code.NODE_CLOSED
    site.hear(PodSeen(replace(waiting, node="n1", version="9", ended=True)))
    site.tell(pods="10")
    assert site.code(1) is None


def test_a_recorded_pod_that_nobody_has_seen_may_be_gone_whatever_was_read_back_of_it() -> None:
    """A service starts while containers of a deleted pod still run: an agent names it, the list of pods does not."""
    site, again = Site(), Site()
    waiting = pod("a", 2, node="", version="15")
    site.hear(PodSeen(waiting))
    grant = site.grant(waiting)

    again.tell(Given("a-uid", "main", grant.candidates[0]), pods="20")
    again.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (grant,))))

    assert again.code(1) is Code.UNCONFIRMED


def test_an_agent_without_a_lease_is_silent_too() -> None:
    site = Site(lease=False)
    assert site.code() is None

    site.wait(SILENT_S + 1)

    assert site.code() is Code.STALE_INVENTORY


def test_a_lease_speaks_of_the_inventory_that_it_names_and_of_no_later_one() -> None:
    """A later object may hold an older word, which was written late."""
    site = Site()
    site.hear(PodSeen(pod("a", 2)), PodGone("a-uid", "20"))
    named = site.version
    site.tell(pods="10")

    site.hear(AgentSeen("n1", "second", "25", str(named)))

    assert site.code() is Code.UNCONFIRMED


def test_the_watch_corrects_when_a_pod_went_of_which_a_read_said_that_it_is_gone() -> None:
    site = Site()
    site.hear(PodSeen(pod("a", 2, version="15")), PodGone("a-uid"))
    site.hear(PodGone("a-uid", "30"))

    site.tell(pods="29")
    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="30")

    assert site.code() is None


def test_a_pod_that_went_while_its_binding_was_under_way_may_have_been_bound() -> None:
    site = Site()
    waiting = pod("a", 2, node="", version="5")
    site.hear(PodSeen(waiting))
    site.hear(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (site.grant(waiting),))))

    site.hear(PodGone("a-uid", "20"))

    assert site.code() is Code.UNCONFIRMED
    site.tell(pods="20")
    assert site.code() is None
