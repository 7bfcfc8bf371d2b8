"""Claims, volumes and what stands behind them, as far as kube-scheduler lets them decide about nodes."""

from dataclasses import dataclass

from atoll.core.kube_facts import NodeTerm


@dataclass(frozen=True, slots=True)
class KubeClaim:
    """A PersistentVolumeClaim.

    Attributes:
        volume: that it is bound to or asks for; bound: whether the binding is complete.
        storage_class: "" = none. single_pod: ReadWriteOncePod.
        owner: uid of the pod that it was made for. selected_node: where its volume is being made.
        unfit: why no pod may use it: it lost its volume, it is being deleted.
        sized: whether it asks for an amount. unsure: what of it is not modelled.
    """

    namespace: str
    name: str
    uid: str
    volume: str = ""
    bound: bool = False
    storage_class: str = ""
    single_pod: bool = False
    owner: str = ""
    selected_node: str = ""
    unfit: str = ""
    sized: bool = True
    unsure: str = ""


@dataclass(frozen=True, slots=True)
class KubeVolume:
    """A PersistentVolume.

    Attributes:
        affinity: terms of node labels of which one must hold; None = it can be had everywhere.
        zones: per zone or region label the values that it is in.
        storage_class: "" = none. bound: whether a claim has it for good.
        driver, handle: of CSI. unsure: what of it is not modelled.
    """

    name: str
    affinity: tuple[NodeTerm, ...] | None = None
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    storage_class: str = ""
    bound: bool = True
    driver: str = ""
    handle: str = ""
    unsure: str = ""


@dataclass(frozen=True, slots=True)
class KubeStorageClass:
    """Attributes:
    delayed: a claim is bound only when a pod needs it (WaitForFirstConsumer).
    provisioner: "" where nobody makes volumes. topologies: where they may be; each alternative is (label, values)
        pairs that must all hold; () = everywhere.
    """

    name: str
    delayed: bool = False
    provisioner: str = ""
    topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...] = ()
    unsure: str = ""


@dataclass(frozen=True, slots=True)
class KubeCsiNode:
    """Attributes: limits: (driver, volumes) of drivers that say how many; drivers: all that run there."""

    name: str
    drivers: frozenset[str] = frozenset()
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KubeCsiDriver:
    """Attributes:
    by_capacity: it publishes how much each node can have. must_run: pods wait where it does not run.
    """

    name: str
    by_capacity: bool = False
    must_run: bool = False


@dataclass(frozen=True, slots=True)
class KubeAttachment:
    """A VolumeAttachment. Attributes: volume: of which PersistentVolume; "" = of one that has none."""

    name: str
    node: str
    driver: str
    volume: str = ""


@dataclass(frozen=True, slots=True)
class KubeDeviceClass:
    """Attributes: resource: the extended resource that it stands for, beside the one that has its name; "" = none."""

    name: str
    resource: str = ""
