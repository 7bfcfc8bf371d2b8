"""What a pod asks for, with defaults already applied.

`PodAsk` is what the pod's text says; `request_of` (in `asking`) turns it into a `GpuRequest` or an `InvalidRequest`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from atoll.core.reasons import Code
from atoll.core.scope import Scope

CONTAINERS_MAX = 256
"""Containers with GPUs of one pod: what a ledger record holds. Init containers reuse GPUs, so there can be many."""


class Policy(StrEnum):
    RESTRICTED = "Restricted"
    PREFERRED = "Preferred"


class ServiceClass(StrEnum):
    SHARED = "shared"
    LATENCY = "latency"
    BATCH = "batch"


class ContainerKind(StrEnum):
    """How the kubelet treats a container's devices."""

    INIT = "init"  # runs to its end before the next starts; what it held is reused by later containers
    SIDECAR = "sidecar"  # init container with restartPolicy Always: keeps what it holds
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """One container that asks for GPUs, in the order in which the kubelet admits them: init and sidecars, then app."""

    name: str
    gpus: int
    kind: ContainerKind = ContainerKind.APP


@dataclass(frozen=True, slots=True)
class PodAsk:
    """The pod's own words: containers with GPUs, and its annotations under `atoll.dev/`, untrusted.

    Attributes:
        other_devices: whether it asks for devices of other plugins too, which the kubelet aligns with its GPUs.
    """

    containers: tuple[ContainerAsk, ...]
    annotations: Mapping[str, str]
    other_devices: bool = False


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A valid wish for whole GPUs.

    Attributes:
        containers: those with GPUs, in start order.
        policy, scopes: of the pod's sum. Under `per_container` they are only what the pod *named* (or the default)
            and `container_policies` says what holds for each container.
        partition: the one partition asked for by name; implies scopes == (Partition,).
        other_devices: as in `PodAsk`; it bears on nodes whose own parts choose.
        degrade_after_s: how long a Preferred pod waits for a whole domain before it takes what there is.
        patient: it is such a pod, and still waits: decided like a Restricted one, and never treated as one after that.
    """

    containers: tuple[ContainerAsk, ...]
    policy: Policy
    scopes: tuple[Scope, ...]
    partition: str | None = None
    per_container: bool = False
    container_policies: tuple[Policy, ...] = ()
    service_class: ServiceClass | None = None
    other_devices: bool = False
    degrade_after_s: int = 0
    patient: bool = False

    @property
    def promised(self) -> Policy:
        """The policy of its grant: what a patient pod is promised is no more than a preference."""
        return Policy.PREFERRED if self.patient else self.policy

    @property
    def promised_each(self) -> tuple[Policy, ...]:
        """The same of each container, where each is judged alone."""
        return tuple(Policy.PREFERRED if self.patient else policy for policy in self.container_policies)

    @property
    def gpus(self) -> int:
        """GPUs that the pod holds at its peak, as the kubelet's device manager counts them with init reuse."""
        return gpus_of(self.containers)


@dataclass(frozen=True, slots=True)
class InvalidRequest:
    """The pod's text cannot be honoured. `message` says what was found and what would help, in one line.

    Attributes: code: NotReady where nobody can tell yet. enforced: False where no pool is, and the pod passes.
    """

    message: str
    code: Code = Code.INVALID_REQUEST
    enforced: bool = True


def waiting_for_a_domain(request: GpuRequest) -> GpuRequest:
    """The wish of a Preferred pod as long as only a whole domain will do."""
    strict = tuple(Policy.RESTRICTED for _ in request.container_policies)
    return replace(request, policy=Policy.RESTRICTED, container_policies=strict, patient=True)


@lru_cache(maxsize=4096)
def gpus_of(containers: tuple[ContainerAsk, ...]) -> int:
    """GPUs that a pod of these containers holds at its peak."""
    return sum(fresh_counts(containers))


def fresh_counts(containers: tuple[ContainerAsk, ...]) -> tuple[int, ...]:
    """How many GPUs each container takes that no earlier init container left for reuse.

    The kubelet serves a container from the devices of ended init containers first. App containers and sidecars take
    what they get out of that pool for good; an init container gives everything back to it.
    """
    pool, fresh = 0, []
    for container in containers:
        reused = min(pool, container.gpus)
        taken = container.gpus - reused
        fresh.append(taken)
        pool = pool + taken if container.kind is ContainerKind.INIT else pool - reused
    return tuple(fresh)
