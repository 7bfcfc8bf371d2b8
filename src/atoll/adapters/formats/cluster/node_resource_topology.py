"""NodeResourceTopology: how much of each resource every NUMA zone of a node has, as counts without device names.

NFD's topology-updater and the resource-topology-exporter write it. v1alpha1 tells the Topology Manager's policy as one
word (SingleNUMANodePodLevel), v1alpha2 tells it in attributes too. A resource that a zone does not list is none there.
"""

import re
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, list_at, text_at, text_of, whole_at
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, KubeletPolicies, Reading, Remark, Source, Zone

ZONES_MAX = 1_024
RESOURCES_MAX = 1_024

_GROUP = "topology.node.k8s.io/"
_POLICY = {
    "none": "none",
    "besteffort": "best-effort",
    "restricted": "restricted",
    "singlenumanode": "single-numa-node",
}
_WORD = re.compile(r"(none|besteffort|restricted|singlenumanode)(container|pod)?(?:level)?")


def recognises(value: Value) -> bool:
    return at(value, "kind") == "NodeResourceTopology" or text_at(value, "apiVersion").startswith(_GROUP)


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read one object.

    Raises:
        DumpError: it has no name, a zone has none, or it has more zones than a machine.
    """
    node = text_at(value, "metadata", "name")
    entries = list_at(value, "zones")
    if not node or len(entries) > ZONES_MAX:
        found = f"{len(entries)} zones" if node else "no metadata.name"
        raise DumpError(name, line, 1, found=found, expected=f"a NodeResourceTopology with at most {ZONES_MAX} zones")
    zones: list[Zone] = []
    others: dict[str, str] = {}
    costs: dict[str, dict[str, int | None]] = {}
    for number, entry in enumerate(entries, 1):
        label, kind = text_at(entry, "name"), text_at(entry, "type")
        if not label:
            raise DumpError(name, line, 1, found=f"zone {number} without a name", expected="a name such as node-0")
        if told := _costs(entry):
            costs[label] = told
        if kind and kind != "Node":
            others[label] = kind
            continue
        zones.append(Zone(label, _resources(name, line, entry)))
    words = [text_of(word) for word in list_at(value, "topologyPolicies")]
    attributes = _attributes(value)
    policies, remarks = _policies(words, attributes or {}, line)
    labels = [zone.name for zone in zones]
    if len(set(labels)) != len(labels):
        remarks.append(Remark("Inconsistent", f"A zone of {node} is there twice.", line))
    extras: dict[str, Any] = {"policies": words, "attributes": attributes}
    extras |= {key: found for key, found in (("costs", costs), ("other_zones", others)) if found}
    source = Source(Format.NODE_RESOURCE_TOPOLOGY, name, line)
    return (Reading(source, node=node, zones=tuple(zones), kubelet=policies, remarks=tuple(remarks), extras=extras),)


def _resources(name: str, line: int, entry: Value) -> tuple[tuple[str, tuple[str | None, str | None, str | None]], ...]:
    listed = list_at(entry, "resources")
    if len(listed) > RESOURCES_MAX:
        raise DumpError(name, line, 1, found=f"{len(listed)} resources in a zone", expected=f"at most {RESOURCES_MAX}")
    return tuple(
        (label, (_quantity(each, "capacity"), _quantity(each, "allocatable"), _quantity(each, "available")))
        for each in listed
        if (label := text_at(each, "name"))
    )


def _quantity(resource: Value, key: str) -> str | None:
    return text_at(resource, key) or None


def _costs(entry: Value) -> dict[str, int | None]:
    """Distances of the kernel's table, by the name of the other zone."""
    return {label: whole_at(each, "value") for each in list_at(entry, "costs") if (label := text_at(each, "name"))}


def _attributes(value: Value) -> dict[str, str] | None:
    if not isinstance(at(value, "attributes"), list):
        return None
    return {label: text_at(each, "value") for each in list_at(value, "attributes") if (label := text_at(each, "name"))}


def _policies(words: list[str], attributes: dict[str, str], line: int) -> tuple[KubeletPolicies | None, list[Remark]]:
    """The Topology Manager's policy and scope; where word and attribute differ, the attribute, which is newer."""
    policy, scope = attributes.get("topologyManagerPolicy", ""), attributes.get("topologyManagerScope", "")
    found = _WORD.fullmatch(words[0].lower()) if len(words) == 1 else None
    remarks = []
    if found:
        by_word, word_scope = _POLICY[found[1]], found[2] or ""
        if (policy and policy != by_word) or (scope and word_scope and scope != word_scope):
            said = f"{policy or by_word} per {scope or word_scope}"
            remarks.append(Remark("Inconsistent", f"The policy is {words[0]} and, in the attributes, {said}.", line))
        policy, scope = policy or by_word, scope or word_scope
    if not policy and not scope:
        return None, remarks
    return KubeletPolicies(topology_manager=policy, topology_manager_scope=scope), remarks
