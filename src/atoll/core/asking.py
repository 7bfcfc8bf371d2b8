"""From the pod's own words to a request: annotations read once, defaults applied, anything doubtful refused.

A wrong value never counts as "no policy": the pod asked for something, and guessing it away would break a promise.
What Atoll itself writes (`atoll.dev/allocation`) is not read here at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from atoll.core.errors import quoted
from atoll.core.request import CONTAINERS_MAX, ContainerAsk, GpuRequest, InvalidRequest, PodAsk, Policy, ServiceClass
from atoll.core.scope import DEFAULT_SCOPES, Scope

POLICY = "atoll.dev/policy"
SCOPE = "atoll.dev/scope"
PARTITION = "atoll.dev/partition"
PER_CONTAINER = "atoll.dev/per-container"
SERVICE_CLASS = "atoll.dev/service-class"

VALUE_MAX = 256
"""Characters of an annotation that are read; every legal list of scopes is far shorter."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for pods that do not say: `restricted_from` GPUs and more are Restricted, fewer are Preferred."""

    restricted_from: int = 4
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES


BUILT_IN = Defaults()


def request_of(ask: PodAsk, defaults: Defaults = BUILT_IN) -> GpuRequest | InvalidRequest | None:
    """What the pod asks for; None when it asks for no GPU."""
    containers = tuple(container for container in ask.containers if container.gpus > 0)
    if not containers:
        return None
    if len(containers) > CONTAINERS_MAX:
        return InvalidRequest(f"{len(containers)} containers ask for GPUs, at most {CONTAINERS_MAX} can; join some")
    found = _remembered(containers, tuple(ask.annotations.items()), defaults)
    return replace(found, other_devices=True) if ask.other_devices and isinstance(found, GpuRequest) else found


@lru_cache(maxsize=512)
def _remembered(
    containers: tuple[ContainerAsk, ...], words: tuple[tuple[str, str], ...], defaults: Defaults
) -> GpuRequest | InvalidRequest:
    """Pods come in series that say the same, and filter asks about each several times."""
    try:
        return _request(PodAsk(containers, dict(words)), defaults)
    except _WrongValueError as wrong:
        return InvalidRequest(str(wrong))


class _WrongValueError(Exception):
    """Leaves the reading of annotations at the first wrong one; never leaves this module."""


def _request(ask: PodAsk, defaults: Defaults) -> GpuRequest:
    words = _Words(ask.annotations)
    policy = words.member(POLICY, Policy)
    service_class = words.member(SERVICE_CLASS, ServiceClass)
    per_container = words.flag(PER_CONTAINER)
    scopes = words.scopes(SCOPE)
    partition = words.text(PARTITION)
    if partition is not None and scopes not in (None, (Scope.PARTITION,)):
        raise _WrongValueError(
            f"{PARTITION} implies {SCOPE} Partition, found {quoted(ask.annotations[SCOPE])}; drop one of the two"
        )
    if service_class is ServiceClass.LATENCY and policy is Policy.PREFERRED:
        raise _WrongValueError(
            f"{SERVICE_CLASS} latency means {POLICY} Restricted, found Preferred; drop one of the two"
        )

    def policy_for(gpus: int) -> Policy:
        if policy is not None:
            return policy
        strict = gpus >= defaults.restricted_from or service_class is ServiceClass.LATENCY
        return Policy.RESTRICTED if strict else Policy.PREFERRED

    if partition is not None:
        scopes = (Scope.PARTITION,)
    request = GpuRequest(
        containers=ask.containers,
        policy=Policy.RESTRICTED,
        scopes=scopes or defaults.scopes,
        partition=partition,
        per_container=per_container,
        container_policies=tuple(policy_for(container.gpus) for container in ask.containers) if per_container else (),
        service_class=service_class,
    )
    return replace(request, policy=policy_for(request.gpus))


_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class _Words:
    """A pod's annotations, read with suspicion: each reader gives a value, None when absent, or raises."""

    annotations: Mapping[str, str]

    def text(self, key: str) -> str | None:
        value = self.annotations.get(key)
        if value is None:
            return None
        if not value.strip():
            raise _WrongValueError(f"{key}: found an empty value; name one or drop the annotation")
        if len(value) > VALUE_MAX:
            raise _WrongValueError(f"{key}: found {len(value)} characters, at most {VALUE_MAX} are read")
        return value

    def member(self, key: str, words: type[_Word]) -> _Word | None:
        value = self.text(key)
        return None if value is None else _member(key, value, words)

    def flag(self, key: str) -> bool:
        value = self.text(key)
        if value not in (None, "true", "false"):
            raise _WrongValueError(f'{key}: found {quoted(value or "")}; legal are "true", "false"')
        return value == "true"

    def scopes(self, key: str) -> tuple[Scope, ...] | None:
        value = self.text(key)
        if value is None:
            return None
        scopes = tuple(_member(key, word.strip(), Scope) for word in value.split(","))
        ordered = tuple(scope for scope in Scope if scope in scopes)
        if len(ordered) < len(scopes):
            raise _WrongValueError(
                f"{key}: found {quoted(value)}, which names a scope twice; legal is {_list(ordered)}"
            )
        if ordered != scopes:
            raise _WrongValueError(f"{key}: found {quoted(value)}; a list runs from narrow to wide: {_list(ordered)}")
        return scopes


def _member(key: str, value: str, words: type[_Word]) -> _Word:
    try:
        return words(value)
    except ValueError:
        spelt = {word.lower(): word for word in words}
        near = get_close_matches(value.lower(), spelt, n=1)
        hint = f"; did you mean {spelt[near[0]]}?" if near else ""
        legal = ", ".join(words)
        raise _WrongValueError(f"{key}: found {quoted(value)}; legal are {legal}{hint}") from None


def _list(scopes: Iterable[Scope]) -> str:
    return quoted(",".join(scopes))
