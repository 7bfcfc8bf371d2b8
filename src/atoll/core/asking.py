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

from atoll.core.delivery import Delivery
from atoll.core.errors import quoted
from atoll.core.placement_policy import Setting
from atoll.core.request import (
    CONTAINERS_MAX,
    ContainerAsk,
    GpuRequest,
    InvalidRequest,
    PodAsk,
    Policy,
    ServiceClass,
    gpus_of,
)
from atoll.core.scope import DEFAULT_SCOPES, Scope

POLICY = "atoll.dev/policy"
SCOPE = "atoll.dev/scope"
PARTITION = "atoll.dev/partition"
PER_CONTAINER = "atoll.dev/per-container"
SERVICE_CLASS = "atoll.dev/service-class"
ASKED = (POLICY, SCOPE, PARTITION, PER_CONTAINER, SERVICE_CLASS)
GANG_SIZE = "atoll.dev/gang-size"
"""How many pods with GPUs must be placed at once, where nobody else says, or says something else."""

RULED = "atoll.dev/ruled"
"""By which rule some of these were written into the pod when it was made, and what:
`POLICY/RULE: policy=Restricted;scope=NUMANode,Socket`."""

KEEP_AFTER_S = 600
"""How long others may be served before an older pod, where no rule says."""

GANG_SIZE_MAX = 65_535

VALUE_MAX = 256
"""Characters of an annotation that are read; every legal list of scopes is far shorter."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a pod, as far as it does not say, or may not.

    Attributes:
        restricted_from: without a policy, so many GPUs and more are Restricted, fewer are Preferred.
        policy, partition, service_class: None = nothing is said.
        degrade_after_s: how long a Preferred pod waits for a whole domain first.
        delivery, keep_after_s, recreate: as in `Settings`.
        fixed: what a pod may not say otherwise.
        source: whose these are, for people.
    """

    restricted_from: int = 4
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES
    policy: Policy | None = None
    partition: str | None = None
    per_container: bool = False
    service_class: ServiceClass | None = None
    degrade_after_s: int = 0
    delivery: Delivery = Delivery.EXTENDER
    keep_after_s: int = KEEP_AFTER_S
    recreate: bool = False
    fixed: frozenset[Setting] = frozenset()
    source: str = ""


BUILT_IN = Defaults()


def filled_keys(annotations: Mapping[str, str]) -> frozenset[str]:
    """The annotations that a rule wrote and nobody has changed since, by the pod's own account.

    They hold like the pod's own words as long as no rule fixes something else, and yield then; so it wins nobody
    anything to pretend.
    """
    told = annotations.get(RULED, "").rpartition(": ")[2].split(";")
    written = dict(entry.split("=", 1) for entry in told if "=" in entry)
    return frozenset(key for key in ASKED if annotations.get(key, "") == written.get(key.partition("/")[2]))


def ruled_by(policy: str, rule: str, filled: Mapping[str, str]) -> str:
    """What says so: the value of `RULED`."""
    return f"{policy}/{rule}: " + ";".join(f"{key.partition('/')[2]}={value}" for key, value in filled.items())


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


def count_in(text: str, most: int) -> int:
    """The number that it is, 0 where it is none, or has more digits than `most`."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else 0


class _WrongValueError(Exception):
    """Leaves the reading of annotations at the first wrong one; never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Said:
    """The pod's own words; None = it does not say."""

    policy: Policy | None
    scopes: tuple[Scope, ...] | None
    partition: str | None
    per_container: bool | None
    service_class: ServiceClass | None


def _request(ask: PodAsk, defaults: Defaults) -> GpuRequest:
    words = _Words(ask.annotations)
    policy = words.member(POLICY, Policy)
    service_class = words.member(SERVICE_CLASS, ServiceClass)
    per_container = words.flag(PER_CONTAINER)
    scopes = words.scopes(SCOPE)
    words.check_count(GANG_SIZE, GANG_SIZE_MAX)
    said = _Said(policy, scopes, words.text(PARTITION), per_container, service_class)
    filled = filled_keys(ask.annotations)
    said = _held_to(said, _settled(defaults, ask.containers), filled)
    said = _yielding(said, defaults, filled)
    scopes, partition = _where(said, defaults)
    policy = _how(said, defaults)
    service_class = said.service_class or defaults.service_class
    each = defaults.per_container if said.per_container is None else said.per_container

    def policy_for(gpus: int) -> Policy:
        if policy is not None:
            return policy
        return Policy.RESTRICTED if gpus >= defaults.restricted_from else Policy.PREFERRED

    request = GpuRequest(
        containers=ask.containers,
        policy=Policy.RESTRICTED,
        scopes=scopes,
        partition=partition,
        per_container=each,
        container_policies=tuple(policy_for(container.gpus) for container in ask.containers) if each else (),
        service_class=service_class,
    )
    request = replace(request, policy=policy_for(request.gpus))
    preferred = Policy.PREFERRED in (request.container_policies or (request.policy,))
    return replace(request, degrade_after_s=defaults.degrade_after_s) if preferred else request


def _settled(defaults: Defaults, containers: tuple[ContainerAsk, ...]) -> Defaults:
    """With the policy that comes of them for a pod of this size, so that it may say what holds anyway."""
    if defaults.policy is not None or Setting.POLICY not in defaults.fixed:
        return defaults
    strict = gpus_of(containers) >= defaults.restricted_from or defaults.service_class is ServiceClass.LATENCY
    return replace(defaults, policy=Policy.RESTRICTED if strict else Policy.PREFERRED)


def _held_to(said: _Said, defaults: Defaults, filled: frozenset[str]) -> _Said:
    """Refuse what the pod says otherwise than it is fixed for it; what an earlier rule wrote there is dropped."""
    fixed = defaults.fixed
    if defaults.partition is not None and Setting.PARTITION in fixed:
        fixed |= {Setting.SCOPE}
    scopes = (Scope.PARTITION,) if defaults.partition else defaults.scopes
    for setting, key, name, wanted in (
        (Setting.POLICY, POLICY, "policy", defaults.policy),
        (Setting.SCOPE, SCOPE, "scopes", scopes),
        (Setting.PARTITION, PARTITION, "partition", defaults.partition),
        (Setting.PER_CONTAINER, PER_CONTAINER, "per_container", defaults.per_container),
        (Setting.SERVICE_CLASS, SERVICE_CLASS, "service_class", defaults.service_class),
    ):
        found = getattr(said, name)
        if setting in fixed and found not in (None, wanted):
            if key in filled:
                said = replace(said, **{name: None})
                continue
            fixes = "leaves that to nobody" if wanted is None else f"fixes it to {_word(wanted)}"
            raise _WrongValueError(
                f"{key}: found {quoted(_word(found))}; {defaults.source} {fixes}; drop the annotation"
            )
    return said


def _yielding(said: _Said, defaults: Defaults, filled: frozenset[str]) -> _Said:
    """Without what an earlier rule wrote that goes neither with the pod's own words nor with what holds now."""
    latency = ServiceClass.LATENCY is (said.service_class or defaults.service_class)
    if POLICY in filled and latency:
        said = replace(said, policy=None)
    scoped = said.scopes is not None and SCOPE not in filled and said.scopes != (Scope.PARTITION,)
    if PARTITION in filled and (scoped or Setting.SCOPE in defaults.fixed):
        said = replace(said, partition=None)
    if SCOPE in filled and said.partition is not None:
        said = replace(said, scopes=None)
    return said


def _where(said: _Said, defaults: Defaults) -> tuple[tuple[Scope, ...], str | None]:
    """Scopes and partition. A pod that names a scope wants no partition that was meant for those that do not say."""
    if said.partition is not None and said.scopes not in (None, (Scope.PARTITION,)):
        found = quoted(_word(said.scopes))
        raise _WrongValueError(f"{PARTITION} implies {SCOPE} Partition, found {found}; drop one of the two")
    partition = said.partition
    if partition is None and said.scopes in (None, (Scope.PARTITION,)):
        partition = defaults.partition
    scopes_fixed = Setting.SCOPE in defaults.fixed and defaults.partition is None
    if said.partition is not None and scopes_fixed and Scope.PARTITION not in defaults.scopes:
        fixes = f"{defaults.source} fixes {SCOPE} to {_word(defaults.scopes)}"
        raise _WrongValueError(f"{PARTITION}: found {quoted(said.partition)}; {fixes}; drop the annotation")
    if partition is not None:
        return (Scope.PARTITION,), partition
    return said.scopes or defaults.scopes, None


def _how(said: _Said, defaults: Defaults) -> Policy | None:
    """The policy, None where the size decides. Class latency means Restricted, whoever names it; a pod that names it is
    nearer to itself than what is said of the policy alone."""
    latency = ServiceClass.LATENCY
    if latency is not (said.service_class or defaults.service_class):
        return said.policy or defaults.policy
    if said.policy is Policy.PREFERRED:
        whose = "" if said.service_class else f", which {defaults.source} sets,"
        raise _WrongValueError(
            f"{SERVICE_CLASS} latency{whose} means {POLICY} Restricted, found Preferred; drop one of the two"
        )
    if said.policy is None and defaults.policy is Policy.PREFERRED and Setting.POLICY in defaults.fixed:
        raise _WrongValueError(
            f"{SERVICE_CLASS} latency means {POLICY} Restricted, and {defaults.source} fixes it to Preferred; "
            "ask for another class"
        )
    return Policy.RESTRICTED


def _word(value: object) -> str:
    """As an annotation has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


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

    def flag(self, key: str) -> bool | None:
        value = self.text(key)
        if value not in (None, "true", "false"):
            raise _WrongValueError(f'{key}: found {quoted(value or "")}; legal are "true", "false"')
        return None if value is None else value == "true"

    def check_count(self, key: str, most: int) -> None:
        value = self.text(key)
        if value is not None and not 1 <= count_in(value, most) <= most:
            raise _WrongValueError(f"{key}: found {quoted(value or '')}; legal is a number from 1 to {most}")

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
