"""The API server's admission calls: bytes in, one typed call, bytes out.

Two paths. `/mutate` answers for pods with what is to be filled in; `/validate` says what is refused and warned of, of
pods and of whatever has a template of pods inside, wherever it lies. A template is never refused and never changed:
what its pods would be told is a warning to whoever applies it.

A body that is no review at all is a 400; one that cannot be judged now is a 503. Either is a failure of the webhook to
the API server, which then does what its registration says.
"""

import base64
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec import asks_for_gpus, pod_facts
from atoll.adapters.kube.names import ANSWERED
from atoll.adapters.kube.plain import plain
from atoll.core.admitting import Review
from atoll.core.asking import RULED, filled_keys
from atoll.core.delivery import GATES, Delivery
from atoll.core.errors import printable, quoted, shortened
from atoll.core.facts import PodFacts
from atoll.core.reasons import Code

DEFAULT_SCHEDULERS = frozenset({"", "default-scheduler"})
DEPTH_MAX, TEMPLATES_MAX, OBJECTS_MAX = 12, 32, 20_000
"""How deep a template may lie in an object, how many of them are looked at, and in how much."""

WARNING_MAX, WARNINGS_MAX = 256, 12
"""The API server cuts what is longer and drops what is more."""

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
Json = dict[str, Any]
_encode = msgspec.json.encode


class Admission(Protocol):
    """What is asked of the scheduling service."""

    def not_ready(self) -> str:
        """Why nothing can be judged now; "" when it can."""
        ...

    def review(self, pod: PodFacts, keys: Collection[str]) -> Review: ...


class BadReview(Exception):
    """A body that is no review; the text is one line for the caller."""


class NotNow(Exception):
    """A review that cannot be answered now."""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    namespace: str = ""
    object: dict[str, Any] | None = None


class Call(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionReview."""

    api_version: str
    kind: str
    request: Request


_CALL = msgspec.json.Decoder(Call)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's bytes, and what it was in a word, for the metrics."""

    body: bytes
    outcome: str


class Webhook:
    """Answers reviews out of one scheduling service.

    Args:
        resources: names of the GPU resource.
        scheduler: the schedulerName that GPU pods get which name none; "" = they keep what they have.
    """

    def __init__(self, admission: Admission, resources: tuple[str, ...], scheduler: str) -> None:
        self._admission, self._resources, self._scheduler = admission, resources, scheduler

    def mutate(self, body: bytes) -> Answer:
        """Raises: BadReview, NotNow."""
        request = _decoded(body)
        found = request.object or {}
        pod = self._pod(found, request.namespace) if found.get("kind") == "Pod" else None
        if pod is None:
            return _answer(request, "untouched")
        told = self._judged(pod)
        if told.refused:
            return _answer(request, "left")  # it is refused where it is validated, with the same words
        patch = [*self._patch(found, told.filled), *self._waits(found, told.delivery)] if told.changes else []
        return _answer(request, "filled" if patch else "left", patch=patch)

    def validate(self, body: bytes) -> Answer:
        """Raises: BadReview, NotNow."""
        request = _decoded(body)
        found = request.object or {}
        if found.get("kind") == "Pod":
            pod = self._pod(found, request.namespace)
            if pod is None:
                return _answer(request, "untouched")
            told = self._judged(pod)
            warnings = [*told.warnings, *([] if told.refused else self._elsewhere(found, told.delivery))]
            return _answer(request, "refused" if told.refused else "allowed", why=told.refused, warnings=warnings)
        warnings = [
            f"{where}: {said}"
            for where, template in templates_in(found)
            for said in self._of_template(template, request.namespace)
        ]
        return _answer(request, "warned" if warnings else "allowed", warnings=warnings)

    def _of_template(self, template: Json, namespace: str) -> list[str]:
        try:
            pod = self._pod(template, namespace)
        except BadReview:
            return []  # the kind's own controller says what is wrong with it
        if pod is None:
            return []
        told = self._judged(pod)
        return [f"its pods will be refused: {told.refused}"] if told.refused else list(told.warnings)

    def _pod(self, found: Json, namespace: str) -> "_Pod | None":
        """None where it asks for no GPU.

        Raises:
            BadReview: it is no pod.
        """
        metadata = found.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadReview(f"no pod that can be read: its metadata is a {type(metadata).__name__}")
        named = {"uid": "", "resourceVersion": "", "namespace": namespace, "name": "", **plain(metadata)}
        named["namespace"] = named["namespace"] or namespace
        try:
            pod = msgspec.convert({"metadata": named, "spec": plain(found.get("spec")), "status": {}}, wire.Pod)
            if not asks_for_gpus(pod, self._resources):
                return None
            facts = pod_facts(pod, self._resources)
            if not facts.ask.containers:
                return None
        except (msgspec.ValidationError, ValueError) as error:
            raise BadReview(f"no pod that can be read: {error}") from error
        return _Pod(facts, frozenset(pod.metadata.annotations or ()) - ANSWERED)

    def _judged(self, pod: "_Pod") -> Review:
        """Raises: NotNow."""
        if reason := self._admission.not_ready():
            raise NotNow(f"{Code.NOT_READY}: {reason}")
        return self._admission.review(pod.facts, pod.keys)

    def _patch(self, found: Json, filled: Mapping[str, str]) -> Iterator[Json]:
        """JSON Patch, in the order in which it is carried out; empty where the pod says all of it already."""
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        before = _filled_before(annotations)
        if filled and not annotations:
            yield {"op": "add", "path": "/metadata/annotations", "value": {}}
        for key, value in filled.items():
            if annotations.get(key) != value:
                yield {"op": "add", "path": _path(key), "value": value}
        for key in sorted(before - filled.keys()):
            yield {"op": "remove", "path": _path(key)}

    def _waits(self, found: Json, delivery: Delivery) -> Iterator[Json]:
        """Where the pod waits, and who binds it. One that names its node does not wait, and cannot be held."""
        spec = found.get("spec") or {}
        if spec.get("nodeName"):
            return
        gates, gate = spec.get("schedulingGates") or [], GATES.get(delivery)
        if gate is not None and {"name": gate} not in gates:
            yield {"op": "add", "path": "/spec/schedulingGates", "value": [*gates, {"name": gate}]}
        asks = delivery is not Delivery.GATE  # what is sent to its node by a patch needs nobody who asks us
        if asks and self._scheduler and spec.get("schedulerName", "") in DEFAULT_SCHEDULERS:
            yield {"op": "add", "path": "/spec/schedulerName", "value": self._scheduler}

    def _elsewhere(self, found: Json, delivery: Delivery) -> list[str]:
        """A pod that another scheduler binds goes past us."""
        spec = found.get("spec") or {}
        named = str(spec.get("schedulerName") or "")
        if node := spec.get("nodeName"):
            return [f"nodeName {quoted(str(node))} goes past Atoll, which cannot tell which GPUs it gets there"]
        if delivery is Delivery.GATE:
            own = named in {self._scheduler, "", *DEFAULT_SCHEDULERS}
            return (
                [] if own else [f"once Atoll has sent it to a node, schedulerName {quoted(named)} must bind it there"]
            )
        if delivery is Delivery.WAITING_ROOM and not self._scheduler:
            why = "was started without --webhook-scheduler, so it cannot tell"
            return [f"waiting room: whether {quoted(named or 'default-scheduler')} asks Atoll is not known; it {why}"]
        if not self._scheduler or named in {self._scheduler, ""}:
            return []
        return [f"schedulerName {quoted(named)} binds this pod without Atoll; {self._scheduler} is the one that asks"]


@dataclass(frozen=True, slots=True)
class _Pod:
    facts: PodFacts
    keys: frozenset[str]


def templates_in(found: Json) -> Iterator[tuple[str, Json]]:
    """(path, template) of whatever has a pod's spec inside: Deployments, Jobs, JobSets, RayClusters and so on."""
    seen = told = 0
    left: list[tuple[str, Any, int]] = [("", found, 0)]
    while left and seen < OBJECTS_MAX and told < TEMPLATES_MAX:
        where, value, depth = left.pop()
        seen += 1
        if depth > DEPTH_MAX:
            continue
        if isinstance(value, dict):
            spec = value.get("spec")
            if depth and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                told += 1
                yield where, value
                continue
            # The last comes first out, and people read from the top.
            left += [(f"{where}.{key}", each, depth + 1) for key, each in reversed(value.items())]
        elif isinstance(value, list):
            left += [(f"{where}[{n}]", each, depth + 1) for n, each in reversed(list(enumerate(value)))]


def refusal(error: Exception) -> bytes:
    """The text of a status that is not 200."""
    return printable(str(error))[:500].encode()


def _decoded(body: bytes) -> Request:
    try:
        call = _CALL.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = str(error).partition("\n")[0][:200]
        raise BadReview(f"the body is no {KIND} of {API_VERSION}: {why}") from error
    if (call.api_version, call.kind) != (API_VERSION, KIND):
        raise BadReview(f"found {quoted(call.kind)} of {quoted(call.api_version)}; wanted is {KIND} of {API_VERSION}")
    return call.request


def _answer(
    request: Request, outcome: str, *, why: str = "", warnings: Collection[str] = (), patch: Collection[Json] = ()
) -> Answer:
    response: Json = {"uid": request.uid, "allowed": not why}
    if why:
        response["status"] = {"code": 422, "reason": "Invalid", "message": printable(why)}
    if warnings:
        response["warnings"] = [shortened(f"atoll: {printable(each)}", WARNING_MAX) for each in warnings][:WARNINGS_MAX]
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(_encode(list(patch))).decode()}
    return Answer(_encode({"apiVersion": API_VERSION, "kind": KIND, "response": response}), outcome)


def _filled_before(annotations: Mapping[str, str]) -> set[str]:
    """What an earlier call, or the pod that this one was copied from, was filled with."""
    return {*filled_keys(annotations), *({RULED} & annotations.keys())}


def _path(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
