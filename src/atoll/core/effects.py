"""What the scheduling service wants done, as values. One module performs them; each outcome comes back as an event."""

from dataclasses import dataclass

from atoll.core.ledger import Grant, LedgerRecord
from atoll.core.placement_policy import PolicyStatus


@dataclass(frozen=True, slots=True)
class WriteLedger:
    """Write `record` if the object still has `record.version` ("" = create). -> LedgerWritten/-Conflict/-Unknown"""

    record: LedgerRecord


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """A consistent read. -> LedgerSeen, LedgerGone or ReadFailed"""

    node: str


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Bind the grant's pod to `node` with the pod's UID, `grant.pod_version` and the allocation annotation.

    -> BindingAccepted/-Refused/-Unknown"""

    node: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class ReadPod:
    """A consistent read by name; another UID under the name means that ours is gone.

    -> PodRead, PodGone or PodWriteFailed"""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class RewritePod:
    """Patch an annotation of the pod so that its version moves and a late Binding must fail; the same patch wakes it in
    the scheduler's queue. With the UID as precondition. -> PodRewritten, PodGone or PodWriteFailed"""

    uid: str
    namespace: str
    name: str
    mark: str  # a value that differs from the last one


@dataclass(frozen=True, slots=True)
class LiftGates:
    """Take our gates off the pod, if it still has that version. -> PodRewritten, PodGone, LiftRefused or PodWriteFailed

    Attributes:
        node: to which it is sent in the same write, with the grant as its annotation; "" = to none.
        terms: its required node affinity terms as JSON, to each of which the node is added.
    """

    uid: str
    namespace: str
    name: str
    version: str
    node: str = ""
    grant: Grant | None = None
    terms: str = ""


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Have the pod evicted, if its disruption budget allows it. With the UID as precondition.

    -> PodEvicted, PodGone or PodNotEvicted"""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class SetPlaced:
    """Write the pod's `atoll.dev/Placed` condition. -> PodRewritten, PodGone or PodWriteFailed"""

    uid: str
    namespace: str
    name: str
    placed: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class TellPolicy:
    """Write the status of a `PlacementPolicy` if the object still has that version. -> PolicyTold"""

    name: str
    version: str
    status: PolicyStatus


@dataclass(frozen=True, slots=True)
class KeepRegistration:
    """Have the webhook's registrations name our CA and fail as said. -> RegistrationKept

    Attributes: closed: whether pods with GPUs are refused while the webhook cannot be asked.
    """

    closed: bool


@dataclass(frozen=True, slots=True)
class AnswerBind:
    """Answer the caller of this attempt; "" means bound."""

    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """Something a person should see in log and metrics: an anomaly that was survived. No outcome."""

    what: str  # a stable key, e.g. "ledger_unreadable"
    node: str = ""
    pod: str = ""
    detail: str = ""


PodEffect = ReadPod | RewritePod | LiftGates | EvictPod | SetPlaced
ApiEffect = WriteLedger | ReadLedger | PostBinding | PodEffect | TellPolicy | KeepRegistration
Effect = ApiEffect | AnswerBind | Report
