"""The survey of a live cluster: what it asks an API server, and what it does where the server says no."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from aiohttp import web

from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.manifests import audit_rules
from atoll.adapters.kube.survey import live
from atoll.adapters.kube.survey.live import survey
from atoll.core.audit.picture import AuditNode, Picture
from atoll.core.evidence.reading import Format
from tests.adapters.api_double import Double
from tests.adapters.survey_objects import daemon_set, event, gpu_uuid, node, pod, resource_slice

Json = dict[str, Any]
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
CONFIG = "/api/v1/namespaces/gpu-operator/configmaps/slicing"
PLUGIN = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}


@dataclass
class Cluster(Double):
    """An API server that lists what a test gives it; every other group is not installed."""

    lists: dict[str, list[Json]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    expired: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        if request.path in self.refused:
            status = self.refused[request.path]
            return web.json_response({"reason": "No", "message": f"no to {request.path}"}, status=status)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.2"})
        if request.path == CONFIG and CONFIG in self.lists:
            return web.json_response(self.lists[CONFIG][0])
        if request.path not in self.lists:
            return web.json_response({"reason": "NotFound"}, status=404)
        begin = int(request.query.get("continue", "0/").partition("/")[0])
        if begin and self.expired:
            self.expired -= 1
            return web.json_response({"reason": "Expired"}, status=410)
        limit, items = int(request.query["limit"]), self.lists[request.path]
        more = f"{begin + limit}/=&+" if begin + limit < len(items) else ""
        without_kind = [{key: value for key, value in item.items() if key != "kind"} for item in items]
        return web.json_response({"metadata": {"continue": more}, "items": without_kind[begin : begin + limit]})


def cluster(**more: list[Json]) -> Cluster:
    return Cluster(
        lists={
            "/api/v1/nodes": [node("n1"), node("cpu", 0)],
            "/api/v1/pods": [pod("a", 4, "n1"), pod("b", 4)],
            "/api/v1/events": [event("e", "TopologyAffinityError", "no", about="gone")],
            "/apis/apps/v1/daemonsets": [daemon_set("plugin", PLUGIN)],
            "/apis/apps/v1/deployments": [],
            **more,
        }
    )


def seen(api: Cluster) -> Picture:
    async def looked() -> Picture:
        async with api.client() as client:
            return await survey(client, "https://api", "2026-01-02T00:00:00Z")

    return asyncio.run(looked())


def named(found: Picture, name: str) -> AuditNode:
    return next(each for each in found.nodes if each.name == name)


def blind(found: Picture) -> dict[str, tuple[str, bool]]:
    return {each.what: (each.why, each.expected) for each in found.blind}


def test_a_cluster_without_any_addition_is_seen_whole():
    found = seen(cluster())

    assert [each.name for each in found.nodes] == ["cpu", "n1"]
    assert [each.name for each in found.pods] == ["a", "b"]
    assert [each.reason for each in found.events] == ["TopologyAffinityError"]
    assert {"kubernetes", "kubelet", "nvidia-device-plugin"} <= {each.name for each in found.components}
    assert set(blind(found).values()) == {("not installed", True)}
    assert found.pods_seen


def test_slices_give_a_node_its_gpus():
    found = seen(cluster(**{SLICES: [resource_slice("n1")]}))

    machine = named(found, "n1").machine
    assert machine is not None
    assert machine.topology is not None
    assert [device.uuid for device in machine.topology.devices] == [gpu_uuid(n) for n in range(8)]
    assert {source.format for source in machine.sources} >= {Format.RESOURCE_SLICE}
    assert "driver" in dict(machine.versions)


def test_an_older_version_of_a_group_is_read_where_the_newer_is_not_served():
    found = seen(cluster(**{SLICES.replace("/v1/", "/v1beta1/"): [resource_slice("n1")]}))

    assert named(found, "n1").machine is not None
    assert "resourceslices.resource.k8s.io" not in blind(found)


def test_a_claim_is_told_by_the_uuid_that_the_slice_gives_its_device():
    result = {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-5"}
    claim = {
        "metadata": {"name": "c", "namespace": "team"},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "uid": "uid-a"}],
        },
    }

    found = seen(cluster(**{SLICES: [resource_slice("n1")], SLICES.replace("slices", "claims"): [claim]}))

    ((_, record),) = found.pods[0].recorded
    assert record.devices == (("", (gpu_uuid(5),)),)


def test_labels_and_annotations_of_nodes_are_read_too():
    code = f"{gpu_uuid(0)},10,81559,100,NVIDIA-H100,1,true:"
    made = node("n1", 1, **{"nvidia.com/cuda.driver-version.full": "580.65.06"})
    made["metadata"]["annotations"] = {"hami.io/node-nvidia-register": code}

    found = seen(cluster(**{"/api/v1/nodes": [made]}))

    machine = named(found, "n1").machine
    assert machine is not None
    assert {source.format for source in machine.sources} == {Format.HAMI, Format.LABELS}
    assert [(each.name, each.nodes) for each in found.components if each.name == "nvidia-driver"] == [
        ("nvidia-driver", ("n1",))
    ]


def test_pages_are_read_to_the_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PAGE", 3)
    api = cluster(**{"/api/v1/pods": [pod(f"p{n:02d}", 1, "n1") for n in range(10)]})

    assert len(seen(api).pods) == 10
    assert [unquote(urlsplit(each).query) for each in api.asked if "/pods" in each] == [
        "limit=3", "limit=3&continue=3/=&+", "limit=3&continue=6/=&+", "limit=3&continue=9/=&+"
    ]  # fmt: skip


def test_a_list_that_expired_begins_again_and_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PAGE", 3)
    api = cluster(**{"/api/v1/pods": [pod(f"p{n}", 1, "n1") for n in range(5)]})
    api.expired = 1

    assert len(seen(api).pods) == 5


def test_a_part_of_the_pods_frees_no_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PAGE", 3)
    api = cluster(**{"/api/v1/pods": [pod(f"p{n}", 1, "n1") for n in range(5)]})
    api.expired = 9

    found = seen(api)

    assert (len(found.pods), found.pods_seen) == (3, False)
    assert [each.what for each in found.blind if not each.expected] == ["pods"]


def test_what_is_forbidden_is_told_with_a_remedy_and_stops_nothing():
    api = cluster()
    api.refused = {"/api/v1/pods": 403, DEVICES: 403, "/api/v1/events": 403}

    found = seen(api)

    assert [each.name for each in found.nodes] == ["cpu", "n1"]
    assert not found.pods_seen
    refused = {each.what: each for each in found.blind if not each.expected}
    assert set(refused) == {"pods", "devices.scheduling.koordinator.sh", "events"}
    assert all(each.why.startswith("forbidden") and "audit-rbac" in each.remedy for each in refused.values())


def test_one_bad_object_hides_no_other():
    bad = pod("bad", 1)
    bad["spec"]["containers"] = "many"

    found = seen(cluster(**{"/api/v1/pods": [bad, pod("good", 1)]}))

    assert [each.name for each in found.pods] == ["good"]
    assert blind(found)["pods"][0].startswith("unreadable")


@pytest.mark.parametrize("odd", ["-3", "eight", 1.5, None, [8]])
def test_numbers_that_are_none_are_told_of_live_nodes_and_pods_too(odd: Any):
    made = node("n1")
    made["status"]["capacity"] = {"nvidia.com/gpu": odd}
    bad = pod("bad", 1)
    bad["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": odd}}

    found = seen(cluster(**{"/api/v1/nodes": [made], "/api/v1/pods": [bad, pod("good", 1)]}))

    assert (named(found, "n1").capacity, named(found, "n1").allocatable) == (None, 8)
    assert [each.name for each in found.pods] == ["good"]
    assert {"Node n1", "Pod team/bad"} <= set(blind(found))


def test_a_damaged_object_of_another_kind_is_told():
    damaged = {"metadata": {"name": "n1"}, "spec": {"devices": "x"}}

    assert "Device n1" in blind(seen(cluster(**{DEVICES: [damaged]})))


def test_only_the_configuration_that_a_plugin_names_is_got():
    text = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    config = {"metadata": {"name": "slicing", "namespace": "gpu-operator"}, "data": {"any": text}}
    api = cluster(
        **{"/apis/apps/v1/daemonsets": [daemon_set("plugin", PLUGIN, config_map="slicing")], CONFIG: [config]}
    )

    found = seen(api)

    (plugin,) = (each for each in found.components if each.name == "nvidia-device-plugin")
    assert ("sharing.timeSlicing.nvidia.com/gpu.replicas", "4") in plugin.settings
    assert [each for each in api.asked if "configmaps" in each] == [f"GET {CONFIG}"]


def test_a_configuration_that_may_not_be_got_is_told():
    api = cluster(**{"/apis/apps/v1/daemonsets": [daemon_set("plugin", PLUGIN, config_map="slicing")]})
    api.refused = {CONFIG: 403}

    assert "ConfigMap gpu-operator/slicing" in blind(seen(api))


def test_wrong_credentials_end_the_audit():
    api = cluster()
    api.refused = {"/version": 401}

    with pytest.raises(AccessError, match="knows nobody"):
        seen(api)


def test_every_request_is_covered_by_the_printed_role():
    api = cluster(**{"/apis/apps/v1/daemonsets": [daemon_set("plugin", PLUGIN, config_map="slicing")]})
    seen(api)

    assert api.asked
    assert [each for each in api.asked if not allowed(each)] == []


def allowed(request: str) -> bool:
    method, _, target = request.partition(" ")
    path = urlsplit(target).path
    rules = audit_rules()
    if method != "GET":
        return False
    if path == "/version":
        return any(path in rule.get("nonResourceURLs", ()) for rule in rules)
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    verb, resource = ("get", rest[2]) if rest[0] == "namespaces" else ("list", rest[0])
    return any(
        group in rule.get("apiGroups", ()) and resource in rule["resources"] and verb in rule["verbs"] for rule in rules
    )
