"""Which pods a node still keeps, by names of folders alone."""

from pathlib import Path

import pytest

from atoll.adapters.node.kept import kept

UID, OTHER = "0a1b2c3d-1111-4222-8333-444455556666", "ffffffff-1111-4222-8333-444455556666"
BOTH = frozenset({UID, OTHER})


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

    assert kept(BOTH, tmp_path / "none", tmp_path) == {UID}


def test_so_does_its_folder_in_that_of_the_kubelet(tmp_path: Path) -> None:
    (tmp_path / UID).mkdir()

    assert kept(BOTH, tmp_path, tmp_path / "none") == {UID}


def test_either_of_them_is_enough(tmp_path: Path) -> None:
    (tmp_path / "pods" / UID).mkdir(parents=True)
    (tmp_path / "groups/kubepods" / f"pod{OTHER}").mkdir(parents=True)

    assert kept(BOTH, tmp_path / "pods", tmp_path / "groups") == BOTH


def test_a_machine_that_shows_neither_may_keep_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "system.slice").mkdir()

    assert kept(BOTH, tmp_path / "none", tmp_path) == BOTH
