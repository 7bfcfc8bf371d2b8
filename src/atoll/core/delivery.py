"""How a decision reaches a pod, and the scheduling gates by which pods wait for it outside the scheduler's queue.

A gate is the whole memory of the way: a pod that has one is released as the gate says, whatever a policy says by then.
"""

from enum import StrEnum


class Delivery(StrEnum):
    """The spelling is that of a policy's `delivery`, and API."""

    EXTENDER = "Extender"  # waits in the queue of kube-scheduler, which asks
    WAITING_ROOM = "WaitingRoom"  # waits behind a gate until GPUs are held for it; then kube-scheduler asks
    GATE = "Gate"  # waits behind a gate until it is sent to its node, where any scheduler binds it


WAITING, PLACEMENT = "atoll.dev/waiting", "atoll.dev/placement"
GATES = {Delivery.WAITING_ROOM: WAITING, Delivery.GATE: PLACEMENT}
OURS = frozenset(GATES.values())


def way_of(gates: tuple[str, ...]) -> Delivery | None:
    """How a pod behind these gates is delivered; None while others hold it, or when none of them is ours.

    Whoever holds it beside us comes first: GPUs that are kept for a pod which may not start yet are lost to all. Of
    both of ours the one that promises more counts.
    """
    if not gates or not OURS.issuperset(gates):
        return None
    return Delivery.GATE if PLACEMENT in gates else Delivery.WAITING_ROOM
