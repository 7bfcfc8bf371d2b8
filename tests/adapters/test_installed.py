"""What of an installation is on a cluster: it only lists, finds by printed names, and says which list it is refused."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from atoll.adapters.kube import admission, installed, manifests, manifests_agent, manifests_webhook, names
from atoll.adapters.kube.installed import GROUPS, Installed
from atoll.core.delivery import PLACEMENT
from atoll.core.errors import AtollError
from atoll.core.removal import Applied
from tests.adapters.survey_objects import node, pod
from tests.adapters.test_survey_live import Cluster, Json

GPUS = ("nvidia.com/gpu",)
OURS = "atoll-scheduler"
PATHS = {kind: f"/apis/{group}/v1/{kind.lower()}s".replace("policys", "policies") for kind, group in GROUPS.items()}
LEASES = names.leases_path("kube-system")


def applied(*printed: list[Json]) -> Iterator[tuple[str, Json]]:
    for each in (each for some in printed for each in some):
        if each["kind"] in PATHS:
            yield PATHS[each["kind"]], each


def cluster(*printed: list[Json], **more: list[Json]) -> Cluster:
    lists: dict[str, list[Json]] = {}
    for path, each in applied(*printed):
        lists.setdefault(path, []).append(each)
    return Cluster(lists={**lists, **more})


def look(api: Cluster, namespace: str = "kube-system") -> Installed:
    async def looked() -> Installed:
        async with api.client() as client:
            return await installed.installed(client, namespace, OURS, GPUS)

    return asyncio.run(looked())


def named(name: str, namespace: str = "kube-system") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}}


def unbound(name: str, gpus: int, **spec: Any) -> Json:
    made = pod(name, gpus, "")
    made["metadata"]["resourceVersion"] = "7"
    made["spec"].update(spec)
    return made


def test_a_cluster_without_atoll_has_nothing_of_it_whatever_else_is_there() -> None:
    others = [{**each, "metadata": {"name": "another"}} for each in manifests.crds()]
    api = cluster(
        others, **{LEASES: [named("kube-scheduler")], names.PODS: [unbound("p", 1)], names.NODES: [node("n")]}
    )

    assert look(api) == Installed((), ())
    assert all(call.startswith("GET ") and "watch" not in call for call in api.asked)


def test_everything_that_is_printed_is_found_by_its_name() -> None:
    printed = (
        manifests.crds(),
        manifests.rbac(webhook=True, gate=True),
        admission.admission(),
        manifests_agent.agent_rbac(),
        manifests_webhook.webhook({"url": "https://a"}),
    )

    found = {(each.kind, each.name) for each in look(cluster(*printed)).objects}

    assert {(path.rpartition("/")[2], each["metadata"]["name"]) for path, each in applied(*printed)} <= found


def test_accounts_are_those_that_the_bindings_name() -> None:
    api = cluster(manifests.rbac("gpus", "placer"))

    accounts = [each for each in look(api).objects if each.kind == "serviceaccounts"]

    assert accounts == [Applied("serviceaccounts", "placer", "gpus")]


def test_leases_are_ours_and_the_scheduler_s_and_no_others() -> None:
    stock = [named(name) for name in (OURS, "kube-scheduler", "atoll", "atoll-agent.n9")]
    ours = [named(name, "gpus") for name in ("atoll", "atoll-agent.n1", "atoll-shim.n1", OURS, "of-somebody")]

    found = look(cluster(**{LEASES: stock, names.leases_path("gpus"): ours}), "gpus").objects

    assert {(each.namespace, each.name) for each in found} == {
        ("gpus", "atoll"),
        ("gpus", "atoll-agent.n1"),
        ("gpus", "atoll-shim.n1"),
        ("kube-system", OURS),
    }


def test_pods_without_gpus_that_depend_on_atoll_are_found_too() -> None:
    """Those with GPUs are known to whoever decides about them."""
    pods = [
        unbound("plain", 0),
        unbound("named", 0, schedulerName=OURS),
        unbound("gated", 0, schedulingGates=[{"name": PLACEMENT}]),
        unbound("gpus", 1, schedulerName=OURS),
    ]

    found = look(cluster(**{names.PODS: pods})).bystanders

    assert [each.name for each in found] == ["named", "gated"]


def test_a_list_that_is_refused_says_which_one() -> None:
    api = cluster(manifests.rbac())
    api.refused = {PATHS["ClusterRole"]: 403}

    with pytest.raises(AtollError, match=r"list of clusterroles: 403 .*; allow list of clusterroles"):
        look(api)
