"""The books of one node: what the API's objects say together about who holds its GPUs.

Everything here is derived from five kinds of objects (Node, GPUNode, merged GPUNodeConfig, GPULedger, pods), so it can
be thrown away and made again at any time. Where the objects leave something open, the books say "taken": GPUs that some
owner holds without our knowing which count as hidden, and a node whose papers do not match it is closed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from atoll.core.facts import Given, Hints, NodeConfig, NodeFacts, PodFacts
from atoll.core.hardware import Hardware
from atoll.core.ledger import SEEN, Grant, LedgerRecord, NodeMode, Owner
from atoll.core.lifecycle import State, Step, after
from atoll.core.request import gpus_of

OPEN = frozenset({State.PROMISED, State.HELD, State.BINDING})
"""States of a grant whose pod is not on a node yet."""

OVER = frozenset({State.RELEASING, State.RELEASED})

READ_BACK = frozenset({NodeMode.OBSERVE, NodeMode.COMMAND})
"""Modes in which an agent's word on what owners got is needed."""


def observed(grant: Grant, node: str, pod: PodFacts | None, *, gone: bool) -> State:
    """The state of a recorded grant, given what is known of its pod (None = not seen yet)."""
    if gone or (pod is not None and holds_nothing(pod)):
        return after(grant.state, Step.POD_GONE)
    if pod is None or not pod.node:
        return grant.state
    return after(grant.state, Step.POD_BOUND if pod.node == node else Step.POD_BOUND_ELSEWHERE)


def holds_nothing(pod: PodFacts) -> bool:
    """Ended pods hold nothing any more. One that is being deleted before it was bound never will: the API server
    refuses the Binding of a pod with a deletion timestamp."""
    return pod.ended or (pod.deleting and not pod.node)


def pod_gpus(pod: PodFacts) -> int:
    """GPUs that the kubelet will take for the pod at its peak."""
    return gpus_of(pod.ask.containers)


def owner_of(pod: PodFacts) -> Owner:
    return Owner("Pod", pod.namespace, pod.name, pod.uid)


@dataclass(frozen=True, slots=True)
class Books:
    """What one node's view is made from.

    Attributes:
        hardware: None where no inventory was published.
        live: grants of the ledger that still hold, with their state.
        foreign: pods on the node that hold GPUs without a grant.
        got: UUIDs by pod UID, as read back from the node; of pods that have ended or are gone too, until it lets go.
        lingering: pods that are gone, or may be, and may still hold GPUs, whether or not it was read back which.
        stale: why the word of the node's agent is old, "" where it is not.
        commands: by which hints a shim answers the node's kubelet, None where none does.
        over: grants that the ledger still names and whose owners are gone.
    """

    node: NodeFacts
    config: NodeConfig
    hardware: Hardware | None
    live: tuple[tuple[Grant, State], ...]
    foreign: tuple[PodFacts, ...]
    unreadable: str = ""
    got: Mapping[str, frozenset[str]] = field(default_factory=dict)
    lingering: frozenset[str] = frozenset()
    stale: str = ""
    commands: Hints | None = None
    over: tuple[Grant, ...] = ()

    @property
    def recorded(self) -> tuple[Grant, ...]:
        """Grants of owners who are gone and got what nobody foresaw, which keep the node closed."""
        return tuple(grant for grant in self.over if in_force(grant, self.hardware))

    @property
    def chosen_there(self) -> bool:
        """Whether the node's own parts choose GPUs, and nobody commands them."""
        return self.config.mode is NodeMode.OBSERVE

    @property
    def in_turn(self) -> bool:
        """Whether one owner at a time is let in: what becomes of the next depends on what the one before has got."""
        hinted = self.config.mode is NodeMode.COMMAND and self.hardware is not None and self.hardware.hinted
        return self.chosen_there or hinted

    @property
    def read_back(self) -> bool:
        """Whether the node tells what each owner got, and that counts before anything else."""
        return self.config.mode in READ_BACK

    def exact(self, uid: str, count: int) -> frozenset[str] | None:
        """What an owner really holds, None where that is not read back, or not of all its containers yet."""
        got = self.got.get(uid)
        return got if got is not None and len(got) >= count else None


def books_of(
    node: NodeFacts,
    config: NodeConfig,
    hardware: Hardware | None,
    record: LedgerRecord,
    on_node: Iterable[PodFacts],
    grant_states: Iterable[tuple[Grant, State]],
    given: Iterable[Given] = (),
    *,
    lingering: frozenset[str] = frozenset(),
    stale: str = "",
    commands: Hints | None = None,
) -> Books:
    """Sort the owners of a node: grants that hold, pods that hold without one, and containers of pods that are gone.

    Args:
        given: what was read back from the node. lingering, stale, commands: see `Books`.
    """
    states = tuple(grant_states)
    live = tuple((grant, state) for grant, state in states if state not in OVER)
    granted = {grant.owner.uid for grant, _ in live}
    foreign = tuple(
        sorted(
            (pod for pod in on_node if pod.uid not in granted and not holds_nothing(pod) and pod_gpus(pod)),
            key=lambda pod: (pod.namespace, pod.name, pod.uid),
        )
    )
    got: dict[str, frozenset[str]] = {}
    for each in given:
        got[each.pod_uid] = got.get(each.pod_uid, frozenset()) | frozenset(each.uuids)
    over = tuple(grant for grant, state in states if state in OVER)
    return Books(node, config, hardware, live, foreign, record.unreadable, got, lingering, stale, commands, over)


def in_force(grant: Grant, hardware: Hardware | None) -> bool:
    """Whether that an owner got what nobody foresaw still says something of the node."""
    return grant.violated not in ("", SEEN) and (hardware is None or hardware.life in ("", grant.violated))
