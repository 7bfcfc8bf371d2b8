"""`atoll audit` of a real control plane with mixed nodes, as a service account with the printed rights alone."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from atoll.adapters.kube import manifests
from tests.e2e.audit_scene import DEPLOY, LAB, PUBLISHED, REJECTED, SHOP, UNEXPECTED, Scene, bundle
from tests.e2e.installation import ATOLL, KINDS, atoll
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane, free_port

pytestmark = pytest.mark.e2e
GOLDEN = Path(__file__).parent / "golden" / "audit.txt"
ANSWERED, PARTLY = "answered", "partly"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def report(self) -> Json:
        assert self.code == 0, self.err
        found: Json = json.loads(self.out)
        return found


def run(*arguments: object) -> Ran:
    command = [*ATOLL, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ControlPlane() as plane:
        yield Scene(plane)


@pytest.fixture(scope="module")
def auditor(scene: Scene) -> Path:
    """The service account that `atoll manifests audit-rbac` prints, and nothing more."""
    scene.plane.apply(atoll("manifests", "audit-rbac"))
    path = scene.plane.service_account(manifests.AUDIT_ACCOUNT, manifests.NAMESPACE)
    account = scene.plane.connect(path)
    wait_until(lambda: fleet.allowed(lambda: account.items("/api/v1/pods")), "the auditor's rights to be in force")
    return path


@pytest.fixture(scope="module")
def report(auditor: Path) -> Json:
    return run("audit", "--kubeconfig", auditor, "-o", "json").report


def finding(report: Json, code: str) -> Json:
    (found,) = (each for each in report["findings"] if each["code"] == code)
    assert isinstance(found, dict)
    return found


def codes(report: Json) -> set[str]:
    return {each["code"] for each in report["findings"]}


def node(report: Json, name: str) -> Json:
    (found,) = (each for each in report["nodes"] if each["name"] == name)
    assert isinstance(found, dict)
    return found


def point(report: Json, name: str) -> Json:
    (found,) = (each for each in report["points"] if each["name"] == name)
    assert isinstance(found, dict)
    return found


# What the report says.


def test_the_first_finding_is_what_hurts_most(report: Json) -> None:
    first = report["findings"][0]

    assert (first["code"], first["severity"], first["weight"]) == ("TopologyRejected", "critical", REJECTED)
    assert f"research-lab/ReplicaSet/trainer-7f9c: TopologyAffinityError {REJECTED} times" in first["title"]


def test_all_six_points_are_answered_as_far_as_the_cluster_tells(report: Json) -> None:
    assert {each["name"]: each["answer"] for each in report["points"]} == {
        "topology": PARTLY,
        "versions": ANSWERED,
        "abilities": PARTLY,
        "assignments": PARTLY,
        "fragments": PARTLY,
        "incidents": ANSWERED,
    }


def test_nodes_without_gpus_are_none_of_the_audits(scene: Scene, report: Json) -> None:
    expected = {name for name in scene.nodes if not name.startswith("cpu-")}

    assert {each["name"] for each in report["nodes"]} == expected
    assert report["totals"]["nodes"] == len(expected)


TOLD_BY = {
    **{name: {"GPUNode", "node labels"} for name in PUBLISHED},
    "train-2": {"GPUNode", "NodeResourceTopology", "node labels"},
    "infer-1": {"GPUNode", "NodeResourceTopology", "node labels"},
    "dra-1": {"ResourceSlice"},
    "dra-2": {"ResourceSlice"},
    "koord-1": {"Koordinator Device"},
    "volcano-1": {"Volcano Numatopology"},
    "hami-1": {"HAMi annotation"},
    "zones-1": {"NodeResourceTopology"},
    "labels-1": {"node labels"},
    "sliced-1": {"node labels"},
    "mig-1": {"node labels"},
    "bare-1": set(),
}


@pytest.mark.parametrize("name", TOLD_BY)
def test_a_node_is_known_from_whatever_tells_of_it(report: Json, name: str) -> None:
    assert {each["format"] for each in node(report, name)["sources"]} == TOLD_BY[name]


@pytest.mark.parametrize(
    ("name", "islands"),
    [
        ("train-1", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("ampere-1", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("uneven-1", [[0, 1, 2, 3, 4, 5], [6, 7]]),
        ("wide-1", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]),
        ("dra-1", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("dra-2", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("koord-1", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("hami-1", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("volcano-1", [[0, 1], [2, 3]]),
        ("zones-1", []),
        ("labels-1", []),
    ],
)
def test_islands_are_drawn_where_somebody_knows_them(report: Json, name: str, islands: list[list[int]]) -> None:
    found = node(report, name)
    index = [gpu["index"] for gpu in found["gpus"]]

    assert sorted(sorted(index[n] for n in island["gpus"]) for island in found["islands"]) == islands


def test_gpus_are_drawn_by_their_uuids(scene: Scene, report: Json) -> None:
    for name, uuids in scene.uuids.items():
        drawn = {gpu["index"]: gpu["uuid"] for gpu in node(report, name)["gpus"]}
        assert drawn == dict(enumerate(uuids)), name


HELD = {
    f"{LAB}/llm-0": ("train-1", (0, 1, 2, 3), "pod status"),
    f"{LAB}/llm-1": ("train-1", (4, 5), "pod status"),
    f"{LAB}/split-0": ("train-2", (0, 1, 4, 5), "pod status"),
    f"{LAB}/notebook-0": ("train-2", (2,), "pod status"),
    f"{LAB}/pair-0": ("koord-1", (0, 1), "Koordinator Device"),
    f"{LAB}/booked-0": ("volta-1", (0, 1, 2, 3), "GPULedger"),
    f"{LAB}/claimed-0": ("dra-1", (1, 2), "ResourceClaim"),
    f"{SHOP}/search-0": ("infer-1", (0, 1), "atoll.dev/allocation"),
    f"{SHOP}/search-1": ("infer-1", (4, 5), "atoll.dev/allocation"),
    f"{SHOP}/shared-0": ("hami-1", (2,), "HAMi annotation"),
    f"{SHOP}/counted-0": ("infer-2", (), ""),
    f"{LAB}/zoned-0": ("zones-1", (), ""),
    f"{LAB}/slice-0": ("sliced-1", (), ""),
}
"""Pod -> node, GPUs by index, and who told."""


def test_each_pod_is_drawn_on_the_gpus_that_it_got_and_with_who_told(report: Json) -> None:
    found = {
        holder["pod"]: (
            each["name"],
            tuple(sorted(each["gpus"][n]["index"] for n in holder["gpus"])),
            holder["source"],
        )
        for each in report["nodes"]
        for holder in each["holders"]
    }

    assert found == HELD


def test_only_the_pod_that_an_island_could_hold_is_split(report: Json) -> None:
    found = finding(report, "PodsSplit")

    assert (found["pods"], found["nodes"], found["weight"]) == ([f"{LAB}/split-0"], ["train-2"], 4)
    assert "since 2026-11-02T08:00:00Z; the kubelet's Topology Manager is best-effort" in found["title"]
    assert report["totals"]["splitPods"] == 1


def test_four_free_and_none_intact_is_told_of_the_one_node_where_it_holds(report: Json) -> None:
    found = finding(report, "IslandsBroken")

    assert found["nodes"] == ["infer-1"]
    assert "free per island: 2 of 4, 2 of 4" in found["title"]


def test_a_wish_is_answered_by_what_is_whole_on_nodes_that_take_pods(report: Json) -> None:
    sizes = {each["gpus"]: each for each in report["sizes"]}

    assert sizes[4]["enoughButBroken"] == ["infer-1"]
    assert (sizes[16]["fits"], sizes[16]["best"]) == (1, "wide-1")
    # Neither the one that is down nor the one that lost a GPU.
    whole = {"ampere-1", "uneven-1", "wide-1", "dra-2"}
    assert (sizes[8]["fits"], sizes[8]["best"] in whole) == (len(whole), True)
    assert (node(report, "train-3")["free"], node(report, "switch-1")["free"]) == (8, 7)


def test_incidents_are_counted_per_controller(report: Json) -> None:
    found = {(each["reason"], each["where"]): each["count"] for each in report["incidents"]}

    assert found == {
        ("TopologyAffinityError", f"{LAB}/ReplicaSet/trainer-7f9c"): REJECTED,
        ("UnexpectedAdmissionError", f"{LAB}/ReplicaSet/render-5d1b"): UNEXPECTED,
        ("FailedScheduling", f"{SHOP}/large-0"): found["FailedScheduling", f"{SHOP}/large-0"],
        ("FailedMount", f"{LAB}/llm-0"): 3,
        ("Rebooted", "Node train-3"): 2,
    }
    assert report["totals"]["waitingPods"] == 1


def test_an_incident_stands_beside_the_placement_that_it_is_about(report: Json) -> None:
    (holder,) = (each for each in node(report, "train-1")["holders"] if each["pod"] == f"{LAB}/llm-0")

    assert holder["incidents"] == ["FailedMount ×3"]


@pytest.mark.parametrize(
    ("component", "version", "defect"),
    [
        ("nvidia-device-plugin", "v0.14.1", "k8s-device-plugin-0.14.3"),
        ("nvidia-gpu-operator", "v24.6.1", "CVE-2024-0132-operator"),
        ("nvidia-driver", "570.133.20", "gpu-operator-1361"),
        ("kubelet", "v1.33.2", "kubernetes-135485-1.33"),
    ],
)
def test_known_defects_of_exactly_these_versions_are_named(
    report: Json, component: str, version: str, defect: str
) -> None:
    found = {
        (each["component"], each["version"]) for each in report["defects"] if each["defect"]["identifier"] == defect
    }

    assert (component, version) in found


def test_each_node_has_the_plugin_that_selects_it_and_the_policy_that_is_told(scene: Scene, report: Json) -> None:
    plugins = {each["name"]: each["facts"].get("device plugin", "") for each in report["nodes"]}
    policies = {each["name"]: each["facts"].get("Topology Manager", "") for each in report["nodes"]}
    labelled = {name for name in scene.nodes if DEPLOY.items() <= labels_of(scene, name).items()}

    assert {name for name, plugin in plugins.items() if plugin == "nvidia-device-plugin v0.14.1"} == labelled
    assert {name for name, plugin in plugins.items() if plugin == "hami v2.4.0"} == {"hami-1"}
    assert {name: policy for name, policy in policies.items() if policy} == {
        "train-2": "best-effort",
        "infer-1": "single-numa-node",
        "zones-1": "restricted",
        "volcano-1": "best-effort",
    }


def labels_of(scene: Scene, name: str) -> dict[str, Any]:
    found: dict[str, Any] = scene.api.get(f"{fleet.NODES}/{name}")["metadata"]["labels"]
    return found


@pytest.mark.parametrize(
    ("code", "nodes"),
    [
        ("GpusShared", ["sliced-1"]),
        ("AllocatableLow", ["switch-1"]),
        ("NodeNotReady", ["train-3"]),
        ("IslandsUneven", ["uneven-1"]),
        ("RejectsAfterBinding", ["infer-1"]),
        ("CountsOnly", ["zones-1"]),
        ("AssignmentUnknown", ["infer-2"]),
    ],
)
def test_what_is_odd_about_a_node_is_a_finding(report: Json, code: str, nodes: list[str]) -> None:
    assert finding(report, code)["nodes"] == nodes


def test_the_report_reads_as_a_person_read_it(auditor: Path, scene: Scene) -> None:
    told = run("audit", "--kubeconfig", auditor)

    assert told.code == 0, told.err
    text = normalised(told.out)
    if os.environ.get("ATOLL_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def normalised(text: str) -> str:
    """Without the server's port, the time of the audit, and how often the scheduler has tried."""
    text = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:6443", text)
    text = re.sub(r"(6443 · )\S+", r"\g<1>2026-11-29T12:00:00Z", text)
    return re.sub(r"\d+ × FailedScheduling", "1 × FailedScheduling", text)


def test_the_page_is_written(auditor: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"

    assert run("audit", "--kubeconfig", auditor, "--html", page, "-o", "json").code == 0

    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    for word in ("train-2", f"{LAB}/split-0", "TopologyAffinityError", "nvidia-device-plugin", "v0.14.1"):
        assert word in text


# What it may do, and what happens where it may not.


def test_nothing_is_written_and_could_not_be(scene: Scene, auditor: Path) -> None:
    kinds = (fleet.NODES, fleet.pods_in(LAB), f"{KINDS}/gpunodes", f"{KINDS}/gpuledgers")

    def versions() -> dict[str, str]:
        return {
            each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
            for path in kinds
            for each in scene.api.items(path)
        }

    before = versions()
    assert run("audit", "--kubeconfig", auditor, "-o", "json").code == 0
    assert versions() == before

    account = scene.plane.connect(auditor)
    for path in (*kinds, "/api/v1/namespaces/default/events", f"{fleet.pods_in(LAB)}/llm-0/exec?command=id"):
        assert not fleet.allowed(lambda path=path: account.create(path, {}))  # type: ignore[misc]
    assert not fleet.allowed(lambda: account.get(f"{fleet.NODES}/train-1/proxy/configz"))
    assert not fleet.allowed(lambda: account.items("/api/v1/secrets"))
    assert not fleet.allowed(lambda: account.patch(f"{fleet.NODES}/train-1", {"metadata": {"labels": {"a": "b"}}}))


def without(scene: Scene, *resources: str) -> Json:
    """The report of a user who has all printed rights but those to some resources."""
    name = f"without-{'-'.join(resources)}"
    path = scene.plane.user(name)
    rules = [rule for rule in manifests.audit_rules() if "resources" in rule]
    kept = [{**rule, "resources": [each for each in rule["resources"] if each not in resources]} for rule in rules]
    scene.plane.allow(name, [rule for rule in kept if rule["resources"]])
    return run("audit", "--kubeconfig", path, "-o", "json").report


def forbidden(report: Json) -> set[str]:
    return {each["what"] for each in report["blind"] if "forbidden" in each["why"]}


def test_without_events_incidents_come_from_pods(scene: Scene) -> None:
    report = without(scene, "events")

    assert forbidden(report) == {"events"}
    assert "NotSeen" in codes(report)
    assert report["findings"][0]["code"] == "TopologyRejected"
    assert {each["reason"] for each in report["incidents"]} == {"TopologyAffinityError", "UnexpectedAdmissionError"}


def test_without_resource_slices_their_nodes_are_unknown_and_the_others_are_not(scene: Scene) -> None:
    report = without(scene, "resourceslices")

    assert forbidden(report) == {"resourceslices.resource.k8s.io"}
    assert node(report, "train-1")["islands"]
    assert not any(each["islands"] for each in report["nodes"] if each["name"].startswith("dra-"))


def test_without_pods_nothing_counts_as_free(scene: Scene) -> None:
    report = without(scene, "pods")

    assert forbidden(report) == {"pods"}
    assert report["totals"]["free"] is None
    assert all(each["free"] is None for each in report["nodes"])
    assert point(report, "assignments")["answer"] == "not answerable"
    assert "IslandsBroken" not in codes(report)


def test_without_nodes_inventories_still_tell_the_hardware(scene: Scene) -> None:
    report = without(scene, "nodes")

    assert forbidden(report) == {"nodes"}
    assert len(node(report, "train-1")["islands"]) == 2


def test_a_server_that_is_dead_gives_one_error(auditor: Path, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", auditor.read_text()))

    assert_one_error(run("audit", "--kubeconfig", path), "127.0.0.1")


def test_credentials_that_are_not_known_give_one_error(auditor: Path, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(re.sub(r"token: \S+", "token: nobody", auditor.read_text()))

    assert_one_error(run("audit", "--kubeconfig", path), "credentials")


def assert_one_error(ran: Ran, word: str) -> None:
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    assert word in ran.err


# Snapshots, and files beside the cluster.


@pytest.mark.parametrize("flags", [(), ("--anonymize",)], ids=["plain", "anonymized"])
def test_a_snapshot_shows_the_same_again(
    scene: Scene, auditor: Path, report: Json, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    file = tmp_path / "cluster.snapshot"

    saved = run("snapshot", "save", file, "--kubeconfig", auditor, *flags)

    assert saved.code == 0, saved.err
    again = run("audit", file, "-o", "json").report
    assert [each["code"] for each in again["findings"]] == [each["code"] for each in report["findings"]]
    assert again["points"] == report["points"]
    if flags:
        kept = file.read_text(encoding="utf-8")
        secret = {*scene.nodes, LAB, SHOP, *(uuid for uuids in scene.uuids.values() for uuid in uuids)}
        secret |= {name.partition("/")[2] for name in HELD} | {"trainer-7f9c", "render-5d1b", "large-0", "127.0.0.1"}
        found = {word for word in secret if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", kept)}
        assert not found


def test_files_of_a_node_join_what_the_cluster_says_of_it(scene: Scene, auditor: Path, tmp_path: Path) -> None:
    pod = scene.api.get(f"{fleet.pods_in(SHOP)}/counted-0")
    folder = bundle(tmp_path / "bundle", "infer-2", pod["metadata"]["uid"], scene.uuids["infer-2"][6:])

    joined = node(run("audit", folder, "--kubeconfig", auditor, "-o", "json").report, "infer-2")

    (holder,) = joined["holders"]
    assert (holder["pod"], holder["source"]) == (f"{SHOP}/counted-0", "kubelet checkpoint")
    assert [joined["gpus"][n]["index"] for n in holder["gpus"]] == [6, 7]
    facts = {"Topology Manager": "restricted", "Topology Manager scope": "pod", "CPU manager": "static"}
    assert facts.items() <= joined["facts"].items()
    assert joined["free"] == 6
