"""`ports.NodeApi` on a real API server: the agent watches its own node alone, and writes its `GPUNode` and its Lease.

The whole status is replaced by one request that names no version: the agent is its only writer, and one that another
life of it overtook is written again when the watch shows it.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import names, wire, wire_atoll
from atoll.adapters.kube.client import JSON, JSON_PATCH, MERGE_PATCH, Answer, KubeClient, Unanswered
from atoll.adapters.kube.codec_inventory import gpu_node_json, inventory_of, owner_reference, status_of
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.delivered import Reader
from atoll.adapters.kube.own import wire as own
from atoll.adapters.kube.own.codec import own_node, resident
from atoll.adapters.kube.own.say import say
from atoll.adapters.kube.publish import remedy
from atoll.adapters.kube.watch import watch
from atoll.core.agent.effects import ApiEffect, Publish, RenewLease
from atoll.core.agent.events import (
    NotWritten,
    OwnNodeGone,
    OwnNodeSeen,
    PublishedListed,
    PublishedSeen,
    Renewed,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    ResidentsListing,
    WatchedEvent,
    Written,
)
from atoll.core.facts import Inventory
from atoll.core.ledger import NodeMode

_NO_ANSWER = (Unanswered, AccessError)
_encode = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder(wire.AnyObject)


class KubeNodeApi:
    """Args: namespace: of the agent's Lease. me: who holds it. resources: the names that count as GPUs."""

    def __init__(self, client: KubeClient, node: str, namespace: str, me: str, resources: tuple[str, ...]) -> None:
        self._client, self._node, self._namespace, self._me = client, node, namespace, me
        self._resources = resources

    def watch(self) -> AsyncIterator[WatchedEvent]:
        return watch(self._client, self._readers())

    async def perform(self, effect: ApiEffect) -> Written | NotWritten | Renewed:
        try:
            match effect:
                case Publish(inventory, gates):
                    return await self._publish(inventory, gates)
                case RenewLease():
                    return await self._renew(effect)
        except _NO_ANSWER as error:
            return NotWritten(str(error)) if isinstance(effect, Publish) else Renewed(str(error) or "no answer")

    async def _publish(self, inventory: Inventory, gates: tuple[str, ...]) -> Written | NotWritten:
        path = names.gpu_node_path(inventory.node)
        capability = wire_atoll.Capability(NodeMode.OBSERVE, not gates, gates[: wire_atoll.GATES_MAX])
        replacement = [{"op": "add", "path": "/status", "value": status_of(inventory, (capability,))}]
        answer = await self._client.write("PATCH", f"{path}/status", _encode(replacement), JSON_PATCH)
        if answer.status == 404:
            made = await self._client.write("POST", names.GPU_NODES, gpu_node_json(inventory), JSON)
            if not made.ok:
                return NotWritten(made.why + remedy(made))
            answer = await self._client.write("PATCH", f"{path}/status", _encode(replacement), JSON_PATCH)
        if not answer.ok:
            return NotWritten(answer.why)
        if problem := await self._own(path, inventory, answer):
            return problem
        return Written(replace(inventory, version=_version(answer)))

    async def _own(self, path: str, inventory: Inventory, answer: Answer) -> NotWritten | None:
        """Have the object go with this Node, where it was made for an earlier one of its name."""
        try:
            owners = msgspec.json.decode(answer.body, type=_Owned).metadata.owner_references or ()
        except msgspec.DecodeError as error:
            return NotWritten(f"unreadable answer: {error}")
        if any(each.uid == inventory.node_uid for each in owners):
            return None
        patch = _encode({"metadata": {"ownerReferences": [owner_reference(inventory)]}})
        done = await self._client.write("PATCH", path, patch, MERGE_PATCH)
        return None if done.ok else NotWritten(done.why)

    async def _renew(self, effect: RenewLease) -> Renewed:
        node = effect.node
        told = {names.PODS_VERSION: effect.pods_version, names.INVENTORY_VERSION: effect.inventory_version}
        lease = (self._namespace, names.agent_lease(node.name))
        return Renewed(await say(self._client, lease, self._me, (node.name, node.uid), names.AGENT_LABELS, told))

    def _readers(self) -> tuple[Reader[Any, WatchedEvent], ...]:
        here = f"?fieldSelector={quote(f'metadata.name={self._node}')}"
        on_it = f"?fieldSelector={quote(f'spec.nodeName={self._node}')}"
        return (
            Reader(
                "node",
                f"{names.NODES}{here}",
                own.Node,
                lambda node: OwnNodeSeen(own_node(node, self._resources)),
                gone=lambda _known, _version: OwnNodeGone(),
                synced=lambda _: None,
                dropped=lambda _name, _why: None,
            ),
            Reader(
                "pods of the node",
                f"{names.PODS}{on_it}",
                own.Pod,
                self._resident,
                gone=_resident_gone,
                synced=lambda _: None,
                reached=ResidentsListed,
                listing=ResidentsListing,
                dropped=lambda _name, _why: None,
                by_uid=True,
            ),
            Reader(
                "gpunode",
                f"{names.GPU_NODES}{here}",
                wire_atoll.GpuNode,
                lambda node: PublishedSeen(inventory_of(node)),
                gone=lambda _known, _version: PublishedSeen(None),
                synced=lambda _: PublishedListed(),
                dropped=lambda _name, _why: PublishedSeen(None),
            ),
        )

    def _resident(self, pod: own.Pod) -> ResidentSeen:
        return ResidentSeen(resident(pod, self._resources))


class _Owner(wire.Struct, frozen=True):
    uid: str = ""


class _OwnedMeta(wire.Struct, frozen=True):
    owner_references: tuple[_Owner, ...] | None = None


class _Owned(wire.Struct, frozen=True):
    metadata: _OwnedMeta = _OwnedMeta()


def _version(answer: Answer) -> str:
    try:
        return _any.decode(answer.body).metadata.resource_version
    except msgspec.DecodeError:
        return ""  # the watch tells it


def _resident_gone(known: WatchedEvent, version: str) -> WatchedEvent:
    if not isinstance(known, ResidentSeen):
        raise AssertionError(f"{known} is no pod")
    return ResidentGone(known.pod.uid, version)
