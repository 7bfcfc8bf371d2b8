"""Of which pods something runs, whatever the API says: by names of folders that go with a pod's last process.

The kernel's control groups tell it. Where there are none of Kubernetes, the kubelet's own folder of pods does, which a
DaemonSet need not mount: it is second, since a volume that cannot be unmounted keeps a pod's folder there for ever.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_TIERS = frozenset({"burstable", "besteffort", "guaranteed"})
_DEPTH = 4
_UID = re.compile(r"(?:^|pod)([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12})(?![0-9a-f])")
"""systemd's names of slices have _ in the place of -. A static pod goes by a hash, and the API never knows that."""


def kept(pods: Path, cgroups: Path) -> frozenset[str] | None:
    """UIDs of pods; None where neither folder can be read.

    Args:
        pods: the kubelet's folder with one folder per pod. cgroups: where the kernel's control groups are mounted.
    """
    names = _groups(cgroups)
    if names is None:
        names = _names(pods)
    if names is None:
        return None
    return frozenset(found[1].replace("_", "-") for name in names if (found := _UID.search(name)))


def _names(folder: Path) -> list[str] | None:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return None


def _groups(folder: Path) -> list[str] | None:
    """Names of the control groups of pods; None where there is no control group of Kubernetes."""
    found = list(_below(folder, _DEPTH))
    return [name for name in found if "pod" in name] if any("kubepods" in name for name in found) else None


def _below(folder: Path, depth: int) -> Iterator[str]:
    """kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice or kubepods/burstable/pod<UID>; in
    version 1 below one folder per controller."""
    for name in _names(folder) or ():
        yield name
        mine = "kubepods" in name or name in _TIERS
        if depth and (mine or depth == _DEPTH) and "pod" not in name.replace("kubepods", ""):
            yield from _below(folder / name, depth - 1)
