"""`ports.ShimApi` on a real API server: what the shim of one node watches, reads and says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import names, wire, wire_atoll
from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.codec import node_facts
from atoll.adapters.kube.codec_inventory import config_of
from atoll.adapters.kube.codec_ledger import record_of
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.delivered import Reader
from atoll.adapters.kube.own import guests
from atoll.adapters.kube.own.guests import guest_of
from atoll.adapters.kube.own.say import say
from atoll.adapters.kube.watch import watch
from atoll.core.shim.effects import ApiEffect, Read, WriteLease
from atoll.core.shim.events import (
    ApiEvent,
    ConfigsListed,
    ConfigTold,
    GuestGone,
    GuestsListed,
    GuestsListing,
    GuestTold,
    LeaseWritten,
    LedgersListed,
    LedgerTold,
    NodeTold,
    ReadAgain,
)

READ_S = 2.0
"""How long an admission waits for the API."""

_NO_ANSWER = (Unanswered, AccessError, TimeoutError)
_ledgers = msgspec.json.Decoder(wire.Page[wire_atoll.RawLedger])
_pods = msgspec.json.Decoder(wire.Page[guests.Pod])


class KubeShimApi:
    """Args: namespace: of the shim's Lease. me: who holds it. resources: the names that count as GPUs."""

    def __init__(self, client: KubeClient, node: str, namespace: str, me: str, resources: tuple[str, ...]) -> None:
        self._client, self._node, self._namespace, self._me = client, node, namespace, me
        self._resources = resources

    def watch(self) -> AsyncIterator[ApiEvent]:
        return watch(self._client, self._readers())

    async def perform(self, effect: ApiEffect) -> ReadAgain | LeaseWritten:
        try:
            match effect:
                case Read():
                    return await self._read()
                case WriteLease(commands, version, uid):
                    told = {names.COMMANDS: commands, names.PODS_VERSION: version, names.NODE_UID: uid}
                    lease, node = (self._namespace, names.shim_lease(self._node)), (self._node, uid)
                    return LeaseWritten(await say(self._client, lease, self._me, node, names.SHIM_LABELS, told))
        except _NO_ANSWER as error:
            why = str(error) or f"no answer within {READ_S:g} s"
            return ReadAgain(why=why) if isinstance(effect, Read) else LeaseWritten(why)

    async def _read(self) -> ReadAgain:
        """Consistent reads: no resourceVersion is named. First the pods: whoever is among them was granted before."""
        async with asyncio.timeout(READ_S):
            pods = await self._client.read(f"{names.PODS}{self._here('spec.nodeName')}")
            ledgers = await self._client.read(f"{names.GPU_LEDGERS}{self._here('metadata.name')}")
        for answer in (pods, ledgers):
            if not answer.ok:
                return ReadAgain(why=answer.why)
        try:
            found, recorded = _pods.decode(pods.body), _ledgers.decode(ledgers.body)
            guests_there = [guest_of(pod, self._resources) for pod in found.items or ()]
            records = [record_of(ledger) for ledger in recorded.items or ()]
        except (msgspec.DecodeError, ValueError) as error:
            return ReadAgain(why=f"unreadable answer: {error}")
        return ReadAgain(
            tuple(guest for guest in guests_there if guest),
            records[0] if records else None,
            found.metadata.resource_version,
            recorded.metadata.resource_version,
        )

    def _here(self, field: str) -> str:
        return f"?fieldSelector={quote(f'{field}={self._node}')}"

    def _readers(self) -> tuple[Reader[Any, ApiEvent], ...]:
        return (
            Reader(
                "node",
                f"{names.NODES}{self._here('metadata.name')}",
                wire.Node,
                lambda node: NodeTold(node_facts(node, self._resources)),
                gone=lambda known, _version: known,  # a node that runs a shim is registered again
                synced=lambda _: None,
                dropped=_unheard,
            ),
            Reader(
                "gpunodeconfigs",
                names.GPU_NODE_CONFIGS,
                wire_atoll.NodeConfig,
                lambda config: ConfigTold(config.metadata.name, config_of(config)),
                gone=_config_gone,
                synced=lambda _: ConfigsListed(),
                dropped=_unheard,
            ),
            Reader(
                "gpuledger",
                f"{names.GPU_LEDGERS}{self._here('metadata.name')}",
                wire_atoll.RawLedger,
                lambda ledger: LedgerTold(record_of(ledger)),
                gone=lambda _known, _version: LedgerTold(None),
                synced=lambda _: LedgersListed(),
                dropped=_unheard,
            ),
            Reader(
                "pods of the node",
                f"{names.PODS}{self._here('spec.nodeName')}",
                guests.Pod,
                self._guest,
                gone=_guest_gone,
                synced=lambda _: None,
                reached=GuestsListed,
                listing=GuestsListing,
                dropped=_unheard,
                by_uid=True,
            ),
        )

    def _guest(self, pod: guests.Pod) -> GuestTold | None:
        guest = guest_of(pod, self._resources)
        return GuestTold(guest) if guest else None


def _unheard(_name: str, _why: str) -> None:
    """What cannot be read is as it was."""


def _config_gone(known: ApiEvent, _version: str) -> ApiEvent:
    if not isinstance(known, ConfigTold):
        raise AssertionError(f"{known} is no configuration")
    return ConfigTold(known.name, None)


def _guest_gone(known: ApiEvent, version: str) -> ApiEvent:
    if not isinstance(known, GuestTold):
        raise AssertionError(f"{known} is no pod")
    return GuestGone(known.guest.uid, version)
