"""The life of a grant, as one table with every legal step.

Rules: no time-out frees GPUs, and neither does a Node that goes away: a machine may come back under its name while
the pods of its first life still run, so a grant ends by its owner's own outcome alone. A pair that is not in the table
is a bug, raises and changes nothing. Held, Promised and Binding are persistent (the ledger says so); Bound and Prepared
are derived from the pod and the node's read-back; Releasing is what a dead owner's grant is until the ledger no longer
names it.
"""

from enum import StrEnum


class State(StrEnum):
    PROMISED = "Promised"  # owed to a waiter while a victim still terminates
    HELD = "Held"  # kept for a waiting pod, tied to a node
    BINDING = "Binding"  # recorded; a Binding may be in flight
    BOUND = "Bound"  # the API says that the pod is on the node
    PREPARED = "Prepared"  # the node said which GPUs the containers really got
    RELEASING = "Releasing"  # the owner is gone; the ledger still names it
    RELEASED = "Released"  # terminal


class Step(StrEnum):
    """What can happen to a grant."""

    VICTIM_GONE = "VictimGone"
    BIND_ASKED = "BindAsked"
    BINDING_REFUSED = "BindingRefused"  # precondition failed: the pod changed; the grant stands
    BINDING_UNKNOWN = "BindingUnknown"  # no answer: retried as it is
    POD_BOUND = "PodBound"
    POD_BOUND_ELSEWHERE = "PodBoundElsewhere"
    POD_REWRITTEN = "PodRewritten"  # unschedulable for another reason; a late Binding must now fail
    POD_GONE = "PodGone"  # deleted, ended with Succeeded or Failed, or being deleted before it was ever bound
    DEVICES_PREPARED = "DevicesPrepared"
    LEDGER_CLEARED = "LedgerCleared"


PERSISTENT = frozenset({State.PROMISED, State.HELD, State.BINDING})
"""What a ledger may record; anything else in it was written by another hand."""

TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.PROMISED, Step.VICTIM_GONE): State.HELD,
    (State.PROMISED, Step.POD_BOUND): State.BOUND,
    (State.PROMISED, Step.POD_BOUND_ELSEWHERE): State.RELEASING,
    (State.PROMISED, Step.POD_REWRITTEN): State.RELEASING,
    (State.PROMISED, Step.POD_GONE): State.RELEASING,
    (State.HELD, Step.BIND_ASKED): State.BINDING,
    (State.HELD, Step.POD_BOUND): State.BOUND,
    (State.HELD, Step.POD_BOUND_ELSEWHERE): State.RELEASING,
    (State.HELD, Step.POD_REWRITTEN): State.RELEASING,
    (State.HELD, Step.POD_GONE): State.RELEASING,
    (State.BINDING, Step.BIND_ASKED): State.BINDING,
    (State.BINDING, Step.BINDING_REFUSED): State.BINDING,
    (State.BINDING, Step.BINDING_UNKNOWN): State.BINDING,
    (State.BINDING, Step.POD_BOUND): State.BOUND,
    (State.BINDING, Step.POD_BOUND_ELSEWHERE): State.RELEASING,
    (State.BINDING, Step.POD_REWRITTEN): State.RELEASING,
    (State.BINDING, Step.POD_GONE): State.RELEASING,
    (State.BOUND, Step.DEVICES_PREPARED): State.PREPARED,
    (State.BOUND, Step.POD_GONE): State.RELEASING,
    (State.PREPARED, Step.DEVICES_PREPARED): State.PREPARED,
    (State.PREPARED, Step.POD_GONE): State.RELEASING,
    (State.RELEASING, Step.LEDGER_CLEARED): State.RELEASED,
}


class IllegalTransition(Exception):
    """A step that the table does not know: a bug in the caller. Nothing was changed."""


def after(state: State, step: Step) -> State:
    """Return the state that follows.

    Raises:
        IllegalTransition: the table has no such pair; the message names what the state takes.
    """
    try:
        return TRANSITIONS[state, step]
    except KeyError:
        takes = ", ".join(known for at, known in TRANSITIONS if at is state) or "nothing"
        raise IllegalTransition(f"{state} does not take {step}; it takes: {takes}") from None
