"""Of which pods something runs, whatever the API says: by names of folders, and by nothing else of a pod.

The kernel's control groups tell it, where there are processes in them: the kubelet keeps a pod's group for as long as
one of its volumes cannot be unmounted. Where there are no groups of Kubernetes, the kubelet's own folder of pods is
looked at, which a DaemonSet need not mount, and where such a pod stays as well.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TIERS = frozenset({"burstable", "besteffort", "guaranteed"})
_DEPTH = 4
_UID = re.compile(r"(?:^|pod)([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12})(?![0-9a-f])")
"""systemd's names of slices have _ in the place of -. A static pod goes by a hash, unless its manifest names a UID."""


def kept(pods: Path, cgroups: Path) -> frozenset[str] | None:
    """UIDs of pods; None where nothing tells, or something cannot be read.

    Args:
        pods: the kubelet's folder with one folder per pod. cgroups: where the kernel's control groups are mounted.
    """
    try:
        groups = list(_below(cgroups, _DEPTH))
        if any("kubepods" in group.name for group in groups):
            return _uids(group.name for group in groups if "pod" in group.name and _is_alive(group))
        return _uids(each.name for each in pods.iterdir())
    except OSError:
        return None


def _uids(names: Iterator[str]) -> frozenset[str]:
    return frozenset(found[1].replace("_", "-") for name in names if (found := _UID.search(name)))


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice or kubepods/burstable/pod<UID>; in
    version 1 below one folder per controller.

    Raises:
        OSError: a folder that is there cannot be read: what is in it would look as if it did not run.
    """
    try:
        found = [each for each in folder.iterdir() if each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in found:
        yield each
        mine = "kubepods" in each.name or each.name in _TIERS
        if depth and (mine or depth == _DEPTH) and "pod" not in each.name.replace("kubepods", ""):
            yield from _below(each, depth - 1)


def _is_alive(group: Path) -> bool:
    """Whether a process is in the group or below it. Raises: OSError: that cannot be read."""
    with suppress(FileNotFoundError):  # version 1 has no such file
        return "populated 0" not in (group / "cgroup.events").read_text().splitlines()
    try:
        told = [group / "cgroup.procs", *(each / "cgroup.procs" for each in group.iterdir() if each.is_dir())]
        lists = [each for each in told if each.exists()]
        return not lists or any(each.read_text().strip() for each in lists)
    except FileNotFoundError:
        return False  # it went while we looked
