"""`atoll topology publish` against a real API server, as a user with the publisher's rights alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.adapters.kube import manifests, names
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.adapters.kube.wire_atoll import GpuNode
from atoll.cli.topology.publish import topology_publish
from atoll.core.errors import AtollError
from atoll.core.facts import Inventory, Source
from tests.realkube import fleet
from tests.realkube.api import ApiError, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        yield plane


@pytest.fixture(scope="module")
def publisher(plane: ControlPlane) -> Path:
    path = plane.user("publisher")
    plane.allow("publisher", manifests.publisher_rules())
    account = plane.connect(path)

    def allowed() -> bool:
        try:
            return account.find(f"{fleet.NODES}/none") is None
        except ApiError:
            return False

    wait_until(allowed, "the publisher's rights to be in force")
    return path


@pytest.fixture
def node(plane: ControlPlane) -> Iterator[str]:
    plane.api.create(fleet.NODES, fleet.gpu_node("n1", 8))
    yield "n1"
    for path in (f"{fleet.NODES}/n1", f"{names.GPU_NODES}/n1"):
        if plane.api.find(path) is not None:
            plane.api.delete(path)


def files_of(machine: str, folder: Path) -> list[str]:
    """What `nvidia-smi topo -m` and `-L` would have printed there."""
    topology = load(machine, machine)
    matrix, gpus = folder / f"{machine}-matrix", folder / f"{machine}-list"
    matrix.write_text(render_matrix(topology))
    gpus.write_text(render_list(topology))
    return [str(matrix), str(gpus)]


def stored(plane: ControlPlane, node: str) -> Inventory | None:
    raw = plane.api.get(f"{names.GPU_NODES}/{node}")
    return inventory_of(msgspec.convert(raw, GpuNode))


def test_what_the_files_say_is_what_the_cluster_holds(
    plane: ControlPlane, publisher: Path, node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of("dgx-a100", tmp_path)

    topology_publish(files, node, publisher)

    uid = plane.api.get(f"{fleet.NODES}/{node}")["metadata"]["uid"]
    topology = read_topology([DumpFile(name, Path(name).read_bytes()) for name in files])
    found = stored(plane, node)
    assert found is not None
    assert replace(found, version="") == Inventory(node, uid, Source.PUBLISHED, topology)
    assert capsys.readouterr().out == "gpunode.atoll.dev/n1 created: 8 GPUs\n"


def test_publishing_again_replaces_all_that_was_there(
    plane: ControlPlane, publisher: Path, node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology_publish(files_of("dgx-a100", tmp_path), node, publisher)
    first = stored(plane, node)

    topology_publish(files_of("l40s-2x4", tmp_path), node, publisher)

    second = stored(plane, node)
    assert first
    assert second
    assert [device.model for device in second.topology.devices] != [device.model for device in first.topology.devices]
    assert "configured" in capsys.readouterr().out


def test_a_node_that_came_back_under_its_name_gets_its_own_inventory(
    plane: ControlPlane, publisher: Path, node: str, tmp_path: Path
) -> None:
    files = files_of("dgx-a100", tmp_path)
    topology_publish(files, node, publisher)
    plane.api.delete(f"{fleet.NODES}/{node}")
    new = plane.api.create(fleet.NODES, fleet.gpu_node(node, 8))["metadata"]["uid"]

    topology_publish(files, node, publisher)

    inventory = stored(plane, node)
    assert inventory is not None
    assert inventory.node_uid == new
    (owner,) = plane.api.get(f"{names.GPU_NODES}/{node}")["metadata"]["ownerReferences"]
    assert owner["uid"] == new


def test_files_without_uuids_are_refused_and_the_remedy_is_named(publisher: Path, node: str, tmp_path: Path) -> None:
    files = [name for name in files_of("dgx-a100", tmp_path) if "list" not in name]

    with pytest.raises(AtollError, match="nvidia-smi -L"):
        topology_publish(files, node, publisher)


def test_files_of_another_machine_are_refused_by_their_number_of_gpus(
    plane: ControlPlane, publisher: Path, node: str, tmp_path: Path
) -> None:
    with pytest.raises(AtollError, match=r"the files list 16 GPUs, the Node's capacity is 8 nvidia\.com/gpu"):
        topology_publish(files_of("sixteen-gpu", tmp_path), node, publisher)

    assert plane.api.find(f"{names.GPU_NODES}/{node}") is None


def test_a_node_that_is_not_there_is_refused(publisher: Path, tmp_path: Path) -> None:
    with pytest.raises(AtollError, match="there is no such Node"):
        topology_publish(files_of("dgx-a100", tmp_path), "n9", publisher)


def test_a_user_without_rights_is_told_what_is_missing(plane: ControlPlane, node: str, tmp_path: Path) -> None:
    with pytest.raises(AtollError, match="403 Forbidden"):
        topology_publish(files_of("dgx-a100", tmp_path), node, plane.user("nobody"))


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AtollError, match="not found"):
        topology_publish(files_of("dgx-a100", tmp_path), "n1", tmp_path / "none")
