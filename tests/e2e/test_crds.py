"""The CRDs on a real API server: good objects pass, bad ones are refused with a message for people, columns show."""

from collections.abc import Iterator
from typing import Any

import pytest

from atoll.adapters.kube import manifests, names
from tests.realkube.api import ApiError, Json
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

KINDS = (names.GPU_NODES, names.GPU_NODE_CONFIGS, names.GPU_LEDGERS, names.PLACEMENT_POLICIES)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=False) as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        yield plane


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Any]:
    yield plane.api
    for path in KINDS:
        for item in plane.api.items(path):
            plane.api.delete(f"{path}/{item['metadata']['name']}")


def made(kind: str, spec: Json | None = None) -> Json:
    head = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "n1"}}
    return head if spec is None else {**head, "spec": spec}


def status(**changes: object) -> Json:
    good = {
        "nodeUID": "nu",
        "source": "agent",
        "devices": [{"index": 0, "uuid": "GPU-0", "model": "A100"}, {"index": 1, "uuid": "GPU-1"}, {"index": 2}],
        "links": [{"a": 0, "b": 1, "pcie": "PIX", "nvlinks": 0}, {"a": 0, "b": 2, "nvlinks": 12}],
        "nics": [{"name": "NIC0", "links": [{"gpu": 2, "pcie": "SYS"}]}],
        "nicsKnown": True,
        "gpus": 3,
    }
    return {"status": good | changes}


def grant(**changes: object) -> Json:
    return {"owner": "ml/train", "state": "Binding", "gpus": "GPU-0", "record": "{}"} | changes


def ledger(version: int = 1, *grants: Json) -> Json:
    return made("GPULedger", {"version": version, "nodeUID": "nu", "digest": "d", "held": 5, "grants": list(grants)})


def columns(plane: ControlPlane, path: str) -> dict[str, str]:
    """What kubectl would print of the only object."""
    viewer = plane.connect(plane.kubeconfig)
    viewer._headers["Accept"] = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = viewer.get(path)
    return dict(zip([each["name"] for each in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))


def test_a_whole_inventory_passes_and_only_through_the_status(api: Any) -> None:
    created = api.create(names.GPU_NODES, made("GPUNode") | status())

    written = api.patch(f"{names.GPU_NODES}/n1/status", status())

    assert "status" not in created
    assert written["status"] == status()["status"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": [{"index": 0, "uuid": "GPU-0"}, {"index": 1, "uuid": "GPU-0"}], "gpus": 2}, "names two devices"),
        ({"links": [{"a": 1, "b": 0}]}, "the smaller one first"),
        ({"links": [{"a": 0, "b": 7}]}, "a position that no device has"),
        ({"nics": [{"name": "NIC0", "links": [{"gpu": 7, "pcie": "PIX"}]}]}, "a NIC names a position"),
        ({"links": [{"a": 0, "b": 1}, {"a": 0, "b": 1}]}, "Duplicate value"),
        ({"links": [{"a": 0, "b": 1, "pcie": "NV12"}]}, "Unsupported value"),
        ({"gpus": 4}, "gpus is the number of devices"),
        ({"source": "guess"}, "Unsupported value"),
        ({"nodeUID": ""}, "should be at least 1"),
        ({"devices": [{"index": n} for n in range(65)]}, "Too many"),
    ],
)
def test_a_bad_inventory_is_refused(api: Any, changes: Json, message: str) -> None:
    api.create(names.GPU_NODES, made("GPUNode"))

    with pytest.raises(ApiError, match=message):
        api.patch(f"{names.GPU_NODES}/n1/status", status(**changes))


def test_a_configuration_may_say_everything_or_nothing(api: Any) -> None:
    everything = {
        "nodeSelector": {"matchLabels": {"pool": "a"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
        "nodeNames": ["n1"],
        "enforcement": "shadow",
        "mode": "assumed",
        "hints": "strip",
        "onViolation": "report",
        "quarantine": ["GPU-0"],
        "partitions": [{"name": "left", "gpus": ["GPU-0", "GPU-1"]}, {"name": "all", "gpus": ["GPU-0", "GPU-2"]}],
    }

    created = api.create(names.GPU_NODE_CONFIGS, made("GPUNodeConfig", everything))
    replaced = api.replace(f"{names.GPU_NODE_CONFIGS}/n1", {**created, "spec": {}})

    assert created["spec"] == everything
    assert replaced["spec"] == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"enforcement": "enforced"}, "Unsupported value"),
        ({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "In and NotIn need values"),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}},
            "In and NotIn need values",
        ),
        ({"partitions": [{"name": "a,b", "gpus": ["GPU-0"]}]}, "letters and digits"),
        ({"partitions": [{"name": "a", "gpus": []}]}, "should have at least 1"),
        ({"partitions": [{"name": "a", "gpus": ["GPU-0", "GPU-0"]}]}, "Duplicate value"),
        ({"partitions": [{"name": "a", "gpus": ["GPU-0"]}, {"name": "a", "gpus": ["GPU-1"]}]}, "Duplicate value"),
    ],
)
def test_a_bad_configuration_is_refused(api: Any, spec: Json, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        api.create(names.GPU_NODE_CONFIGS, made("GPUNodeConfig", spec))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (ledger(1, grant(state="Given")), "Unsupported value"),
        (ledger(1, grant(record=None)), "Required value"),
        (ledger(0), "greater than or equal to 1"),
        (made("GPULedger", {"version": 1}), "Required value"),
    ],
)
def test_a_bad_ledger_is_refused(api: Any, bad: Json, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        api.create(names.GPU_LEDGERS, bad)


def test_an_older_data_version_never_replaces_a_newer_one(api: Any) -> None:
    newer = api.create(names.GPU_LEDGERS, ledger(2, grant()))

    with pytest.raises(ApiError, match="an older data version must not replace a newer one"):
        api.replace(f"{names.GPU_LEDGERS}/n1", {**newer, "spec": {**newer["spec"], "version": 1}})


def test_columns_show_what_matters(plane: ControlPlane, api: Any) -> None:
    api.create(names.GPU_NODES, made("GPUNode"))
    api.patch(f"{names.GPU_NODES}/n1/status", status())
    api.create(names.GPU_NODE_CONFIGS, made("GPUNodeConfig", {"enforcement": "enforce", "mode": "observe"}))
    api.create(names.GPU_LEDGERS, ledger(1, grant(), grant(owner="ml/serve")))

    node, config, books = (columns(plane, path) for path in KINDS[:3])

    assert (node["GPUs"], node["Model"], node["Source"]) == (3, "A100", "agent")
    assert (config["Enforcement"], config["Mode"]) == ("enforce", "observe")
    assert (books["GPUs-Held"], books["Newest-Owner"]) == (5, "ml/serve")


# Placement policies.


def rule(**said: object) -> Json:
    return made("PlacementPolicy", {"rules": [{"name": "all", **said}]})


GOOD_POLICY = {
    "priority": -5,
    "enforcement": "shadow",
    "rules": [
        {
            "name": "large-training",
            "match": {
                "gpus": {"min": 4, "max": 8},
                "namespaceSelector": {"matchLabels": {"team": "a"}},
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
                "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                "queues": ["q"],
                "priorityClasses": ["high"],
                "serviceClasses": ["batch"],
            },
            "set": {
                "policy": "Preferred",
                "scope": ["NVLink", "NUMANode", "Node"],
                "perContainer": True,
                "serviceClass": "batch",
                "degradeAfter": "1h30m",
            },
            "mayOverride": ["policy", "scope", "partition", "perContainer", "serviceClass"],
        },
        {"name": "rest", "set": {"partition": "gold", "scope": ["Partition"]}, "mayOverride": []},
    ],
    "limits": [{"partitions": ["gold"], "serviceClasses": ["latency"], "match": {"gpus": {"min": 4}}}],
}


def test_a_policy_may_say_everything_and_its_columns_show(plane: ControlPlane, api: Any) -> None:
    made_one = api.create(names.PLACEMENT_POLICIES, made("PlacementPolicy", GOOD_POLICY))

    assert made_one["spec"] == GOOD_POLICY
    shown = columns(plane, names.PLACEMENT_POLICIES)
    assert (shown["Priority"], shown["Enforcement"]) == (-5, "shadow")
    plain = api.create(names.PLACEMENT_POLICIES, {**made("PlacementPolicy", {}), "metadata": {"name": "plain"}})
    assert plain["spec"] == {"priority": 0, "enforcement": "enforce"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"set": {"scope": ["Node", "NUMANode"]}}, "from narrow to wide"),
        ({"set": {"scope": ["Node", "Node"]}}, "each scope once"),
        ({"set": {"scope": ["NumaNode"]}}, "Unsupported value"),
        ({"set": {"scope": []}}, "should have at least 1 items"),
        ({"set": {"policy": "Strict"}}, "Unsupported value"),
        ({"set": {"partition": "gold", "scope": ["Node"]}}, "implies scope Partition"),
        ({"set": {"degradeAfter": "10m"}}, "for policy Preferred alone"),
        ({"set": {"policy": "Restricted", "degradeAfter": "10m"}}, "never degraded"),
        ({"set": {"policy": "Preferred", "degradeAfter": "soon"}}, "should match"),
        ({"set": {"policy": "Preferred", "degradeAfter": "0s"}}, "of up to 720h"),
        ({"set": {"policy": "Preferred", "degradeAfter": "720h1s"}}, "of up to 720h"),
        ({"set": {"partition": "gold\n"}}, "should match"),
        ({"match": {"podSelector": {"matchLabels": {"a": "b\n"}}}}, "should match"),
        ({"set": {"policy": "Preferred", "serviceClass": "latency"}}, "means Restricted"),
        ({"set": {"serviceClass": "gold"}}, "Unsupported value"),
        ({"match": {"gpus": {"min": 4, "max": 2}}}, "min is larger than max"),
        ({"match": {"gpus": {"min": 0}}}, "greater than or equal to 1"),
        ({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}, "need values"),
        ({"mayOverride": ["everything"]}, "Unsupported value"),
        ({"name": "No Spaces"}, "should match"),
    ],
)
def test_a_bad_policy_is_refused(api: Any, said: Json, why: str) -> None:
    with pytest.raises(ApiError, match=why):
        api.create(names.PLACEMENT_POLICIES, rule(**said))


def test_a_limit_that_names_nothing_and_two_rules_of_one_name_are_refused(api: Any) -> None:
    for spec, why in (({"limits": [{}]}, "a limit names"), ({"rules": [{"name": "a"}, {"name": "a"}]}, "Duplicate")):
        with pytest.raises(ApiError, match=why):
            api.create(names.PLACEMENT_POLICIES, made("PlacementPolicy", spec))
