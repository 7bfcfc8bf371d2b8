"""kube-scheduler's extender calls: bytes in, one typed call, bytes out.

The outer keys are Go field names (`Pod`, `NodeNames`), the pod inside is ordinary Kubernetes JSON. Filter and bind
carry errors in their answers, which the scheduler shows on the pod; preempt has no place for one, so it raises, for a
status that is not 200.

The body is only a question. What a pod asks is read from it; what pods hold is not, so an `atoll.dev/allocation` in it
says nothing. Filter writes names back by joining text where they came without a JSON escape, hence need none: that and
the typed decoding are what keeps a call over 5,000 names under a millisecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec import asks_for_gpus, pod_facts
from atoll.core.errors import quoted
from atoll.core.facts import PodFacts
from atoll.core.fleet import FilterAnswer
from atoll.core.reasons import Code

NAME_MAX = 253
"""The longest name of a node, namespace or pod; a longer one is no name."""

UNRESOLVABLE = frozenset({Code.INVALID_REQUEST, Code.NO_DOMAIN_LARGE_ENOUGH, Code.NODE_CLOSED, Code.STALE_INVENTORY})
"""Evicting pods cures none of these, so kube-scheduler is told not to look for victims on such nodes."""

Victims = Mapping[str, tuple[str, ...]]
"""Per node the UIDs of the pods to evict."""

T = TypeVar("T")
_encode = msgspec.json.encode
_NULL = b"null"


class Scheduling(Protocol):
    """What is asked of the scheduling service. None of it raises for what a caller can say."""

    def not_ready(self) -> str:
        """Why nothing can be decided now; "" when it can."""
        ...

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer: ...

    async def bind(self, pod_uid: str, namespace: str, name: str, node: str) -> str:
        """Return why the pod was not bound; "" when it was."""
        ...

    def preempt(self, pod: PodFacts, victims: Victims) -> Victims:
        """Return the nodes where evicting helps, each with all that must go."""
        ...


class BadCall(Exception):
    """A body that is no such call; the text is one line for the caller."""


class NotReady(Exception):
    """A call that cannot be answered now, by a verb without a place for errors."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer's bytes, and what it was in a word, for the metrics."""

    body: bytes
    outcome: str
    refused: tuple[tuple[str, int], ...] = ()  # (reason, number of nodes)


class FilterArgs(msgspec.Struct, frozen=True, gc=False):
    pod: wire.Pod = msgspec.field(name="Pod")
    nodes: msgspec.Raw = msgspec.field(name="Nodes", default=msgspec.Raw(_NULL))
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class BindArgs(msgspec.Struct, frozen=True, gc=False):
    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class Victim(msgspec.Struct, frozen=True, omit_defaults=True):
    uid: str = msgspec.field(name="UID")


class MetaVictims(msgspec.Struct, frozen=True):
    pods: list[Victim] | None = msgspec.field(name="Pods", default=None)
    pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptArgs(msgspec.Struct, frozen=True):
    """The form with names only. `NodeNameToVictims` carries whole pods and comes where the scheduler sends nodes."""

    pod: wire.Pod = msgspec.field(name="Pod")
    meta: dict[str, MetaVictims] | None = msgspec.field(name="NodeNameToMetaVictims", default=None)
    full: msgspec.Raw = msgspec.field(name="NodeNameToVictims", default=msgspec.Raw(_NULL))


class PreemptResult(msgspec.Struct, frozen=True):
    meta: dict[str, MetaVictims] = msgspec.field(name="NodeNameToMetaVictims")


_FILTER = msgspec.json.Decoder(FilterArgs)
_BIND = msgspec.json.Decoder(BindArgs)
_PREEMPT = msgspec.json.Decoder(PreemptArgs)


class Extender:
    """Answers calls out of one scheduling service.

    Args:
        resources: names of the GPU resource.
    """

    def __init__(self, scheduling: Scheduling, resources: tuple[str, ...]) -> None:
        self._scheduling = scheduling
        self._resources = resources

    def filter(self, body: bytes) -> Reply:
        try:
            args = _decoded(_FILTER, body, "filter")
            names = _named(args.names, args.nodes)
            if not asks_for_gpus(args.pod, self._resources):
                return Reply(_filter_body(names, (), plain=False), "untouched")
            pod = pod_facts(args.pod, self._resources)
        except (BadCall, ValueError) as error:
            return filter_error(str(error))
        if reason := self._scheduling.not_ready():
            return filter_error(f"{Code.NOT_READY}: {reason}")
        answer = self._scheduling.filter(pod, names)
        return Reply(
            _filter_body(answer.passed, answer.failed, plain=_without_escapes(body)),
            "passed" if answer.passed else "refused",
            tuple((reason, len(group)) for reason, group in answer.failed),
        )

    async def bind(self, body: bytes) -> Reply:
        try:
            args = _decoded(_BIND, body, "bind")
            for key, value in (("PodName", args.name), ("PodNamespace", args.namespace), ("Node", args.node)):
                _check_name(key, value)
            _check_name("PodUID", args.uid)
        except BadCall as error:
            return bind_error(str(error))
        if reason := self._scheduling.not_ready():
            return bind_error(f"{Code.NOT_READY}: {reason}")
        why = await self._scheduling.bind(args.uid, args.namespace, args.name, args.node)
        return bind_error(why, "refused") if why else Reply(b'{"Error":""}', "bound")

    def preempt(self, body: bytes) -> Reply:
        """Answer with the nodes where evicting helps.

        Raises:
            BadCall: the body is no preempt call.
            NotReady: nothing is known yet; kube-scheduler then evicts nobody.
        """
        args = _decoded(_PREEMPT, body, "preempt")
        asked = args.meta
        if asked is None:
            if bytes(args.full) != _NULL:
                raise BadCall(_CACHE_CAPABLE.format("NodeNameToVictims", "NodeNameToMetaVictims"))
            raise BadCall("preempt: NodeNameToMetaVictims is missing")
        if not asks_for_gpus(args.pod, self._resources):
            return Reply(_encode(PreemptResult(asked)), "untouched")
        try:
            pod = pod_facts(args.pod, self._resources)
        except ValueError as error:
            raise BadCall(f"{Code.INVALID_REQUEST}: {error}") from error
        if reason := self._scheduling.not_ready():
            raise NotReady(f"{Code.NOT_READY}: {reason}")
        victims = {node: tuple(victim.uid for victim in meta.pods or ()) for node, meta in asked.items()}
        kept = self._scheduling.preempt(pod, victims)
        answer = {
            node: MetaVictims([Victim(uid) for uid in uids], asked[node].pdb_violations) for node, uids in kept.items()
        }
        return Reply(_encode(PreemptResult(answer)), "kept" if answer else "vetoed")


def filter_error(why: str) -> Reply:
    return Reply(b'{"Error":%b}' % _encode(f"atoll: {why}"), "error")


def bind_error(why: str, outcome: str = "error") -> Reply:
    return Reply(b'{"Error":%b}' % _encode(f"atoll: {why}"), outcome)


_CACHE_CAPABLE = (
    "the call carries whole nodes ({}) where names ({}) are wanted; set nodeCacheCapable: true for Atoll's extender"
)


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes, verb: str) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        found = "nothing" if not body else quoted(body[:80].decode("utf-8", "replace"))
        why = str(error).partition("\n")[0][:200]
        raise BadCall(f"the body of {verb} is not what kube-scheduler sends: {why}; it begins with {found}") from error


def _named(names: list[str] | None, nodes: msgspec.Raw) -> list[str]:
    if names is not None:
        return names
    if bytes(nodes) != _NULL:
        raise BadCall(_CACHE_CAPABLE.format("Nodes", "NodeNames"))
    raise BadCall("the body of filter has neither NodeNames nor Nodes")


def _check_name(key: str, value: str) -> None:
    if not value:
        raise BadCall(f"the body of bind has an empty {key}")
    if len(value) > NAME_MAX or not value.isprintable():
        raise BadCall(f"the body of bind has a {key} that no object can have: {quoted(value)}")


def _without_escapes(body: bytes) -> bool:
    """Whether the names surely hold no JSON escape. Go writes NodeNames last, so what the pod holds is no matter."""
    return body.find(b"\\", max(0, body.find(b'"NodeNames"'))) < 0


def _filter_body(passed: Sequence[str], failed: Sequence[tuple[str, Sequence[str]]], *, plain: bool) -> bytes:
    hopeless = [group for group in failed if group[0].partition(":")[0] in UNRESOLVABLE]
    others = [group for group in failed if group[0].partition(":")[0] not in UNRESOLVABLE]
    names = '["' + '","'.join(passed) + '"]' if plain and passed else _encode(passed).decode()
    text = (
        f'{{"NodeNames":{names},"FailedNodes":{_reasons(others, plain=plain)},'
        f'"FailedAndUnresolvableNodes":{_reasons(hopeless, plain=plain)},"Error":""}}'
    )
    return text.encode()


def _reasons(groups: Sequence[tuple[str, Sequence[str]]], *, plain: bool) -> str:
    """A JSON object: name -> reason."""
    if not plain:
        return _encode({name: reason for reason, names in groups for name in names}).decode()
    parts = []
    for reason, names in groups:
        if names:
            said = '":' + _encode(reason).decode()
            parts.append('"' + f'{said},"'.join(names) + said)
    return "{" + ",".join(parts) + "}"
