"""The model of kube-scheduler's filters against the real one, on clusters by seed.

Every pod that the model lets pass somewhere is pinned to one such node as gate mode does it, and must be bound there.
Every other pod is let go without a pin: where kube-scheduler places it, the model has refused it wrongly, which costs a
wait but breaks nothing.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from atoll.core.kube_facts import Answer, KubePod, Passes, Rule
from tests.e2e.kube_cluster_storage import DRIVER
from tests.e2e.kube_clusters import Cluster, cluster_of
from tests.e2e.kube_filter_scene import (
    CLAIMS,
    VOLUMES,
    Model,
    Provisioner,
    Seen,
    bound,
    claims_in,
    gated,
    lift,
    prepare,
    refused,
)
from tests.realkube import fleet
from tests.realkube.api import Api, Json, wait_until
from tests.realkube.binaries import KUBERNETES
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

WHOLE = 1000
CLUSTERS = int(os.environ.get("ATOLL_FILTER_CLUSTERS", 200 if KUBERNETES else WHOLE))
"""On older versions of Kubernetes, a part."""
FIRST_SEED = int(os.environ.get("ATOLL_FILTER_SEED", "1"))
SLOTS = 100
"""Clusters that are there at the same time."""
DECIDED_WITHIN_S = 30
WRONGLY_REFUSED_MAX_PERCENT = 2
PLACED_MIN_PERCENT = 35
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
SHOWN_ELSEWHERE = {Rule.UNKNOWN_NODE, Rule.NOMINATED, Rule.UNREAD, Rule.VOLUME_DRIVER, Rule.PINNED_SPREAD}
"""Rules that need what these clusters do not have; each has its unit test."""


@dataclass
class Tally:
    """Attributes: wrongly: refused pods that were placed, by rule. rules: what was decisive, per pod and node."""

    placed: int = 0
    refused: int = 0
    unsure: int = 0
    late: int = 0
    misses: list[str] = field(default_factory=list)
    wrongly: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)

    @property
    def pods(self) -> int:
        return self.placed + len(self.misses) + self.refused

    def __str__(self) -> str:
        wrongly = self.wrongly.total()
        percent = 100 * wrongly / max(self.pods, 1)
        lines = [
            f"{self.pods} pods: {self.placed} placed ({self.late} at a second try), {len(self.misses)} missed,",
            f"{self.refused} not let pass, of which {self.unsure} unsure and {wrongly} wrongly ({percent:.2f} %)",
            *(f"  {count} x {rule}, as {self.examples[rule]}" for rule, count in self.wrongly.most_common()),
            f"decisive: {dict(self.rules.most_common())}",
            *self.misses,
        ]
        return "\n".join(lines)


class Play:
    """Some clusters side by side."""

    def __init__(self, api: Api, pods: Seen, claims: Seen, volumes: Seen, tally: Tally) -> None:
        self._api, self._pods, self._claims, self._volumes, self._tally = api, pods, claims, volumes, tally
        self._models: dict[str, Model] = {}

    def run(self, clusters: Sequence[Cluster]) -> None:
        api = self._api
        self._set_up(clusters)
        self._models = self._told(clusters)
        for index in range(max(len(cluster.arriving) for cluster in clusters)):
            self._wave([(cluster, cluster.arriving[index]) for cluster in clusters if index < len(cluster.arriving)])
        spaces = [namespace for cluster in clusters for namespace in cluster.namespaces]
        api.each(lambda namespace: api.delete(fleet.pods_in(namespace), grace_s=0), spaces)
        api.each(lambda namespace: api.delete(claims_in(namespace)), spaces)
        api.each(api.delete, (fleet.NODES, CSI_NODES, VOLUMES))
        wait_until(lambda: not self._pods.all(), "the last pod to go", 60)

    # What is there from the start.

    def _set_up(self, clusters: Sequence[Cluster]) -> None:
        api = self._api
        fleet.create_nodes(api, [node for cluster in clusters for node in cluster.nodes])
        for cluster in clusters:
            used = {
                (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
                for pod in (*cluster.settled, *cluster.arriving)
                for volume in pod["spec"].get("volumes", ())
                if "persistentVolumeClaim" in volume
            }
            cluster.stored.claims = [
                (claim, volume)
                for claim, volume in cluster.stored.claims
                if (claim["metadata"]["namespace"], claim["metadata"]["name"]) in used
            ]
        api.each(self._store, [pair for cluster in clusters for pair in cluster.stored.claims])
        by_hand = [volume for cluster in clusters for volume in cluster.stored.by_hand]
        api.each(lambda volume: api.create(VOLUMES, volume), by_hand)
        api.each(self._tell_driver, [each for cluster in clusters for each in cluster.stored.csi_nodes.items()])
        fleet.create_pods(api, [pod for cluster in clusters for pod in cluster.settled])
        api.each(self._settle, [(cluster, pod) for cluster in clusters for pod in cluster.settled])
        owned = [claim for cluster in clusters for claim, volume in cluster.stored.claims if volume]
        keys = [(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in owned]
        assert not self._claims.wait(keys, lambda claim: claim["status"].get("phase") == "Bound", 60)

    def _store(self, pair: tuple[Json, Json | None]) -> None:
        claim, volume = pair
        made = self._api.create(claims_in(claim["metadata"]["namespace"]), claim)
        if volume:
            volume["spec"]["claimRef"]["uid"] = made["metadata"]["uid"]
            self._api.create(VOLUMES, volume)

    def _tell_driver(self, told: tuple[str, int]) -> None:
        node, most = told
        driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": most}}
        self._api.create(CSI_NODES, {"metadata": {"name": node}, "spec": {"drivers": [driver]}})

    def _settle(self, settled: tuple[Cluster, Json]) -> None:
        cluster, pod = settled
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if name in cluster.ended:
            fleet.finish(self._api, name, namespace)
        if name in cluster.deleting:
            self._api.delete(f"{fleet.pods_in(namespace)}/{name}")

    def _told(self, clusters: Sequence[Cluster]) -> dict[str, Model]:
        """A model per cluster that has been told of everything that is its own."""
        api, models = self._api, {cluster.name: Model() for cluster in clusters}
        by_space = {namespace: models[each.name] for each in clusters for namespace in each.namespaces}
        for storage_class in api.items("/apis/storage.k8s.io/v1/storageclasses"):
            for model in models.values():
                model.feed("storageclasses", storage_class)
        for kind, path in (("nodes", fleet.NODES), ("csinodes", CSI_NODES), ("persistentvolumes", VOLUMES)):
            for item in api.items(path):
                # Volumes of clusters that are gone may take their time to go.
                if (found := models.get(item["metadata"]["name"].partition("-")[0])) is not None:
                    found.feed(kind, item)
        for namespace in api.items("/api/v1/namespaces"):
            if (found := by_space.get(namespace["metadata"]["name"])) is not None:
                found.feed("namespaces", namespace)
        for pod in api.items("/api/v1/pods"):
            by_space[pod["metadata"]["namespace"]].feed("pods", pod)
        return models

    # One pod per cluster.

    def _wave(self, arriving: Sequence[tuple[Cluster, Json]]) -> None:
        self._refresh([cluster for cluster, _pod in arriving])
        stored = fleet.create_pods(self._api, [gated(pod) for _cluster, pod in arriving])
        decided = [self._decide(cluster, pod) for (cluster, _), pod in zip(arriving, stored, strict=True)]
        self._api.each(lambda each: lift(self._api, each[1], each[3]), decided)
        keys = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): node for _, pod, _, node, _ in decided}
        self._pods.wait(keys, lambda pod: bound(pod) or (not keys[_key(pod)] and refused(pod) != ""), DECIDED_WITHIN_S)
        self._api.each(lambda each: self._judge(*each), decided)

    def _refresh(self, clusters: Sequence[Cluster]) -> None:
        """Tell each model what has become of claims and volumes."""
        by_space = {namespace: self._models[each.name] for each in clusters for namespace in each.namespaces}
        for claim in self._claims.all():
            if (model := by_space.get(claim["metadata"]["namespace"])) is not None:
                model.feed("persistentvolumeclaims", claim)
        for volume in self._volumes.all():
            if (model := by_space.get(volume["spec"].get("claimRef", {}).get("namespace", ""))) is not None:
                model.feed("persistentvolumes", volume)

    def _decide(self, cluster: Cluster, pod: Json) -> tuple[Cluster, Json, KubePod, str, list[Answer]]:
        model = self._models[cluster.name]
        arriving = model.arriving(pod)
        nodes = [node["metadata"]["name"] for node in cluster.nodes]
        answers = [model.cluster.answer(arriving, node) for node in nodes]
        for answer in answers:
            self._tally.rules["Passes" if isinstance(answer, Passes) else answer.rule] += 1
        passing = [node for node, answer in zip(nodes, answers, strict=True) if isinstance(answer, Passes)]
        node = random.Random(arriving.name).choice(passing) if passing else ""
        if node:
            model.cluster.assume(arriving, node)
        return cluster, pod, arriving, node, answers

    def _judge(self, cluster: Cluster, pod: Json, arriving: KubePod, node: str, answers: list[Answer]) -> None:
        tally, key = self._tally, _key(pod)
        newest = self._pods.of(*key) or pod
        where = newest["spec"].get("nodeName", "")
        if node and where == node:
            tally.placed += 1
            tally.late += bool(refused(newest))
            self._models[cluster.name].feed("pods", newest)
            return
        if node:
            tally.misses.append(f"MISS {arriving.name} on {node}: bound to {where!r}, told {refused(newest)!r}")
        else:
            tally.refused += 1
            rules = sorted({f"{type(answer).__name__} {answer.rule}" for answer in answers})  # type: ignore[union-attr]
            tally.unsure += any(rule.startswith("Unsure") for rule in rules)
            if where:
                on = answers[[each["metadata"]["name"] for each in cluster.nodes].index(where)]
                rule = f"{type(on).__name__} {on.rule}"  # type: ignore[union-attr]
                tally.wrongly[rule] += 1
                tally.examples.setdefault(rule, f"{arriving.name} on {where}: {on.why}")  # type: ignore[union-attr]
        self._models[cluster.name].gone("pods", newest)
        fleet.remove(self._api, key[1], key[0])


def _key(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    """The outcome of all clusters."""
    counted, started = Tally(), time.monotonic()
    with ControlPlane() as plane:
        api = plane.api
        plane.start_scheduler("stock")
        prepare(api, min(SLOTS, CLUSTERS))
        provisioner = Provisioner(api)
        with Seen(api, "/api/v1/pods") as pods, Seen(api, VOLUMES) as volumes, Seen(api, CLAIMS, provisioner) as claims:
            for first in range(0, CLUSTERS, SLOTS):
                seeds = range(first, min(first + SLOTS, CLUSTERS))
                clusters = [cluster_of(FIRST_SEED + seed, seed - first) for seed in seeds]
                Play(api, pods, claims, volumes, counted).run(clusters)
        print(f"\n{CLUSTERS} clusters in {time.monotonic() - started:.0f} s, {counted}")
        yield counted


def test_every_pod_that_the_model_lets_pass_is_bound_where_it_is_pinned(tally: Tally) -> None:
    assert not tally.misses, str(tally)
    assert tally.placed * 100 >= PLACED_MIN_PERCENT * tally.pods, str(tally)


def test_few_pods_are_refused_that_kube_scheduler_would_place(tally: Tally) -> None:
    assert tally.wrongly.total() * 100 <= WRONGLY_REFUSED_MAX_PERCENT * tally.pods, str(tally)


@pytest.mark.skipif(CLUSTERS < WHOLE, reason="some rules are rare")
def test_the_clusters_reach_every_rule(tally: Tally) -> None:
    reached = {rule for rule, count in tally.rules.items() if count}

    assert set(Rule) - SHOWN_ELSEWHERE - reached == set(), str(tally)
