"""Which rule of which `PlacementPolicy` holds for a pod, and what that comes to.

Every pod has exactly one ruling: the first rule that it meets, in the order of the policies, or what is built in.
Policies in shadow are passed over, and what they would have ruled is told beside it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atoll.core.asking import BUILT_IN, PARTITION, SERVICE_CLASS, Defaults, request_of
from atoll.core.errors import printable, quoted
from atoll.core.facts import PodFacts
from atoll.core.placement_policy import EVERY_SETTING, Limit, PlacementPolicy, PolicyRule, Who
from atoll.core.request import GpuRequest, InvalidRequest, gpus_of
from atoll.core.scope import Scope
from atoll.core.selector import Requirement, unmet

NAMES_TOLD_MAX = 5


@dataclass(frozen=True, slots=True)
class Considered:
    """One rule that was looked at. `unmet` is why it does not hold, "" for the one that does."""

    policy: str
    rule: str
    unmet: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """What holds for one pod.

    Attributes:
        policy, rule: names; "" where what is built in holds.
        shadow: (policy, rule) that would hold instead if no policy was in shadow, None where it is the same.
    """

    defaults: Defaults
    policy: str = ""
    rule: str = ""
    shadow: tuple[str, str] | None = None

    def __str__(self) -> str:
        return self.defaults.source or "built in"


def in_order(policies: Iterable[PlacementPolicy]) -> tuple[PlacementPolicy, ...]:
    """As they are asked: the higher priority first, then by name."""
    return tuple(sorted(policies, key=lambda policy: (-policy.spec.priority, policy.name)))


def resolve(
    pod: PodFacts, namespace: Mapping[str, str], policies: Sequence[PlacementPolicy], built_in: Defaults = BUILT_IN
) -> Ruling:
    """The one ruling for a pod.

    Args:
        namespace: its labels. policies: in order.
    """
    met = [(policy, rule) for policy, rule, why in _looked_at(pod, namespace, policies) if not why]
    if not met:
        return Ruling(built_in)
    (first, its_rule), (last, rule) = met[0], met[-1]
    shadow = (first.name, its_rule.name) if first.shadow else None
    if last.shadow:
        return Ruling(built_in, shadow=shadow)
    return Ruling(_defaults(last.name, rule, built_in), last.name, rule.name, shadow)


def considered(
    pod: PodFacts, namespace: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> Iterator[Considered]:
    """Every rule that is looked at, in order, up to the one that holds."""
    for policy, rule, why in _looked_at(pod, namespace, policies):
        yield Considered(policy.name, rule.name, why or ("its policy is in shadow" if policy.shadow else ""))


def _looked_at(
    pod: PodFacts, namespace: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> Iterator[tuple[PlacementPolicy, PolicyRule, str]]:
    """(policy, rule, what of it the pod does not meet), up to the first that it meets of a policy that decides."""
    for policy in policies:
        for rule in policy.spec.rules:
            why = unmet_by(rule.who, pod, namespace)
            yield policy, rule, why
            if not why:
                break
        else:
            continue
        if not policy.shadow:
            return


def request_under(
    ruling: Ruling, pod: PodFacts, namespace: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> GpuRequest | InvalidRequest | None:
    """What the pod asks for under its ruling, or why it may not; None when it asks for no GPU."""
    request = request_of(pod.ask, ruling.defaults)
    if isinstance(request, GpuRequest):
        why = _beyond_limits(request, pod, namespace, policies)
        if why:
            return InvalidRequest(why)
    return request


def unmet_by(who: Who, pod: PodFacts, namespace: Mapping[str, str]) -> str:
    """What of it the pod does not meet, for people; "" when it meets all."""
    gpus = gpus_of(pod.ask.containers) if who.gpus_min or who.gpus_max else 0
    if who.gpus_min and gpus < who.gpus_min:
        return f"{gpus} GPUs, it is for {who.gpus_min} and more"
    if who.gpus_max and gpus > who.gpus_max:
        return f"{gpus} GPUs, it is for {who.gpus_max} and fewer"
    for terms, labels, whose in (
        (who.namespaces, namespace, f"namespace {pod.namespace}"),
        (who.pods, pod.origin.labels, "the pod"),
        (who.nodes, pod.origin.nodes, "the pod's node selector"),
    ):
        if terms and (missing := unmet(terms, found := dict(labels))):
            return _not_met(missing, found, whose)
    for wanted, own, what in (
        (who.queues, pod.origin.queue, "queue"),
        (who.priority_classes, pod.origin.priority_class, "PriorityClass"),
        (who.service_classes, pod.ask.annotations.get(SERVICE_CLASS, ""), "service class"),
    ):
        if wanted and own not in wanted:
            return f"{what} {quoted(own) if own else 'none'}, it is for {_list(wanted)}"
    return ""


def _not_met(term: Requirement, labels: Mapping[str, str], whose: str) -> str:
    found = printable(f"{term.key}={labels[term.key]}") if term.key in labels else f"no {term.key}"
    return f"{whose} has {found}, it is for {term}"


@lru_cache(maxsize=1024)
def _defaults(policy: str, rule: PolicyRule, built_in: Defaults) -> Defaults:
    said = rule.settings
    return Defaults(
        restricted_from=built_in.restricted_from,
        scopes=said.scopes or built_in.scopes,
        policy=said.policy,
        partition=said.partition,
        per_container=bool(said.per_container),
        service_class=said.service_class,
        degrade_after_s=said.degrade_after_s or 0,
        delivery=said.delivery or built_in.delivery,
        keep_after_s=built_in.keep_after_s if said.keep_after_s is None else said.keep_after_s,
        recreate=bool(said.recreate),
        fixed=EVERY_SETTING - rule.may_override,
        source=f"PlacementPolicy {policy}, rule {rule.name}",
    )


def _beyond_limits(
    request: GpuRequest, pod: PodFacts, namespace: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> str:
    """Why the pod may not ask for that partition or class; "" when it may."""
    limits = [(policy.name, limit) for policy in policies if not policy.shadow for limit in policy.spec.limits]
    if not limits:
        return ""
    wanted = [(PARTITION, request.partition), (SERVICE_CLASS, request.service_class)]
    if request.partition is None and Scope.PARTITION in request.scopes:
        # Whoever names none may be given any of them.
        wanted += [(PARTITION, name) for _, limit in limits for name in limit.partitions]
    for key, name in dict.fromkeys(wanted):
        naming = [(policy, limit) for policy, limit in limits if name in _named(limit, key)]
        refused = [(policy, unmet_by(limit.who, pod, namespace)) for policy, limit in naming]
        if refused and all(why for _, why in refused):
            reasons = "; ".join(f"PlacementPolicy {policy}: {why}" for policy, why in refused[:NAMES_TOLD_MAX])
            help_ = "ask for another" if request.partition or key == SERVICE_CLASS else f"name one in {PARTITION}"
            return f"{key} {name} is not for this pod ({reasons}); {help_}"
    return ""


def _named(limit: Limit, key: str) -> tuple[str, ...]:
    return limit.partitions if key == PARTITION else limit.service_classes


def _list(names: Sequence[str]) -> str:
    more = len(names) - NAMES_TOLD_MAX
    return ", ".join(map(printable, names[:NAMES_TOLD_MAX])) + (f" and {more} more" if more > 0 else "")
