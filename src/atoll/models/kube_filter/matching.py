"""Selectors of pods and terms of nodes, as kube-scheduler reads them."""

import re
from collections.abc import Mapping

from atoll.core.kube_facts import NodeTerm, Selector
from atoll.core.selector import Requirement, meets

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """None selects nothing, the empty selector everything."""
    if selector is None:
        return False
    return all(meets(requirement, labels) for requirement in selector)


def holds_one(terms: tuple[NodeTerm, ...], name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms holds for a node. Of none, none does."""
    return any(_holds(term, name, labels) for term in terms)


def _holds(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.labels and not term.fields:
        return False
    if not all(_node_meets(requirement, labels) for requirement in term.labels):
        return False
    return all(_is_named(requirement, name) for requirement in term.fields)


def _is_named(requirement: Requirement, name: str) -> bool:
    return (name in requirement.values) is (requirement.operator == "In")


def _node_meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case "Gt" | "Lt":
            # What is no number is neither larger nor smaller.
            found, bound = _integer(labels.get(requirement.key)), _integer(requirement.values[0])
            if found is None or bound is None:
                return False
            return found > bound if requirement.operator == "Gt" else found < bound
        case _:
            return meets(requirement, labels)


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _SMALLEST <= number <= _LARGEST else None
