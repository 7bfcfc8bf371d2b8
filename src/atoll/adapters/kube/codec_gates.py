"""Scheduling gates, and the node affinity by which a pod is sent to its node: read from pods, and written in one patch.

Required terms are alternatives, and the API server lets a gated pod's only be narrowed. So a pod is sent to a node by
adding the node's name to *every* term, but to an empty one, which selects nothing and may not be changed. Gates and
terms change in one write under the pod's version.
"""

from sys import intern
from typing import Any

import msgspec

from atoll.adapters.kube import names, wire
from atoll.adapters.kube.codec_ledger import allocation_json
from atoll.core.delivery import OURS
from atoll.core.effects import LiftGates

NODE_NAME = "metadata.name"
_encode = msgspec.json.Encoder().encode
_decode_terms = msgspec.json.Decoder(tuple[wire.NodeTerm, ...]).decode


def gates_of(spec: wire.PodSpec) -> tuple[str, ...]:
    return tuple(intern(gate.name) for gate in spec.scheduling_gates or ())


def required_terms(spec: wire.PodSpec) -> tuple[wire.NodeTerm, ...]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return (affinity.required.node_selector_terms if affinity and affinity.required else None) or ()


def terms_of(spec: wire.PodSpec) -> str:
    """As JSON, of a pod behind a gate of ours: of all others nobody asks."""
    ours = not OURS.isdisjoint(gates_of(spec))
    terms = required_terms(spec) if ours else ()
    return _encode(terms).decode() if terms else ""


def pinned_to(spec: wire.PodSpec) -> str:
    """The one node that every required term names, "" = none; a term that names others beside it holds nowhere."""
    terms = [term for term in required_terms(spec) if term.match_expressions or term.match_fields]
    named = [_named_nodes(term) for term in terms]
    shared = frozenset.intersection(*named) if named else frozenset()
    return intern(next(iter(shared))) if len(shared) == 1 else ""


def lifting_patch(effect: LiftGates) -> dict[str, Any]:
    """A JSON merge patch, good for the version alone that the effect names."""
    metadata: dict[str, Any] = {"uid": effect.uid, "resourceVersion": effect.version}
    spec: dict[str, Any] = {"schedulingGates": None}
    if effect.grant is not None:
        metadata["annotations"] = {names.ALLOCATION: allocation_json(effect.node, effect.grant)}
    if effect.node:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _pinned(effect)}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"metadata": metadata, "spec": spec}


def _pinned(effect: LiftGates) -> list[wire.NodeTerm]:
    this = wire.NodeExpression(NODE_NAME, "In", (effect.node,))
    found = _decode_terms(effect.terms) if effect.terms else ()
    pinned = [_with(term, this) if term.match_expressions or term.match_fields else term for term in found]
    return pinned or [_with(wire.NodeTerm(), this)]


def _with(term: wire.NodeTerm, field: wire.NodeExpression) -> wire.NodeTerm:
    return msgspec.structs.replace(term, match_fields=(*(term.match_fields or ()), field))


def _named_nodes(term: wire.NodeTerm) -> frozenset[str]:
    fields = ((field.key, field.operator, field.values) for field in term.match_fields or ())
    return frozenset(
        values[0] for key, how, values in fields if (key, how) == (NODE_NAME, "In") and values and len(values) == 1
    )
