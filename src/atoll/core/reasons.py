"""Reason codes: the few words that every refusal carries. Once released they never change."""

from enum import StrEnum


class Code(StrEnum):
    """Why a node (or the whole request) was refused. Each says who can help."""

    INVALID_REQUEST = "InvalidRequest"  # the pod's own text is wrong: fix the pod
    NO_DOMAIN_LARGE_ENOUGH = "NoDomainLargeEnough"  # never fits this node: another node, scope or size
    TOPOLOGY_UNKNOWN = "TopologyUnknown"  # might fit, cannot be proven: publish what is missing
    INSUFFICIENT_GPUS = "InsufficientGPUs"  # fewer free than asked: wait
    FRAGMENTED = "Fragmented"  # enough free, no domain has them: wait for the named blockers
    UNCONFIRMED = "Unconfirmed"  # another grant on the node must be confirmed first: wait
    HELD = "Held"  # kept for an older waiter: wait
    GANG_INCOMPLETE = "GangIncomplete"  # others with which it is to be placed at once are not there: wait for them
    UNSCHEDULABLE = "Unschedulable"  # GPUs are there, and for another reason its scheduler has no node for it
    NODE_CLOSED = "NodeClosed"  # violation or quarantine: a person or a clean re-check opens it
    STALE_INVENTORY = "StaleInventory"  # the inventory is of another node or too old: publish again
    NOT_READY = "NotReady"  # Atoll has not synced: try again
