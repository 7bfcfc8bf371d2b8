"""What is said of a pod, or of a template of pods, when it is written: what is filled in, refused and warned of.

The rule that holds is written into the pod where it does not say so itself, with the rule's name beside it. To the
scheduler's side that is the pod's word, and stays when the policy changes, unless a rule fixes something else; a pod
that is written once more, or a copy, is ruled anew.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache

from atoll.core.asking import ASKED, GANG_SIZE, PARTITION, PER_CONTAINER, POLICY, RULED, SCOPE, ruled_by
from atoll.core.assess import assess
from atoll.core.delivery import Delivery
from atoll.core.errors import quoted
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.resolving import Ruling
from atoll.core.rule import rule_for
from atoll.core.scope import Scope
from atoll.core.shape import Shape
from atoll.core.verdict import Refusal

DOMAIN = "atoll.dev"
KNOWN = (*ASKED, GANG_SIZE)
NEAR, DOMAIN_MAX = 0.7, 16
"""How like our domain another one must be to be taken for a typing error."""
KEYS_TOLD_MAX, KEYS_LOOKED_AT_MAX = 8, 64
"""Annotations that are told of, and that are looked at for what they may have been meant for."""
SHAPES_ASKED_MAX = 64
"""Node models that are looked at; a cluster has a handful."""


@dataclass(frozen=True, slots=True)
class Review:
    """What is said of one pod.

    Attributes:
        refused: why it may not be written, "" when it may.
        filled: annotations to be set: what holds for it, where it does not say so itself, and by which rule.
        delivery: how the decision will reach it, hence what it is to wait behind.
        changes: whether it may be changed at all; nothing is where no pool is enforced, or it cannot be told yet.
    """

    refused: str = ""
    warnings: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = Delivery.EXTENDER
    changes: bool = False


def review(
    request: GpuRequest | InvalidRequest,
    ruling: Ruling,
    *,
    keys: Iterable[str],
    own: Collection[str],
    shapes: Iterable[Shape],
    enforced: bool,
    sends: bool,
    alone: bool,
) -> Review:
    """Judge a pod that asks for GPUs.

    Args:
        keys: of all its annotations, but for those that Atoll writes. own: those of `ASKED` that are its own words.
        shapes: of the nodes that there are. enforced: whether some pool is; else nothing is refused.
        alone: whether it is placed by itself, and not with a gang.
        sends: whether pods are sent to their nodes by a patch where their rule says so.
    """
    wrong = unknown_keys(keys)
    if isinstance(request, InvalidRequest) and request.code is Code.INVALID_REQUEST:
        wrong.append(request.message)
    if wrong and enforced:
        return Review(refused=f"{Code.INVALID_REQUEST}: {'; '.join(wrong)}")
    told = [*wrong, *near_domains(keys)]
    if alone and GANG_SIZE in keys:
        told.append(f"{GANG_SIZE}: the pod names no group that Atoll knows, so it is placed alone")
    if isinstance(request, InvalidRequest):
        return Review(warnings=tuple(told))  # where it cannot be told yet, the scheduler's side will
    if never := never_fits(request, shapes):
        told.append(never)
    if not enforced:
        return Review(warnings=tuple(told))
    if ruling.defaults.delivery is Delivery.GATE and not sends:
        told.append("delivery Gate needs `atoll serve --gate`, and it runs without: the pod would wait for ever")
    filled = _filled(request, ruling, own)
    return Review(warnings=tuple(told), filled=filled, delivery=ruling.defaults.delivery, changes=True)


def unknown_keys(keys: Iterable[str]) -> list[str]:
    """What is said under our domain and means nothing, with what may be meant."""
    mine = sorted(key for key in keys if key.startswith(f"{DOMAIN}/") and key not in {*ASKED, RULED, GANG_SIZE})
    return [f"{quoted(key)} is no annotation of Atoll{_hint(key)}" for key in mine[:KEYS_TOLD_MAX]]


def near_domains(keys: Iterable[str]) -> list[str]:
    """Annotations that look as if they were meant for us."""
    told: list[str] = []
    for key in sorted(keys)[:KEYS_LOOKED_AT_MAX]:
        domain, slash, name = key.partition("/")
        if not slash or domain == DOMAIN or not _is_near(domain):
            continue
        if meant := _closest(name):
            told.append(f"{quoted(key)} says nothing to Atoll; did you mean {meant}?")
    return told[:KEYS_TOLD_MAX]


def never_fits(request: GpuRequest, shapes: Iterable[Shape]) -> str:
    """Why no node that there is can ever serve it, with sizes and scopes that would do; "" when some can."""
    models = tuple(dict.fromkeys(shapes))[:SHAPES_ASKED_MAX]
    if not models or any(_might(shape, request) for shape in models):
        return ""
    gpus, scopes = request.gpus, request.scopes
    sizes = [size for size in range(1, gpus) if any(_has(shape, size, scopes, request.partition) for shape in models)]
    wider = [scope for scope in Scope if scope not in scopes and any(_has(m, gpus, (scope,), None) for m in models)]
    where = f"partition {request.partition}" if request.partition else f"one {' or '.join(scopes)}"
    helps = [f"{sizes[-1]} GPUs would fit there"] if sizes else []
    if wider:
        helps.append(f"{gpus} GPUs fit {'scope' if len(wider) == 1 else 'scopes'} {', '.join(wider)}")
    return f"no node can ever give {gpus} GPUs of {where}; {', '.join(helps) or 'no size and no scope would do'}"


def _filled(request: GpuRequest, ruling: Ruling, own: Collection[str]) -> dict[str, str]:
    if not ruling.policy:
        return {}
    holds = {POLICY: str(request.promised), SCOPE: ",".join(request.scopes)}
    if request.per_container and ruling.defaults.policy is None:
        del holds[POLICY]  # said of the pod it would hold for each container, and it is each one's size that decides
    if request.partition is not None:
        del holds[SCOPE]
        holds[PARTITION] = request.partition
    if request.per_container:
        holds[PER_CONTAINER] = "true"
    # Not the class: rules are chosen by what a pod itself says of it.
    filled = {key: value for key, value in holds.items() if key not in own}
    return {**filled, RULED: ruled_by(ruling.policy, ruling.rule, filled)} if filled else {}


@lru_cache(maxsize=4096)
def _might(shape: Shape, request: GpuRequest) -> bool:
    """Whether an empty node of that model is not refused for ever."""
    empty = NodeState(shape, count=shape.count, count_free=shape.count, free=shape.everything, enforced=True)
    verdict = assess(empty, request)
    return request.gpus <= shape.count and not (
        isinstance(verdict, Refusal) and verdict.code is Code.NO_DOMAIN_LARGE_ENOUGH
    )


def _has(shape: Shape, size: int, scopes: tuple[Scope, ...], partition: str | None) -> bool:
    return size <= shape.count and rule_for(shape, size, scopes, partition).ever


@lru_cache(maxsize=1024)
def _is_near(domain: str) -> bool:
    return len(domain) <= DOMAIN_MAX and bool(get_close_matches(domain, [DOMAIN], cutoff=NEAR))


def _hint(key: str) -> str:
    meant = _closest(key.partition("/")[2])
    return f"; did you mean {meant}?" if meant else f"; there are {', '.join(KNOWN)}"


def _closest(name: str) -> str:
    names = {each.partition("/")[2]: each for each in KNOWN}
    found = get_close_matches(name.lower(), names, n=1)
    return names[found[0]] if found else ""
