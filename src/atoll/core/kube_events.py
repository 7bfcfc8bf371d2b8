"""What happens to the objects that kube-scheduler's filters look at."""

from dataclasses import dataclass

from atoll.core.facts import Labels
from atoll.core.kube_facts import KubeNode, KubePod
from atoll.core.kube_storage import (
    KubeAttachment,
    KubeClaim,
    KubeCsiDriver,
    KubeCsiNode,
    KubeDeviceClass,
    KubeStorageClass,
    KubeVolume,
)

KubeStored = KubeClaim | KubeVolume | KubeStorageClass | KubeCsiNode | KubeCsiDriver | KubeAttachment | KubeDeviceClass


@dataclass(frozen=True, slots=True)
class KubePodSeen:
    pod: KubePod


@dataclass(frozen=True, slots=True)
class KubePodGone:
    uid: str


@dataclass(frozen=True, slots=True)
class KubeNodeSeen:
    node: KubeNode


@dataclass(frozen=True, slots=True)
class KubeNodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class KubeNamespaceSeen:
    name: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class KubeNamespaceGone:
    name: str


@dataclass(frozen=True, slots=True)
class KubeStoredSeen:
    """A claim, a volume or what stands behind them; which, its type says."""

    stored: KubeStored


@dataclass(frozen=True, slots=True)
class KubeStoredGone:
    """Attributes: stored: as it was last seen."""

    stored: KubeStored


@dataclass(frozen=True, slots=True)
class KubeUnread:
    """An object that cannot be read at all. Until it can, nothing is certain of what it could decide.

    Attributes: kind: the reader's name for it.
    """

    kind: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class KubeUnreadGone:
    """It is gone, or can be read by now."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class KubeSynced:
    """All that was there of a kind has been told."""

    kind: str


KubeSeen = KubePodSeen | KubeNodeSeen | KubeNamespaceSeen | KubeStoredSeen
KubeGone = KubePodGone | KubeNodeGone | KubeNamespaceGone | KubeStoredGone | KubeUnreadGone
KubeEvent = KubeSeen | KubeGone | KubeUnread | KubeSynced
