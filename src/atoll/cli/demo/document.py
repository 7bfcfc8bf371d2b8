"""The demo as data: a document whose keys and codes scripts may rely on."""

from collections.abc import Iterable
from typing import Any

from atoll.cli.demo.scene import NodeScene, PodScene, Scene
from atoll.cli.demo.script import Case, Played
from atoll.cli.explanations import explanation_document
from atoll.core.ledger import Grant

API_VERSION = "atoll.dev/v1alpha1"
KIND = "DemoReport"

Document = dict[str, Any]


def report_of(cases: Iterable[tuple[Case, tuple[Played, ...]]]) -> Document:
    """All cases: nodes and pods as they are at each case's end, and the last explanation that it asked for."""
    played = [_case(case, acts) for case, acts in cases]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "passed": all(case["passed"] for case in played),
        "cases": played,
    }


def scene_document(scene: Scene) -> Document:
    return {"nodes": [_node(node) for node in scene.nodes], "pods": [_pod(pod) for pod in scene.pods]}


def _case(case: Case, acts: tuple[Played, ...]) -> Document:
    explained = [(act.act.why, act.explanation) for act in acts if act.explanation is not None]
    return {
        "name": case.name,
        "title": case.title,
        "passed": bool(acts) and all(act.passed for act in acts),
        "steps": [str(step) for act in acts for step in act.act.steps],
        "checks": [
            {"claim": judged.text, "passed": judged.holds, "found": judged.found}
            for act in acts
            for judged in act.judged
        ],
        **(scene_document(acts[-1].scene) if acts else {"nodes": [], "pods": []}),
        "explanation": explanation_document(*explained[-1]) if explained else None,
    }


def _node(node: NodeScene) -> Document:
    return {
        "name": node.name,
        "machine": node.machine,
        "islands": [
            {
                "name": island.name,
                "size": len(island.gpus),
                "free": island.free,
                "gpus": [{"index": gpu.index, "uuid": gpu.uuid, "owner": gpu.owner or None} for gpu in island.gpus],
            }
            for island in node.islands
        ],
        "grants": [{"pod": grant.pod, **_grant(grant.grant)} for grant in node.grants],
    }


def _grant(grant: Grant) -> Document:
    return {
        "count": grant.count,
        "policy": str(grant.policy),
        "scopeAsked": [str(scope) for scope in grant.scopes_asked],
        "scopeBound": str(grant.scope_bound) if grant.scope_bound else None,
        "enforced": grant.enforced,
        "degraded": grant.degraded,
        "lost": {"scope": str(grant.lost.scope), "worstLink": grant.lost.worst_link} if grant.lost else None,
        "uuidsKnown": grant.uuids_known,
        "domains": list(grant.domains),
        "uuids": sorted(grant.uuids),
    }


def _pod(pod: PodScene) -> Document:
    return {
        "name": pod.name,
        "gpus": pod.gpus,
        "policy": pod.policy,
        "phase": "Running" if pod.node else "Pending",
        "node": pod.node or None,
        "uuids": sorted(pod.grant.uuids) if pod.grant else [],
        "degraded": pod.grant.degraded if pod.grant else False,
        "reason": pod.reason or None,
        "message": pod.message,
    }
