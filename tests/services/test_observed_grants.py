"""Grants on observed nodes between their record and their Binding, and what evicting somebody would open there."""

from dataclasses import replace

import pytest

from atoll.core.events import ConfigSeen, InventorySeen, LedgerSeen, NodeSeen, PodSeen
from atoll.core.facts import (
    Enforcement,
    Given,
    Inventory,
    NodeConfigObject,
    NodeFacts,
    PodFacts,
    Source,
    StockParts,
)
from atoll.core.ledger import Grant, LedgerRecord, NodeMode
from atoll.core.request import ContainerAsk, PodAsk
from atoll.core.topology import Health
from atoll.services.deciding import Court
from atoll.services.mirror import Mirror
from atoll.services.requests import Requests
from atoll.sim.machines import machine
from tests.core.nodes import wish

BOARD = machine("n1", (4, 4))
PARTS = StockParts(policy="none", plugin="nvidia-device-plugin", version="v0.17.1")


def pod(name: str, gpus: int, node: str = "") -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, "5", PodAsk((ContainerAsk("main", gpus),), {}), node=node)


def got(name: str, *gpus: int) -> Given:
    return Given(f"{name}-uid", "main", tuple(f"GPU-n1-{gpu}" for gpu in gpus))


class Site:
    """One observed node."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.court = Court(self.mirror, Requests([]))
        self.mirror.apply(NodeSeen(NodeFacts("n1", "uid-1", 8, 8)))
        self.mode(NodeMode.OBSERVE)
        self.tell()

    def mode(self, mode: NodeMode) -> None:
        self.mirror.apply(ConfigSeen(NodeConfigObject("all", enforcement=Enforcement.ENFORCE, mode=mode)))

    def tell(self, *given: Given, parts: StockParts = PARTS, lost: int | None = None) -> None:
        devices = tuple(
            replace(device, health=Health.LOST) if n == lost else device for n, device in enumerate(BOARD.devices)
        )
        topology = BOARD.with_devices(devices)
        self.mirror.apply(InventorySeen(Inventory("n1", "uid-1", Source.AGENT, topology, parts, given)))

    def granted(self, name: str, gpus: int) -> Grant:
        """A recorded grant of a pod that is not bound yet."""
        waiting = pod(name, gpus)
        self.mirror.apply(PodSeen(waiting))
        found = self.court.grant(waiting, wish(gpus), "n1", self.mirror.record("n1"))
        assert isinstance(found, Grant), found
        self.mirror.apply(LedgerSeen(LedgerRecord("n1", "9", "uid-1", (found,))))
        return found


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_recorded_grant_is_good_while_nothing_else_can_come_of_it(site: Site) -> None:
    grant = site.granted("a", 4)

    assert site.court.still_good(grant, "n1")


def test_a_stranger_on_both_islands_makes_it_bad(site: Site) -> None:
    grant = site.granted("a", 4)
    site.mirror.apply(PodSeen(pod("stranger", 2, node="n1")))
    assert not site.court.still_good(grant, "n1")  # nobody knows yet what it got

    site.tell(got("stranger", 0, 4))
    assert not site.court.still_good(grant, "n1")


def test_a_lost_gpu_makes_it_bad(site: Site) -> None:
    grant = site.granted("a", 4)
    site.tell(lost=0)

    assert not site.court.still_good(grant, "n1")


def test_a_plugin_that_nobody_knows_makes_it_bad(site: Site) -> None:
    grant = site.granted("a", 4)
    site.tell(parts=replace(PARTS, version="v9.0.0"))

    assert not site.court.still_good(grant, "n1")


@pytest.mark.parametrize(
    ("before", "after"), [(NodeMode.OBSERVE, NodeMode.ASSUMED), (NodeMode.ASSUMED, NodeMode.OBSERVE)]
)
def test_another_mode_of_the_node_makes_it_bad(site: Site, before: NodeMode, after: NodeMode) -> None:
    site.mode(before)
    grant = site.granted("a", 4)
    site.mode(after)

    assert not site.court.still_good(grant, "n1")


def test_evicting_who_is_in_the_way_opens_an_observed_node_too(site: Site) -> None:
    site.mirror.apply(PodSeen(pod("victim", 4, node="n1")))
    site.tell(got("victim", 0, 1, 4, 5))
    site.mirror.refresh()

    assert not site.court.fits_without(wish(4), "n1", frozenset())
    assert site.court.fits_without(wish(4), "n1", frozenset({"victim-uid"}))


def test_an_older_word_of_the_agent_never_replaces_a_newer_one(site: Site) -> None:
    newer = Inventory("n1", "uid-1", Source.AGENT, BOARD, PARTS, (got("a", 0),), version="10")
    older = Inventory("n1", "uid-1", Source.AGENT, BOARD, PARTS, (), version="9")

    assert site.mirror.apply(InventorySeen(newer))
    assert not site.mirror.apply(InventorySeen(older))

    kept = site.mirror.inventories.get("n1")
    assert kept == newer
