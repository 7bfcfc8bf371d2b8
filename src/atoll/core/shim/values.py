"""What kubelet and device plugins say to each other, and what the shim knows of the pods that may be meant."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.core.facts import NodeConfig, NodeFacts
from atoll.core.ledger import Grant, LedgerRecord


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Attributes: pre_start: wants to be called before a container starts. prefers: can be asked which it prefers."""

    pre_start: bool = False
    prefers: bool = False


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device as its plugin lists it. Attributes: numa: NUMA nodes, () where it names none."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Which devices a container should get: one container request of GetPreferredAllocation.

    Attributes:
        available: ids that the kubelet may give; `must` among them. must: those that it gives in any case. size: how
            many in all.
    """

    available: frozenset[str]
    must: frozenset[str]
    size: int

    @property
    def fresh(self) -> int:
        """How many are still to be chosen."""
        return self.size - len(self.must)


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod of the node that asks for GPUs.

    Attributes:
        version: resourceVersion. created: RFC 3339.
        counts: GPUs that its containers take afresh, in the order of their start, no zeros.
        admitted: the kubelet has let it in. over: none of its containers will run any more.
        noted: UUIDs that its own annotation names, None where there is none: a hint at how old our ledger is.
    """

    uid: str
    namespace: str
    name: str
    version: str
    created: str
    counts: tuple[int, ...]
    admitted: bool = False
    over: bool = False
    noted: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What the shim knows of its node when it is asked.

    Attributes:
        guests: pods on the node. grants: of the node's ledger. unreadable: why it cannot be trusted, "" = it can.
        served: sets that were allocated while the shim looked, each with the grant's owner that it was meant for.
        spared: UUIDs that nobody is to get by chance: quarantined ones.
        numa: NUMA nodes by device, as its plugin names them.
        fresh: whether this was just read, so that nobody is missing.
    """

    guests: tuple[Guest, ...] = ()
    grants: tuple[Grant, ...] = ()
    unreadable: str = ""
    served: frozenset[tuple[str, frozenset[str]]] = frozenset()
    spared: frozenset[str] = frozenset()
    numa: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What a shim had heard when it ended, which is what a slow watch would have told: its next life begins with that.

    Attributes:
        config: what people declared for the node. pods_version: up to which it had heard everything of the pods.
        served: see `Known`.
    """

    node: NodeFacts
    config: NodeConfig
    record: LedgerRecord | None
    guests: tuple[Guest, ...]
    pods_version: str
    served: tuple[tuple[str, frozenset[str]], ...] = ()
