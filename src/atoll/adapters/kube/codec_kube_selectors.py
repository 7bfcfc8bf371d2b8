"""Tolerations, node terms, pod terms and spread constraints, as kube-scheduler resolves them.

It throws a node term away that it cannot parse, so that such a term holds nowhere. A label selector that it cannot
parse fails the pod as a whole: that is a `SelectorError` here.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

from atoll.adapters.kube import wire_kube as wire
from atoll.core.errors import quoted
from atoll.core.kube_facts import NodeTerm, PodTerm, Selector, Spread, Toleration
from atoll.core.selector import Requirement

VALUE_MAX = 63
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_BY_NAME = "metadata.name"
_EVERYBODY: Selector = ()


class SelectorError(ValueError):
    """Something that decides about nodes is written in a way that is not known here."""


def read_tolerations(tolerations: Iterable[wire.Toleration]) -> tuple[Toleration, ...]:
    """Return them.

    Raises:
        SelectorError: one compares numbers, which a cluster may or may not do.
    """
    return _shared_tolerations(tuple(_toleration(each) for each in tolerations))


def _toleration(toleration: wire.Toleration) -> Toleration:
    if toleration.operator not in ("", "Equal", "Exists"):
        raise SelectorError(f"a toleration with operator {quoted(toleration.operator)}")
    any_value = toleration.operator == "Exists"
    return Toleration(intern(toleration.key), toleration.value, intern(toleration.effect), any_value)


@lru_cache(maxsize=4096)
def _shared_tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    return tolerations


# Node terms.


def node_terms(selector: wire.NodeSelector) -> tuple[NodeTerm, ...]:
    """The terms that can hold anywhere. `Gt` and `Lt` are possible here, beside what label selectors know."""
    terms = (_node_term(term) for term in selector.node_selector_terms or ())
    return tuple(term for term in terms if term is not None)


def _node_term(term: wire.NodeTerm) -> NodeTerm | None:
    labels = [_node_requirement(each) for each in term.match_expressions or ()]
    fields = [_name_requirement(each) for each in term.match_fields or ()]
    if not (labels or fields) or None in labels or None in fields:
        return None
    return NodeTerm(tuple(filter(None, labels)), tuple(filter(None, fields)))


def _node_requirement(expression: wire.Expression) -> Requirement | None:
    values = expression.values or ()
    if expression.operator in ("Gt", "Lt"):
        good = len(values) == 1 and _INTEGER.fullmatch(values[0]) is not None
        return Requirement(intern(expression.key), expression.operator, values) if good else None
    return _requirement(expression)


def _name_requirement(expression: wire.Expression) -> Requirement | None:
    values = expression.values or ()
    if expression.key != _BY_NAME or expression.operator not in ("In", "NotIn") or len(values) != 1:
        return None
    return Requirement(_BY_NAME, expression.operator, values)


# Label selectors.


def _requirement(expression: wire.Expression) -> Requirement | None:
    values = expression.values or ()
    match expression.operator:
        case "In" | "NotIn":
            good = bool(values) and all(len(value) <= VALUE_MAX and _VALUE.fullmatch(value) for value in values)
        case "Exists" | "DoesNotExist":
            good = not values
        case _:
            good = False
    if not good:
        return None
    return Requirement(intern(expression.key), intern(expression.operator), tuple(map(intern, values)))


def selector_of(selector: wire.LabelSelector | None) -> Selector:
    """Return it; None selects nothing.

    Raises:
        SelectorError: it cannot be read.
    """
    if selector is None:
        return None
    pairs = sorted((selector.match_labels or {}).items())
    expressions = [wire.Expression(key, "In", (value,)) for key, value in pairs]
    expressions += selector.match_expressions or ()
    requirements = []
    for expression in expressions:
        requirement = _requirement(expression)
        if requirement is None:
            raise SelectorError(f"a label selector on {quoted(expression.key)} that says {quoted(expression.operator)}")
        requirements.append(requirement)
    return tuple(requirements)


# Terms about pods.


def near_terms(terms: Iterable[wire.PodTerm], namespace: str, labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    return tuple(_pod_term(term, namespace, labels) for term in terms)


def far_terms(
    terms: Iterable[wire.PodTerm], namespace: str, labels: Mapping[str, str], *, strict: bool
) -> tuple[PodTerm, ...]:
    """Of a pod that has a node (not `strict`), a term that cannot be read keeps everybody away."""
    read = []
    for term in terms:
        try:
            read.append(_pod_term(term, namespace, labels if strict else None))
        except SelectorError:
            if strict:
                raise
            read.append(_shared_term(PodTerm(intern(term.topology_key), _EVERYBODY, frozenset(), _EVERYBODY)))
    return tuple(read)


def _pod_term(term: wire.PodTerm, namespace: str, labels: Mapping[str, str] | None) -> PodTerm:
    """Args: labels: of the pod itself, with which the API server has narrowed the selector; None: do not look."""
    selector = selector_of(term.label_selector)
    if labels is not None:
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn")):
            for key in keys or ():
                if key in labels and Requirement(key, operator, (labels[key],)) not in (selector or ()):
                    raise SelectorError(f"a matchLabelKeys of {quoted(key)} that the API server has not resolved")
    names = frozenset(map(intern, term.namespaces or ()))
    if not names and term.namespace_selector is None:
        names = frozenset({intern(namespace)})
    return _shared_term(PodTerm(intern(term.topology_key), selector, names, selector_of(term.namespace_selector)))


@lru_cache(maxsize=8192)
def _shared_term(term: PodTerm) -> PodTerm:
    """All pods of a deployment hold the same one."""
    return term


def spread_constraints(constraints: Iterable[wire.SpreadConstraint], labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """Those that must hold; others only sort nodes."""
    return tuple(_spread(each, labels) for each in constraints if each.when_unsatisfiable == "DoNotSchedule")


def _spread(constraint: wire.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    policies = (constraint.node_affinity_policy or "Honor", constraint.node_taints_policy or "Ignore")
    if not set(policies) <= {"Honor", "Ignore"}:
        raise SelectorError(f"a topology spread constraint with policy {quoted(policies[0])} or {quoted(policies[1])}")
    selector = selector_of(constraint.label_selector)
    for key in constraint.match_label_keys or ():
        if key not in labels or selector is None:
            continue
        wanted = Requirement(key, "In", (labels[key],))
        if wanted in selector:
            continue
        # Newer API servers have written it into the selector. Where they have written another value, labels were
        # changed since, and versions of kube-scheduler differ.
        if any(each.key == key for each in selector):
            raise SelectorError(f"a matchLabelKeys of {quoted(key)} beside a selector of that label")
        selector = (*selector, wanted)
    return Spread(
        key=intern(constraint.topology_key),
        skew_max=constraint.max_skew,
        pods=selector,
        domains_min=1 if constraint.min_domains is None else constraint.min_domains,
        by_affinity=policies[0] == "Honor",
        by_taints=policies[1] == "Honor",
    )
