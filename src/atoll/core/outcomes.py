"""What a node may do with a request where its own parts have a say: values that models of the stock parts fill.

The stock parts choose at random between what they hold for equal. So the answer to one state of the node is every set
that a pod may get, and whether it may fail instead; or it is known that nobody can tell. Where a shim answers in the
device plugin's place, the answer is out of which GPUs it may choose.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from atoll.core.facts import StockParts
from atoll.core.shape import canonical
from atoll.core.topology import NodeTopology


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What may become of a container that asks for GPUs.

    Attributes:
        sets: GPU sets that it may get, as bitmasks.
        rejects: the Topology Manager may refuse it (TopologyAffinityError).
        fails: it may fail otherwise (UnexpectedAdmissionError): too few devices, or the plugin crashes.
        asks: the device plugin is asked which GPUs it would prefer; else the kubelet alone settles it.
        offers: bitmasks of GPUs out of which it gets those that a shim chooses; none where there is no shim.
    """

    sets: frozenset[int] = frozenset()
    rejects: bool = False
    fails: bool = False
    asks: bool = False
    offers: frozenset[int] = frozenset()

    @property
    def sure(self) -> bool:
        """Whether it gets GPUs in any case."""
        return not (self.rejects or self.fails)


class OutcomeTable(Protocol):
    """The outcomes of one node model, by state."""

    @property
    def aligns(self) -> bool:
        """Whether the Topology Manager has a say, so that other devices of a pod may move its GPUs."""

    def outcomes(self, free: int, count: int) -> Outcomes:
        """For a pod with one container that asks for `count` GPUs while exactly `free` are free."""

    def __hash__(self) -> int:
        """Tables are told apart by identity."""


@dataclass(frozen=True, slots=True)
class StockSetup:
    """What decides on a node which GPUs a pod gets.

    Attributes:
        topology: in the order of the node's shape. commanded: a shim answers in the device plugin's place.
    """

    topology: NodeTopology
    parts: StockParts
    commanded: bool = False


def setup_of(topology: NodeTopology, parts: StockParts, *, commanded: bool = False) -> StockSetup:
    """The setup of one node, equal for all that are like it. Args: topology: in any order, with UUIDs."""
    return StockSetup(canonical(topology).without_uuids(), parts, commanded)


@dataclass(frozen=True, slots=True)
class Unpredictable:
    """Nobody can tell what the node hands out. Attributes: gates: why, one short sentence each, never none."""

    gates: tuple[str, ...]


Predict = Callable[[StockSetup], OutcomeTable | Unpredictable]


def unmodelled(_setup: StockSetup) -> Unpredictable:
    """Where no model is at hand."""
    return Unpredictable(("the parts that hand out GPUs are not modelled",))
