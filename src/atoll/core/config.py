"""Which `GPUNodeConfig` objects hold for a node, and what they say together.

An object without selector and without names holds for every node; with both, either is enough. Those that hold are
merged in the order of their names: a field that a later one sets replaces that of an earlier one, as a whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from atoll.core.facts import NodeConfig, NodeConfigObject, NodeFacts, Requirement

DEFAULT_CONFIG = NodeConfig()
MERGED_FIELDS = tuple(field.name for field in fields(NodeConfig))


def config_of(node: NodeFacts, objects: Iterable[NodeConfigObject]) -> NodeConfig:
    """What people declared for this node; the default where nobody did."""
    merged = DEFAULT_CONFIG
    labels = dict(node.labels)
    for declared in sorted(objects, key=lambda declared: declared.name):
        if _holds(declared, node.name, labels):
            for name in MERGED_FIELDS:
                value = getattr(declared, name)
                if value is not None:
                    merged = replace(merged, **{name: value})
    return merged


def _holds(declared: NodeConfigObject, node: str, labels: Mapping[str, str]) -> bool:
    if not declared.selector and not declared.node_names:
        return True
    selected = bool(declared.selector) and all(_meets(term, labels) for term in declared.selector or ())
    return selected or node in declared.node_names


def _meets(term: Requirement, labels: Mapping[str, str]) -> bool:
    """One term, as Kubernetes reads it: NotIn also holds where the key is absent."""
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return labels.get(term.key) not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
        case _:
            # An operator that nobody knows selects nothing: a switch that is not understood must not be thrown.
            return False
