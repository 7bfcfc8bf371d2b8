"""The cluster's API as the scheduling service uses it: each effect becomes one request, each answer one outcome.

What an answer means is decided here, once. 4xx: the server refused, so nothing happened and nothing will. No answer or
5xx: nobody knows. A 409 or 422 on a pod's patch is looked into, since "another pod lives under that name" comes as
either, and so do other things.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from atoll.adapters.kube import names, wire, wire_atoll
from atoll.adapters.kube.client import MERGE_PATCH, STRATEGIC_PATCH, Answer, KubeClient, Unanswered
from atoll.adapters.kube.cluster_readers import cluster_readers
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_gates import lifting_patch
from atoll.adapters.kube.codec_ledger import allocation_json, ledger_json, record_of
from atoll.adapters.kube.codec_policy import status_patch
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.delivered import Reader
from atoll.adapters.kube.kube_readers import kube_readers
from atoll.adapters.kube.registration import Registrations
from atoll.adapters.kube.watch import watch
from atoll.core.effects import (
    ApiEffect,
    EvictPod,
    KeepRegistration,
    LiftGates,
    PostBinding,
    ReadLedger,
    ReadPod,
    RewritePod,
    SetPlaced,
    TellPolicy,
    WriteLedger,
)
from atoll.core.events import (
    BindingAccepted,
    BindingRefused,
    BindingUnknown,
    Heard,
    Kind,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerUnknown,
    LedgerWritten,
    LiftRefused,
    Outcome,
    PodEvicted,
    PodGone,
    PodNotEvicted,
    PodRead,
    PodRewritten,
    PodWriteFailed,
    PolicyTold,
    ReadFailed,
)
from atoll.core.facts import PodFacts
from atoll.core.ledger import LedgerRecord

PLACED_MESSAGE_MAX = 2000
NOT_FOUND, TIMED_OUT, CONFLICT, INVALID, TOO_MANY, SERVER_ERROR = 404, 408, 409, 422, 429, 500
_NO_ANSWER = (Unanswered, AccessError)
_encode = msgspec.json.Encoder().encode
_pod = msgspec.json.Decoder(wire.Pod)
_ledger = msgspec.json.Decoder(wire_atoll.RawLedger)
_any = msgspec.json.Decoder(wire.AnyObject)


class KubeClusterApi:
    """`ports.ClusterApi` on a real API server. `resources` are the names that count as GPUs.

    Args:
        namespace: of the agents' Leases. registrations: of the webhook, of which it is a process.
        foresee: whether all is watched that kube-scheduler's filters look at.
    """

    def __init__(
        self,
        client: KubeClient,
        resources: tuple[str, ...] = (names.GPU_RESOURCE,),
        namespace: str = "kube-system",
        registrations: Registrations | None = None,
        *,
        foresee: bool = False,
    ) -> None:
        self._registrations = registrations or Registrations(client, lambda: b"", lambda: datetime.now(UTC))
        self._foresee = foresee
        self._client = client
        self._resources = resources
        self._namespace = namespace

    def watch(self) -> AsyncIterator[Heard]:
        # A grant whose pod the later list of pods lacks belongs to a pod that is gone.
        readers: list[Reader[Any, Any]] = [*cluster_readers(self._resources, self._namespace).values()]
        if self._foresee:
            readers += kube_readers().values()
        return watch(self._client, readers, order=(Kind.LEDGERS, Kind.PODS))

    async def perform(self, effect: ApiEffect) -> Outcome:
        match effect:
            case WriteLedger(record):
                return await self._write_ledger(record)
            case ReadLedger(node):
                return await self._read_ledger(node)
            case PostBinding():
                return await self._post_binding(effect)
            case ReadPod(uid, namespace, name):
                return await self._read_pod(uid, namespace, name)
            case RewritePod(uid, namespace, name, mark):
                patch = {"metadata": {"uid": uid, "annotations": {names.NUDGE: mark}}}
                path = names.pod_path(namespace, name)
                return await self._patch_pod(effect, path, _encode(patch), MERGE_PATCH)
            case LiftGates():
                path = names.pod_path(effect.namespace, effect.name)
                return await self._patch_pod(effect, path, _encode(lifting_patch(effect)), MERGE_PATCH)
            case EvictPod():
                return await self._evict(effect)
            case SetPlaced(uid, namespace, name):
                path = names.pod_path(namespace, name) + "/status"
                return await self._patch_pod(effect, path, _placed_patch(effect), STRATEGIC_PATCH)
            case TellPolicy():
                return await self._tell_policy(effect)
            case KeepRegistration():
                return await self._registrations.keep(effect)

    async def _tell_policy(self, effect: TellPolicy) -> PolicyTold:
        path = names.policy_path(effect.name) + "/status"
        patch = status_patch(effect, datetime.now(UTC))
        try:
            answer = await self._client.write("PATCH", path, patch, MERGE_PATCH)
        except _NO_ANSWER as error:
            return PolicyTold(effect.name, str(error))
        return PolicyTold(effect.name, "" if answer.ok else answer.why)

    async def _write_ledger(self, record: LedgerRecord) -> Outcome:
        try:
            body = ledger_json(record)
            if record.version:
                answer = await self._client.write("PUT", names.ledger_path(record.node), body)
            else:
                answer = await self._client.write("POST", names.GPU_LEDGERS, body)
        except (*_NO_ANSWER, msgspec.ValidationError) as error:
            return LedgerUnknown(record.node, str(error))
        if answer.ok:
            return _written(record, answer)
        if answer.status == CONFLICT or (answer.status == NOT_FOUND and record.version):
            return LedgerConflict(record.node)
        return LedgerUnknown(record.node, answer.why)

    async def _read_ledger(self, node: str) -> Outcome:
        try:
            answer = await self._client.read(names.ledger_path(node))
        except _NO_ANSWER as error:
            return ReadFailed(node, str(error))
        if answer.status == NOT_FOUND:
            return LedgerGone(node)
        if not answer.ok:
            return ReadFailed(node, answer.why)
        try:
            return LedgerSeen(record_of(_ledger.decode(answer.body)))
        except msgspec.DecodeError as error:
            return ReadFailed(node, f"unreadable answer: {error}")

    async def _post_binding(self, effect: PostBinding) -> Outcome:
        owner, node = effect.grant.owner, effect.node
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": owner.namespace,
                "name": owner.name,
                "uid": owner.uid,
                "resourceVersion": effect.grant.pod_version,
                "annotations": {names.ALLOCATION: allocation_json(node, effect.grant)},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = names.pod_path(owner.namespace, owner.name) + "/binding"
        try:
            answer = await self._client.write("POST", path, _encode(binding))
        except _NO_ANSWER as error:
            return BindingUnknown(owner.uid, node, str(error))
        if answer.ok:
            return BindingAccepted(owner.uid, node)
        if _is_open(answer.status):
            return BindingUnknown(owner.uid, node, answer.why)
        return BindingRefused(owner.uid, node, answer.why)

    async def _read_pod(self, uid: str, namespace: str, name: str) -> Outcome:
        try:
            answer = await self._client.read(names.pod_path(namespace, name))
        except _NO_ANSWER as error:
            return PodWriteFailed(uid, str(error))
        if answer.status == NOT_FOUND:
            return PodGone(uid)
        if not answer.ok:
            return PodWriteFailed(uid, answer.why)
        found = self._pod_of(answer)
        if isinstance(found, str):
            return PodWriteFailed(uid, found)
        return PodRead(found) if found.uid == uid else PodGone(uid)

    async def _patch_pod(
        self, pod: RewritePod | LiftGates | SetPlaced, path: str, patch: bytes, content_type: str
    ) -> Outcome:
        try:
            answer = await self._client.write("PATCH", path, patch, content_type)
        except _NO_ANSWER as error:
            return PodWriteFailed(pod.uid, str(error))
        if answer.status == NOT_FOUND:
            return PodGone(pod.uid)
        if answer.ok:
            found = self._pod_of(answer)
            return PodWriteFailed(pod.uid, found) if isinstance(found, str) else PodRewritten(found)
        if answer.status in {CONFLICT, INVALID}:
            now = await self._read_pod(pod.uid, pod.namespace, pod.name)
            if isinstance(now, PodGone):
                return now
        if isinstance(pod, LiftGates) and not _is_open(answer.status):
            return LiftRefused(pod.uid, answer.why)
        return PodWriteFailed(pod.uid, answer.why)

    async def _evict(self, pod: EvictPod) -> PodEvicted | PodNotEvicted | PodGone:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = names.pod_path(pod.namespace, pod.name) + "/eviction"
        try:
            answer = await self._client.write("POST", path, _encode(eviction))
        except _NO_ANSWER as error:
            return PodNotEvicted(pod.uid, str(error))
        if answer.ok:
            return PodEvicted(pod.uid)
        if answer.status in {NOT_FOUND, CONFLICT} and isinstance(
            now := await self._read_pod(pod.uid, pod.namespace, pod.name), PodGone
        ):
            return now
        return PodNotEvicted(pod.uid, answer.why)

    def _pod_of(self, answer: Answer) -> PodFacts | str:
        """The pod, or why it cannot be read."""
        try:
            return pod_facts(_pod.decode(answer.body), self._resources)
        except (msgspec.DecodeError, ValueError) as error:
            return f"unreadable pod: {error}"


def _is_open(status: int) -> bool:
    """Whether the write may have happened, or may be asked for once more as it is."""
    return status in {TIMED_OUT, TOO_MANY} or status >= SERVER_ERROR


def _written(record: LedgerRecord, answer: Answer) -> LedgerWritten | LedgerUnknown:
    try:
        version = _any.decode(answer.body).metadata.resource_version
    except msgspec.DecodeError as error:
        return LedgerUnknown(record.node, f"unreadable answer: {error}")
    return LedgerWritten(LedgerRecord(record.node, version, record.node_uid, record.grants))


def _placed_patch(effect: SetPlaced) -> bytes:
    condition = {
        "type": names.PLACED,
        "status": "True" if effect.placed else "False",
        "reason": effect.reason,
        "message": effect.message[:PLACED_MESSAGE_MAX],
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    # A strategic merge goes by the condition's type: the others stay as they are.
    return _encode({"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}})
