"""docs/command-mode.md from its first command to its last, on a node whose GPUs are in use: a pod that ran before
runs on, through installation, upgrade and removal, and keeps its GPUs.

What `kubectl` would do is done here; what a DaemonSet would start on the node is started beside it.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_readme import FENCE
from tests.e2e.commanded_site import CommandedSite
from tests.e2e.installation import ATOLL, KINDS
from tests.e2e.observed_site import NVLINKS, PCIE
from tests.e2e.one_commanded import Spot
from tests.e2e.one_commanded import shim as restart_shim
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_agent import RealAgent, gpu_uuid
from tests.realkube.real_node import FEATURES, RealNode
from tests.realkube.real_shim import RealShim

pytestmark = [pytest.mark.e2e, needs_mounts]

PAGE = (Path(__file__).parents[2] / "docs" / "command-mode.md").read_text()
NODE = "n1"


@pytest.fixture
def spot() -> Iterator[Spot]:
    """A node that Atoll knows nothing of, beside an installation without agents."""
    with ControlPlane(feature_gates=FEATURES) as plane, GpuAllocator() as allocator:
        gpus = [Gpu(gpu_uuid(0, n), n // 4) for n in range(8)]
        node = RealNode(plane, NODE, gpus, PCIE, NVLINKS, allocator, "restricted")
        node.start()
        node.plugin.follow()
        plane.api.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"pool": "training"}}})
        yield Spot(CommandedSite(plane, {NODE: node}), NODE)
        node.stop()


def test_a_pod_runs_through_all_of_it(spot: Spot) -> None:
    fleet.create_pods(spot.site.atoll.api, [fleet.gpu_pod("before", 3, nodeName=NODE)])
    before = spot.site.running("before")[1]
    installing, upgrading, removing = (blocks_of(title) for title in ("Installing", "Upgrading", "Taking"))

    commands, gate, volume, pool, works = (body for _, body in installing)
    for line in commands.splitlines():
        carry_out(spot, line)
    start_daemons(spot)
    for line in gate.splitlines():
        carry_out(spot, line)
    assert spot.runs_still("before")

    path = yaml.safe_load(volume)["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"]
    assert path == "/var/lib/atoll/device-plugins"
    move_plugin(spot, Path(str(spot.node.plugin_folder)))
    spot.restarts_with("before", before)

    spot.site.atoll.plane.apply(pool)
    wait_until(spot.site.open, "the node to be open", 60, spot.site.atoll.metrics)
    for line in works.splitlines():
        carry_out(spot, line)
    spot.until_held(before=before)
    commanded = spot.runs("commanded", 4)
    spot.until_held(before=before, commanded=commanded)

    assert upgrading == []
    spot.strike(restart_shim)
    assert spot.runs_still("before")
    spot.restarts_with("commanded", commanded)
    fleet.remove(spot.site.atoll.api, "commanded")
    again = spot.runs("again", 4)

    ((_, commands),) = removing
    patch, delete = commands.splitlines()
    carry_out(spot, patch)
    move_plugin(spot, spot.node.folder / "plugins")
    carry_out(spot, delete)
    spot.shim.stop()
    spot.node.until_offered()
    wait_until(lambda: spot.site.observes(NODE) and spot.site.open(), "the node to be observed", 60)
    spot.restarts_with("before", before)
    spot.restarts_with("again", again)
    spot.until_held(before=before, again=again)
    fleet.remove(spot.site.atoll.api, "again")
    spot.ask("observed", 4)
    observed = spot.site.running("observed")[1]
    assert observed in spot.box.islands
    spot.until_held(before=before, observed=observed)


def blocks_of(title: str) -> list[tuple[str, str]]:
    """The fenced blocks of a section, each with its language."""
    (section,) = re.findall(rf"^## {title}\b.*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return FENCE.findall(section)


def carry_out(spot: Spot, line: str) -> None:
    """A line of a console: `atoll …` piped into kubectl, or kubectl alone."""
    plane, text = spot.site.atoll.plane, ""
    for part in line.removeprefix("$ ").split("|"):
        words = shlex.split(part, comments=True)
        match words:
            case ["atoll", *told]:
                text = subprocess.run([*ATOLL, *told], capture_output=True, text=True, timeout=60, check=True).stdout
            case ["kubectl", "apply", "-f", "-"]:
                plane.apply(text)
            case ["kubectl", "delete", "-f", "-"]:
                for each in yaml.safe_load_all(text):
                    plane.api.delete(path_of(each))
            case ["kubectl", "patch", "gpunodeconfig", name, "--type", "merge", "-p", patch]:
                plane.api.patch(f"{KINDS}/gpunodeconfigs/{name}", json.loads(patch))
            case ["kubectl", "-n", namespace, "rollout" | "get", *_, daemon] if daemon.endswith("atoll-shim"):
                assert plane.api.find(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/atoll-shim")
            case ["kubectl", "-n", namespace, "get", "lease", "atoll-shim.NODE", "-o", path]:
                lease = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/atoll-shim.{NODE}")
                assert path == r"jsonpath={.metadata.annotations.atoll\.dev/commands}"
                assert lease["metadata"]["annotations"]["atoll.dev/commands"] == "strip"
            case ["kubectl", "-n", _, "logs", "daemonset/atoll-shim"]:
                assert "not_passed_on" not in spot.shim.piece.tail(20)
            case _:
                raise AssertionError(f"a command that this test does not know: {line}")


def path_of(printed: dict[str, Any]) -> str:
    group, kind = printed["apiVersion"], printed["kind"].lower()
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    metadata = printed["metadata"]
    plural = f"{kind}s"
    where = f"namespaces/{metadata['namespace']}/{plural}" if "namespace" in metadata else plural
    return f"{root}/{where}/{metadata['name']}"


def start_daemons(spot: Spot) -> None:
    spot.node.plugin_folder = spot.node.folder / "private"
    shim = spot.site.shims[NODE] = RealShim(spot.node)
    shim.prepare()
    shim.start()
    agent = spot.site.agents[NODE] = RealAgent(spot.node)
    agent.prepare()
    agent.start()
    wait_until(lambda: bool(spot.site.told(NODE)), "the node to be told of", 60)


def move_plugin(spot: Spot, folder: Path) -> None:
    """Its pod is replaced by one with another volume."""
    with spot.node.plugin.starting:
        spot.node.plugin.stop()
        spot.node.plugin.folder = folder
        spot.node.plugin.start()
    spot.node.until_offered()
