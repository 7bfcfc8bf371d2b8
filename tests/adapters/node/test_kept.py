"""Which pods a node still keeps, by names of folders alone."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll.adapters.node.kept import kept

UID, OTHER = "0a1b2c3d-1111-4222-8333-444455556666", "ffffffff-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    "group",
    [
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        f"kubepods/besteffort/pod{UID}",
        f"kubepods/pod{UID}",
        f"memory/kubepods/burstable/pod{UID}",
        f"system.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
    ],
)
def test_a_control_group_tells_that_a_pod_is_there(tmp_path: Path, group: str) -> None:
    (tmp_path / group / "cri-containerd-1").mkdir(parents=True)

    assert kept(tmp_path / "none", tmp_path) == {UID}


def test_where_there_is_none_its_folder_in_that_of_the_kubelet_does(tmp_path: Path) -> None:
    (tmp_path / UID).mkdir()

    assert kept(tmp_path, tmp_path / "none") == {UID}


def test_a_folder_that_a_stuck_volume_left_behind_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "pods" / UID).mkdir(parents=True)
    (tmp_path / "groups/kubepods" / f"pod{OTHER}").mkdir(parents=True)

    assert kept(tmp_path / "pods", tmp_path / "groups") == {OTHER}


def test_a_group_without_a_process_keeps_nothing(tmp_path: Path) -> None:
    """The kubelet keeps a pod's group while a volume of it cannot be unmounted."""
    for uid, populated in ((UID, 0), (OTHER, 1)):
        group = tmp_path / "kubepods.slice" / f"kubepods-pod{uid.replace('-', '_')}.slice"
        group.mkdir(parents=True)
        (group / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")

    assert kept(tmp_path / "none", tmp_path) == {OTHER}


def test_in_version_1_the_processes_are_listed_below_it(tmp_path: Path) -> None:
    for controller in ("memory", "pids"):
        for uid, processes in ((UID, ""), (OTHER, "4711\n")):
            container = tmp_path / controller / "kubepods/burstable" / f"pod{uid}" / "0123"
            container.mkdir(parents=True)
            (container / "cgroup.procs").write_text(processes)
            (container.parent / "cgroup.procs").write_text("")

    assert kept(tmp_path / "none", tmp_path) == {OTHER}


def test_a_group_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = tmp_path / "kubepods.slice/kubepods-burstable.slice"
    tier.mkdir(parents=True)
    whole = Path.iterdir

    def broken(folder: Path) -> Iterator[Path]:
        if folder == tier:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return whole(folder)

    monkeypatch.setattr(Path, "iterdir", broken)

    assert kept(tmp_path / "none", tmp_path) is None


def test_a_node_without_pods_keeps_none(tmp_path: Path) -> None:
    (tmp_path / "kubepods.slice").mkdir()

    assert kept(tmp_path / "none", tmp_path) == frozenset()


@pytest.mark.parametrize("static", ["0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef01234567"])
def test_a_static_pod_goes_by_a_hash_that_the_api_never_knows(tmp_path: Path, static: str) -> None:
    (tmp_path / f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{static}.slice").mkdir(parents=True)
    (tmp_path / "kubepods.slice/kubepods-libpod_0a1b2c3d.slice").mkdir()

    assert kept(tmp_path / "none", tmp_path) == frozenset()


def test_a_machine_that_shows_neither_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "system.slice").mkdir()

    assert kept(tmp_path / "none", tmp_path) is None
