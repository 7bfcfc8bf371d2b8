"""Objects that a person gives in files: a pod that is not there yet, a policy that is to be tried."""

from collections.abc import Iterator
from typing import Any, TypeVar, get_args

import msgspec

from atoll.adapters.formats.text.documents import Document, documents, items_of
from atoll.adapters.formats.text.objects import text_at
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.kube import wire, wire_kube, wire_policy
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_kube import kube_pod
from atoll.adapters.kube.codec_policy import policy_of
from atoll.adapters.kube.names import API_VERSION
from atoll.adapters.kube.plain import plain
from atoll.core.errors import DumpError, quoted
from atoll.core.facts import PodFacts
from atoll.core.kube_facts import KubePod
from atoll.core.placement_policy import PolicyObject

UID = "given"
"""Of a pod that the API server has not seen."""

T = TypeVar("T", bound=msgspec.Struct)


def pod_in(file: DumpFile, namespace: str, created: str, resources: tuple[str, ...]) -> tuple[PodFacts, KubePod]:
    """The one pod of a manifest, and the same as its scheduler would see it.

    Args:
        namespace: where it says none. created: now, RFC 3339.

    Raises:
        DumpError: it has none, several, or one that makes no sense.
    """
    pods = _of_kind(file, "v1", "Pod")
    if len(pods) != 1:
        raise DumpError(file.name, pods[1].line, 1, found=f"{len(pods)} pods", expected="one")
    value = plain(pods[0].value)
    told = value.get("metadata") or {}
    if not isinstance(told, dict):
        raise DumpError(file.name, pods[0].line, 1, found=quoted(str(told)), expected="metadata with a name")
    metadata = {"namespace": namespace, "name": told.get("generateName", ""), **told}
    metadata |= {"uid": UID, "resourceVersion": "", "creationTimestamp": created}
    whole = {**value, "metadata": metadata, "status": {}}
    if isinstance(spec := value.get("spec"), dict):
        whole["spec"] = _requesting(spec)
    pod = _converted(file, pods[0], whole, wire.Pod)
    try:
        return pod_facts(pod, resources), kube_pod(msgspec.json.decode(msgspec.json.encode(whole), type=wire_kube.Pod))
    except ValueError as error:
        raise _refusal(file, pods[0], error) from None


def _requesting(spec: dict[str, Any]) -> dict[str, Any]:
    """What is limited is requested, where nothing else is, as the API server writes it into a pod."""
    lists = {key: spec[key] for key in ("containers", "initContainers") if isinstance(spec.get(key), list)}
    return {**spec, **{key: [_with_requests(each) for each in listed] for key, listed in lists.items()}}


def _with_requests(container: Any) -> Any:  # noqa: ANN401
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict):
        return container
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not (isinstance(limits, dict) and isinstance(requests, dict)):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def policies_in(file: DumpFile) -> tuple[PolicyObject, ...]:
    """Every `PlacementPolicy` of a manifest, at least one.

    Raises:
        DumpError: it has none, or one that its definition would refuse.
    """
    found = []
    for document in _of_kind(file, API_VERSION, "PlacementPolicy"):
        policy = policy_of(_converted(file, document, document.value, wire_policy.PlacementPolicy))
        if policy.fault:
            raise DumpError(file.name, document.line, 1, found=policy.fault, expected="what the API server takes")
        if wrong := next(_unknown_fields(document.value.get("spec"), wire_policy.Spec, "spec"), ""):
            raise DumpError(file.name, document.line, 1, found=f"a field {wrong}", expected="one that there is")
        found.append(policy)
    return tuple(found)


def _of_kind(file: DumpFile, version: str, kind: str) -> list[Document]:
    found = [item for document in documents(decode(file)) for item in items_of(document)]
    mine = [
        each for each in found if (text_at(each.value, "apiVersion"), text_at(each.value, "kind")) == (version, kind)
    ]
    if not mine:
        kinds = sorted({text_at(each.value, "kind") or "no kind" for each in found})
        others = ", ".join(map(quoted, kinds[:8])) or "nothing"
        raise DumpError(file.name, 0, 0, found=others, expected=f"a {kind} of {version}")
    return mine


def _unknown_fields(value: Any, kind: Any, where: str) -> Iterator[str]:  # noqa: ANN401
    """Fields that the API server would prune with a warning: a typing error would widen a rule in silence."""
    for argument in (kind, *get_args(kind)):
        inner = get_args(argument)
        if isinstance(value, dict) and isinstance(argument, type) and issubclass(argument, msgspec.Struct):
            known = {each.encode_name: each.type for each in msgspec.structs.fields(argument)}
            yield from (f"{where}.{key}" for key in value if key not in known)
            for key, each in value.items():
                yield from _unknown_fields(each, known.get(key), f"{where}.{key}")
        elif isinstance(value, list) and inner:
            for n, each in enumerate(value):
                yield from _unknown_fields(each, inner[0], f"{where}[{n}]")
        elif inner and argument is not kind:
            yield from _unknown_fields(value, argument, where)


def _converted(file: DumpFile, document: Document, value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _refusal(file, document, error) from None


def _refusal(file: DumpFile, document: Document, error: Exception) -> DumpError:
    return DumpError(file.name, document.line, 1, found=str(error), expected="what the API server takes")
