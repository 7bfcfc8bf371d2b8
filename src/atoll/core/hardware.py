"""A node's GPUs as the books count them: its shape, who is out, and what its own parts do with a request."""

from collections.abc import Iterator
from dataclasses import dataclass

from atoll.core.facts import Hints, Inventory, NodeConfig, StockParts
from atoll.core.gpuset import mask_of
from atoll.core.ledger import NodeMode
from atoll.core.outcomes import OutcomeTable, Predict, Unpredictable, setup_of, unmodelled
from atoll.core.shape import Shape, shape_of
from atoll.core.topology import Health

NO_POLICY = "none"
"""Of a Topology Manager that moves nothing."""

NO_AGENT = Unpredictable(("no agent tells what hands out GPUs here",))
NOT_ASKED = Unpredictable(("what the node's own parts would choose is not asked in this mode",))


@dataclass(frozen=True, slots=True)
class Hardware:
    """What an inventory and the configuration say about a node's GPUs, in the form the books count with.

    Attributes:
        usable: how many GPUs the kubelet can give as whole ones, if the inventory is right.
        kept_back: GPUs that are quarantined and nothing else. out: these, and the lost, unhealthy and MIG-split ones.
        out_unnamed: how many GPUs without UUID are out; their position is not told, so they count as hidden.
        counts: how many GPUs a Node may report that this inventory belongs to, from least to most.
        stock: what the node's own parts do with a request where they have a say, or why nobody can tell.
        hinted: a shim commands, and the Topology Manager goes by the hints that it keeps.
        boot_id: of the boot since which it holds. stale: why it may be out of date, "" where it is not.
        gates: why nobody can command which GPUs it gives.
        life: another text after each boot, and with each change of what hands out GPUs; "" unknown.
    """

    node_uid: str
    shape: Shape
    uuids: tuple[str | None, ...]
    usable: int
    kept_back: int
    out: int
    out_unnamed: int
    out_note: str
    counts: tuple[int, int]
    stock: OutcomeTable | Unpredictable = NO_AGENT
    boot_id: str = ""
    stale: str = ""
    life: str = ""
    gates: tuple[str, ...] = ()
    hinted: bool = False

    def where(self, uuids: frozenset[str]) -> int:
        """Positions of those of the UUIDs that the node has."""
        return mask_of(n for n, uuid in enumerate(self.uuids) if uuid in uuids)


def hardware_of(
    inventory: Inventory, config: NodeConfig, like: Hardware | None = None, predict: Predict = unmodelled
) -> Hardware:
    """`like` was made from the same topology and partitions; its shape, which is the costly part, is used again."""
    shape, uuids = (like.shape, like.uuids) if like else shape_of(inventory.topology, config.partitions)
    position = {uuid: n for n, uuid in enumerate(uuids) if uuid is not None}
    devices, quarantine = inventory.topology.devices, set(config.quarantine)
    lost = [device for device in devices if device.health is Health.LOST]
    unhealthy = [device for device in devices if device.health is Health.UNHEALTHY]
    mig = [device for device in devices if device.mig]
    kept_back = [device for device in devices if device.uuid in quarantine]
    broken = {device.index for device in (*lost, *unhealthy, *mig)}
    out = [device for device in devices if device.index in broken or device.uuid in quarantine]
    words = (
        (len(lost), "lost"),
        (len(unhealthy), "unhealthy"),
        (len(mig), "MIG-split"),
        (len(kept_back), "quarantined"),
    )
    hinted = _hinted(inventory, config)
    stock = _stock(inventory, config, shape, predict, hinted=hinted, kept_back=bool(kept_back))
    unforeseen = stock.gates if hinted and isinstance(stock, Unpredictable) else ()
    return Hardware(
        node_uid=inventory.node_uid,
        shape=shape,
        uuids=uuids,
        usable=len(devices) - len(broken),
        kept_back=mask_of(position[device.uuid] for device in kept_back if device.uuid and device.index not in broken),
        out=mask_of(position[device.uuid] for device in out if device.uuid),
        out_unnamed=sum(device.uuid is None for device in out),
        out_note=", ".join(f"{count} {word}" for count, word in words if count),
        # The device plugin does not list a lost GPU, and lists a split one under other names.
        counts=(len(devices) - len({device.index for device in (*lost, *mig)}), len(devices)),
        stock=stock,
        boot_id=inventory.boot_id,
        stale=f"its agent could not ask the machine: {inventory.stale}" if inventory.stale else "",
        life=_life(inventory),
        # What closes every commanded node may be unforeseen as well, and is said once.
        gates=tuple(dict.fromkeys((*_not_commanded(inventory), *unforeseen)))
        if config.mode is NodeMode.COMMAND
        else (),
        hinted=hinted,
    )


def _hinted(inventory: Inventory, config: NodeConfig) -> bool:
    parts = inventory.parts
    keeps = config.mode is NodeMode.COMMAND and config.hints is Hints.KEEP
    return keeps and parts is not None and parts.policy != NO_POLICY


def _not_commanded(inventory: Inventory) -> Iterator[str]:
    """Why nobody can command which GPUs the node gives, or see which it gave."""
    parts = inventory.parts
    if parts is None:
        yield "no agent tells here what containers got"
        return
    if not inventory.topology.uuids_known:
        yield "the UUIDs of some GPUs are not known"
    if parts.sharing:
        yield f"GPUs are shared ({parts.sharing}): two that a pod gets may be replicas of one"
    if parts.dra:
        yield f"{parts.dra} hands out the same GPUs, and the device plugin does not know of it"


def _life(inventory: Inventory) -> str:
    """ "" while some of it is not known, as when the plugin starts anew."""
    parts, boot = inventory.parts or StockParts(), inventory.boot_id or inventory.node_uid
    words = (boot, parts.kubelet, parts.policy, parts.plugin, parts.version)
    return " ".join((*words, parts.scope, *parts.options)) if all(words) else ""


def _stock(
    inventory: Inventory, config: NodeConfig, shape: Shape, predict: Predict, *, hinted: bool, kept_back: bool
) -> OutcomeTable | Unpredictable:
    if inventory.parts is None:
        return NO_AGENT
    if hinted:
        return predict(setup_of(inventory.topology, inventory.parts, commanded=True))
    if config.mode is not NodeMode.OBSERVE:
        return NOT_ASKED
    if shape.unnamed:
        return Unpredictable(("the UUIDs of some GPUs are not known",))
    if kept_back:
        return Unpredictable(("GPUs are quarantined, and without a shim the kubelet gives them out all the same",))
    return predict(setup_of(inventory.topology, inventory.parts))
