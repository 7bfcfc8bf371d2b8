"""Which `GPUNodeConfig` objects hold for a node, and what they say together.

An object without selector and without names holds for every node; with both, either is enough. Those that hold are
merged in the order of their names: a field that a later one sets replaces that of an earlier one, as a whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from atoll.core.facts import NodeConfig, NodeConfigObject, NodeFacts
from atoll.core.selector import unmet

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
    selected = bool(declared.selector) and unmet(declared.selector or (), labels) is None
    return selected or node in declared.node_names
