"""The models of the kubelet against the kubelet's own managers, on random nodes that fill and empty.

The device plugin in between prefers at random, also nonsense, so that nothing here depends on what a plugin would say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any

import pytest

from atoll.core.gpuset import mask_of, positions
from atoll.models.kubelet.device_hints import Asking, ContainerLimits, Devices, device_hints, pod_request
from atoll.models.kubelet.device_manager import Question, Shortage, allotment, sets_of
from atoll.models.kubelet.hints import Hint, ProviderHints
from atoll.models.kubelet.numa import NotStarted, subsets
from atoll.models.kubelet.start import topology_manager
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy, TopologyScope
from tests.realkube.binaries import KUBERNETES
from tests.realkube.kubelet_oracle import KubeletOracle
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

Json = dict[str, Any]
RESOURCE = "gpu"
NODES, PODS = 60, 100
"""Of each NUMA shape; a pod is one case."""
BARE_NODES_NAMED = KUBERNETES == "v1.34"
"""Its hints also name NUMA nodes without any device, which the models' do not. Only a merge with the hints of a CPU or
memory manager tells the two apart."""


@dataclass
class Twin:
    """One node: the real managers behind the oracle, and what the models make of the same."""

    oracle: KubeletOracle
    chance: Random
    manager: TopologyManager
    devices: Devices
    names: list[str]
    held: dict[str, dict[str, int]] = field(default_factory=dict)  # pod -> container -> devices

    @property
    def free(self) -> int:
        held = chain.from_iterable(containers.values() for containers in self.held.values())
        return (1 << len(self.names)) - 1 & ~mask_of(n for mask in held for n in positions(mask))

    def mask(self, ids: Sequence[str] | None) -> int:
        return mask_of(self.names.index(each) for each in ids or () if each in self.names)


def twin(oracle: KubeletOracle, chance: Random, numa: int) -> Twin:
    """A node with devices that report one NUMA node, several, or none."""
    distances = [[10 if a == b else chance.choice([11, 12, 20, 21, 32]) for b in range(numa)] for a in range(numa)]
    policy, scope = chance.choice(list(TopologyPolicy)), chance.choice(list(TopologyScope))
    options = {"prefer-closest-numa-nodes": "true"} if chance.random() < 0.3 else {}
    kind = chance.choice(["one", "one", "one", "some", "several", "none"])
    reported: dict[str, list[int]] = {}
    for n in range(chance.choice([4, 8, 8, 8])):
        nodes = [chance.randrange(numa)]
        if kind == "none" or (kind == "some" and chance.random() < 0.3):
            nodes = []
        elif kind == "several" and chance.random() < 0.3:
            nodes = sorted(chance.sample(range(numa), 2))
        reported[f"gpu-{n}"] = nodes
    machine = [{"node_id": n, "distances": distances[n]} for n in range(numa)]
    oracle.ask(
        op="node", policy=policy, scope=scope, options=options, numa=machine, devices=reported,
        seed=chance.randrange(1 << 31),
    )  # fmt: skip
    manager = topology_manager(policy, scope, options, dict(enumerate(distances)))
    assert not isinstance(manager, NotStarted)
    names = list(reported)
    return Twin(oracle, chance, manager, Devices(tuple(map(mask_of, reported.values())), (1 << numa) - 1), names)


def random_pod(chance: Random) -> list[Json]:
    """Containers in the order of their start: init containers and sidecars, then the others."""
    first = [
        {"name": f"i{n}", "gpus": chance.randint(1, 3), ("sidecar" if chance.random() < 0.3 else "init"): True}
        for n in range(chance.choice([0, 0, 0, 1, 2]))
    ]
    return [*first, *({"name": f"c{n}", "gpus": chance.randint(1, 4)} for n in range(chance.choice([1, 1, 1, 2])))]


def random_hints(chance: Random, numa: int) -> list[list[Hint]]:
    """What a CPU or memory manager might say."""
    if chance.random() < 0.6:
        return []
    every = list(subsets(range(numa)))
    wanted = chance.sample(every, chance.randint(1, min(5, len(every))))
    return [[Hint(mask, preferred=chance.random() < 0.5) for mask in wanted]]


@dataclass(frozen=True)
class Admission:
    """The models' own way through a pod, container by container, beside what the real managers answered."""

    node: Twin
    containers: list[Json]
    others: list[ProviderHints]
    answer: Json

    @property
    def given(self) -> dict[str, int]:
        return {name: self.node.mask(ids) for name, ids in (self.answer.get("devices") or {}).items()}

    def foreseen(self) -> bool:
        """Whether the models know a way to this answer."""
        node = self.node
        if node.manager.scope is not TopologyScope.POD or node.manager.policy is TopologyPolicy.NONE:
            return self._from(0, {}, 0, 0, None)
        hint = self._hint(node.free, self._pod_asking())
        return self._from(0, {}, 0, 0, hint) if node.manager.admits(hint) else self._failed("TopologyAffinityError")

    def _from(self, at: int, taken: dict[str, int], reusable: int, asked: int, pod_hint: Hint | None) -> bool:
        """From the container at this place on. Args: asked: questions that the plugin was asked so far."""
        if at == len(self.containers):
            return bool(self.answer["admitted"]) and asked == len(self._questions)
        node, container = self.node, self.containers[at]
        free = node.free & ~mask_of(n for mask in taken.values() for n in positions(mask))
        hint = pod_hint or self._hint(free, Asking(container["gpus"], reusable=reusable))
        if not node.manager.admits(hint):
            return self._failed("TopologyAffinityError")
        found = allotment(node.devices, free, reusable, container["gpus"], hint.numa)
        if isinstance(found, Shortage):
            return self._failed("UnexpectedAdmissionError")
        preferred = 0
        if found.question is not None:
            if asked == len(self._questions) or not self._same(self._questions[asked], found.question):
                return False
            preferred, asked = node.mask(self._questions[asked]["preferred"]), asked + 1
        # What a pod that fails had taken is not told: one of the possible ways must lead to the answer.
        possible = sets_of(found.answered(preferred))
        ways = possible & {self.given[container["name"]]} if self.answer["admitted"] else possible
        init = container.get("init", False)
        return any(
            self._from(
                at + 1, {**taken, container["name"]: got}, reusable | got if init else reusable & ~got, asked, pod_hint
            )
            for got in ways
        )

    @property
    def _questions(self) -> list[Json]:
        return self.answer.get("questions") or []

    def _same(self, asked: Json, question: Question) -> bool:
        given = self.node.mask(asked["available"]), self.node.mask(asked["mustInclude"]), asked["size"]
        return given == (question.available, question.must_include, question.size)

    def _failed(self, reason: str) -> bool:
        return not self.answer["admitted"] and self.answer["reason"] == reason

    def _hint(self, free: int, asking: Asking) -> Hint:
        return self.node.manager.affinity([{RESOURCE: device_hints(self.node.devices, free, asking)}, *self.others])

    def _pod_asking(self) -> Asking:
        limits = [ContainerLimits({RESOURCE: each["gpus"]}, each.get("sidecar", False)) for each in self.containers]
        first = [at for at, each in enumerate(self.containers) if each.get("init") or each.get("sidecar")]
        rest = [each for at, each in enumerate(limits) if at not in first]
        return Asking(pod_request([limits[at] for at in first], rest, frozenset({RESOURCE}))[RESOURCE])


def told(hints: list[list[Hint]]) -> list[list[Json]]:
    return [[{"numa": positions(hint.numa or 0), "preferred": hint.preferred} for hint in each] for each in hints]


@pytest.mark.parametrize("numa", [2, 4])
def test_the_real_kubelet_takes_nothing_that_is_not_predicted(numa: int) -> None:
    chance, cases, failed = Random(numa), 0, 0
    with KubeletOracle() as oracle:
        for _ in range(NODES):
            node = twin(oracle, chance, numa)
            for number in range(PODS):
                if node.held and chance.random() < 0.4:
                    gone = chance.choice(list(node.held))
                    oracle.ask(op="remove", uid=gone)
                    del node.held[gone]
                uid, containers = f"pod-{number}", random_pod(chance)
                apart = BARE_NODES_NAMED and node.devices.own_nodes != node.devices.nodes
                others = [] if apart else random_hints(chance, numa)
                answer = oracle.ask(op="admit", uid=uid, containers=containers, hints=told(others))
                providers: list[ProviderHints] = [{f"other-{n}": hints for n, hints in enumerate(others)}]
                admission = Admission(node, containers, providers, answer)
                assert admission.foreseen(), (node, containers, others, answer)
                if answer["admitted"]:
                    node.held[uid] = admission.given
                cases, failed = cases + 1, failed + (not answer["admitted"])
    assert cases == NODES * PODS
    assert cases / 10 < failed < cases * 9 / 10, "too few pods are admitted, or too few fail"
