"""Policies as a team writes them, a pod, and nodes: which rule holds, what the pod asks for, and what is decided.

Each case of `cases` is a sentence. Objects go in as the API server's JSON, and the real service decides.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from atoll.adapters.kube import wire, wire_policy
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_policy import policy_of, status_patch
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.core.effects import Effect, TellPolicy, WriteLedger
from atoll.core.events import (
    BindAsked,
    ConfigSeen,
    Event,
    InventorySeen,
    Kind,
    LeadershipChanged,
    LedgerSeen,
    NamespaceSeen,
    NodeSeen,
    PodSeen,
    PolicySeen,
    Synced,
    Tick,
)
from atoll.core.facts import Enforcement, Inventory, NamedPartition, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.placement_policy import PolicyObject
from atoll.core.request import GpuRequest
from atoll.services.scheduling import Scheduling
from atoll.sim.machines import machine
from tests.services import stage
from tests.services.stage import gpus, grant, ledger

Json = dict[str, Any]
NOW_S = 2_000_000_000.0
UNITS_S = {"s": 1, "m": 60, "h": 3600}
FILES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@dataclass(frozen=True)
class Case:
    """One sentence; `shared` is what its file says for all of its cases."""

    shared: Json
    own: Json

    def __getitem__(self, key: str) -> Any:
        return self.own.get(key) or self.shared.get(key) or {}


CASES = [
    Case(shared, own) for shared in (yaml.safe_load(file.read_text()) for file in FILES) for own in shared["cases"]
]


def test_there_are_cases_and_each_has_a_sentence_of_its_own() -> None:
    assert len({case.own["case"] for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.own["case"])
def test_a_pod_gets_what_its_rule_says(case: Case) -> None:
    scene = Scene(case)
    pod = scene.pod()

    ruling = scene.service.requests.ruling(pod)

    assert str(ruling) == case["ruling"]
    assert ("/".join(ruling.shadow) if ruling.shadow else "") == case.own.get("shadow", "")
    assert scene.asks(pod) == case.own.get("asks", "")
    decision, text = scene.decide(pod)
    assert decision == case["decision"]
    assert case.own.get("text", "") in text
    assert scene.problems() == {name: (why,) for name, why in case.own.get("status", {}).items()}


class Scene:
    """The service with everything of a case in it."""

    def __init__(self, case: Case) -> None:
        self.case, self.service, self.effects = case, Scheduling(), list[Effect]()
        self.see(LeadershipChanged(leading=True), Tick(NOW_S))
        for name, labels in case["namespaces"].items():
            self.see(NamespaceSeen(name, tuple(sorted({"kubernetes.io/metadata.name": name, **labels}.items()))))
        for name in case.own.get("policies", ()):
            self.see(PolicySeen(policy(name, case.shared["policies"][name])))
        for name, node in case["nodes"].items():
            self._put_node(name, node)
        self.see(*map(Synced, Kind), Tick(NOW_S))

    def see(self, *events: Event) -> None:
        for event in events:
            self.effects += self.service.step(event, 0.0)

    def pod(self) -> PodFacts:
        pod = pod_facts(msgspec.convert(pod_json(self.case["pod"]), wire.Pod), (GPU_RESOURCE,))
        self.see(PodSeen(pod))
        return pod

    def asks(self, pod: PodFacts) -> str:
        request = self.service.requests.known(pod).request
        if not isinstance(request, GpuRequest):
            return ""
        after = f"after {request.degrade_after_s} s" if request.degrade_after_s else ""
        each = "each" if request.per_container else ""
        words = [request.policy, ",".join(request.scopes), request.partition, request.service_class, each, after]
        return " ".join(str(word) for word in words if word)

    def decide(self, pod: PodFacts) -> tuple[str, str]:
        """What becomes of it, in short, and the reason in words."""
        names = list(self.case["nodes"])
        answer = self.service.filter(pod, names)
        if not answer.passed:
            code, _, why = answer.failed[0][0].partition(": ")
            if code in {"InvalidRequest", "NotReady"}:
                return f"refused {code}", why
            self.see(Tick(NOW_S))
            said = [each for each in self.effects if getattr(each, "message", "")]
            return f"waits {code}", said[-1].message if said else why  # type: ignore[union-attr]
        node = answer.passed[0]
        self.see(BindAsked(1, pod.uid, pod.namespace, pod.name, node))
        written = [each.record.of(pod.uid) for each in self.effects if isinstance(each, WriteLedger)]
        granted = next((each for each in written if each), None)
        if granted is None:
            return "passed", ""
        positions = sorted(int(uuid.rpartition("-")[2]) for uuid in granted.uuids)
        shown = f"{positions[0]}-{positions[-1]}" if len(positions) > 1 else str(positions[0])
        assert positions == list(range(positions[0], positions[-1] + 1))
        return f"{node} {shown}" + (" degraded" if granted.degraded else ""), ""

    def problems(self) -> dict[str, tuple[str, ...]]:
        """What the status of each policy that is not accepted says."""
        told = {each.name: each.status.problems for each in self.effects if isinstance(each, TellPolicy)}
        return {name: problems for name, problems in told.items() if problems}

    def _put_node(self, name: str, node: Json) -> None:
        count = sum(node["islands"])
        self.see(NodeSeen(NodeFacts(name, f"{name}-uid", count, count)))
        self.see(InventorySeen(Inventory(name, f"{name}-uid", Source.PUBLISHED, machine(name, tuple(node["islands"])))))
        partitions = tuple(
            NamedPartition(each, gpus(name, *members)) for each, members in node.get("partitions", {}).items()
        )
        enforcement = Enforcement(self.case["enforcement"] or "enforce")
        self.see(ConfigSeen(NodeConfigObject(name, (), (name,), enforcement, partitions=partitions)))
        if taken := node.get("taken"):
            holder = stage.pod("holder", len(taken), node=name)
            self.see(PodSeen(holder), LedgerSeen(ledger(name, grant("holder", gpus(name, *taken)))))


def policy(name: str, spec: Json) -> PolicyObject:
    """As the API server has it; with `was`, edited since that was accepted."""
    spec = dict(spec)
    was = spec.pop("was", None)
    metadata = {"name": name, "resourceVersion": "7", "generation": 2 if was else 1}
    read = policy_of(msgspec.convert({"metadata": metadata, "spec": spec}, wire_policy.PlacementPolicy))
    if was is None:
        return read
    before = policy_of(msgspec.convert({"metadata": metadata, "spec": was}, wire_policy.PlacementPolicy))
    service = Scheduling()
    told = [
        effect
        for event in (LeadershipChanged(leading=True), PolicySeen(before), *map(Synced, Kind), Tick(NOW_S))
        for effect in service.step(event, 0.0)
        if isinstance(effect, TellPolicy)
    ]
    status = msgspec.json.decode(status_patch(told[0], datetime.fromtimestamp(NOW_S, UTC)))["status"]
    whole = {"metadata": metadata, "spec": spec, "status": status}
    return policy_of(msgspec.convert(whole, wire_policy.PlacementPolicy))


def pod_json(pod: Json) -> Json:
    """The API server's JSON of a pod that a case describes in short."""
    counts = pod.get("containers") or [pod["gpus"]]
    age = re.fullmatch(r"(\d+)([smh])", pod.get("age", "0s"))
    assert age is not None
    created = datetime.fromtimestamp(NOW_S - int(age[1]) * UNITS_S[age[2]], UTC)
    name = pod.get("name", "p")
    spec: Json = {"containers": [container(f"c{n}", count) for n, count in enumerate(counts)]}
    if "init" in pod:
        spec["initContainers"] = [container("i0", pod["init"])]
    if "priorityClass" in pod:
        spec["priorityClassName"] = pod["priorityClass"]
    if "nodeSelector" in pod:
        spec["nodeSelector"] = pod["nodeSelector"]
    if "affinity" in pod:
        terms = [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in term.items()]}
            for term in pod["affinity"]
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    metadata = {
        "name": name,
        "namespace": pod.get("namespace", "ml"),
        "uid": f"{name}-uid",
        "resourceVersion": "10",
        "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "labels": pod.get("labels"),
        "annotations": pod.get("annotations"),
    }
    return {"metadata": metadata, "spec": spec, "status": {}}


def container(name: str, gpus_asked: int) -> Json:
    return {"name": name, "resources": {"limits": {GPU_RESOURCE: gpus_asked}}}
