"""In whatever order things come, go and come again: what is told of a cluster depends only on what is there."""

import random

import pytest

from atoll.core.kube_facts import Holds, KubeNode, KubePod, Wants
from tests.models.kube_filter.clusters import ZONE, cluster, is_in, node, pod, pods_with, port, spread

NODES = ("a", "b", "c")
APPS = ("db", "web")


def drawn_node(rng: random.Random, name: str) -> KubeNode:
    return node(
        name, {ZONE: rng.choice("xy")} if rng.random() < 0.8 else {}, gpus=rng.randint(0, 4), pods=rng.randint(1, 5)
    )


def drawn_pod(rng: random.Random, name: str) -> KubePod:
    far = (pods_with(ZONE, (is_in("app", rng.choice(APPS)),)),) if rng.random() < 0.3 else ()
    holds = port(80) if rng.random() < 0.2 else Holds(far=far)
    return pod(
        name,
        on=rng.choice([*NODES, ""]),
        labels={"app": rng.choice(APPS)},
        holds=holds,
        nominated=rng.choice([*NODES, "", ""]),
        deleting=rng.random() < 0.2,
        over=rng.random() < 0.1,
        unsure=("odd",) if rng.random() < 0.03 else (),
        gpus=rng.randint(0, 2),
    )


def questions() -> list[KubePod]:
    web = (is_in("app", "web"),)
    return [
        pod("plain", gpus=1),
        pod("http", holds=port(80)),
        pod("web", labels={"app": "web"}, wants=spread(ZONE, web)),
        pod("far", labels={"app": "db"}, holds=Holds(far=(pods_with(ZONE, web),))),
        pod("near", wants=Wants(near=(pods_with(ZONE, web),))),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_changes_one_by_one_tell_the_same_as_a_cluster_made_anew(seed: int) -> None:
    rng = random.Random(seed)
    grown = cluster()
    nodes: dict[str, KubeNode] = {}
    pods: dict[str, KubePod] = {}
    for _ in range(80):
        name = rng.choice(NODES)
        match rng.choice(["node", "no node", "pod", "pod", "pod", "no pod"]):
            case "node":
                nodes[name] = drawn_node(rng, name)
                grown.put_node(nodes[name])
            case "no node":
                nodes.pop(name, None)
                grown.drop_node(name)
            case "pod":
                one = drawn_pod(rng, f"p{rng.randrange(12)}")
                pods[one.uid] = one
                grown.put_pod(one)
            case "no pod":
                uid = f"uid-p{rng.randrange(12)}"
                pods.pop(uid, None)
                grown.drop_pod(uid)
        anew = cluster(*pods.values(), *nodes.values())
        for asked in questions():
            assert [grown.on(asked, name) for name in NODES] == [anew.on(asked, name) for name in NODES]
