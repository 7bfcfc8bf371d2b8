"""Which pods the node still keeps, whatever the API says: by names of folders that go with a pod's last process.

The kernel's control groups tell it, and so does the kubelet's own folder of pods. Only names are read: what lies below
the kubelet's folder is not an agent's business, and a DaemonSet need not mount it.
"""

from collections.abc import Iterator
from pathlib import Path

_TIERS = frozenset({"burstable", "besteffort", "guaranteed"})
_DEPTH = 4


def kept(uids: frozenset[str], pods: Path, cgroups: Path) -> frozenset[str]:
    """Those of the pods that are there; all of them where neither folder can be read.

    Args:
        pods: the kubelet's folder with one folder per pod. cgroups: where the kernel's control groups are mounted.
    """
    told = [names for names in (_names(pods), _groups(cgroups)) if names is not None]
    if not told:
        return uids
    there = " ".join(name for names in told for name in names)
    # systemd's names of slices have _ in the place of -.
    return frozenset(uid for uid in uids if uid in there or uid.replace("-", "_") in there)


def _names(folder: Path) -> list[str] | None:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return None


def _groups(folder: Path) -> list[str] | None:
    """Names of the control groups of pods; None where there is no control group of Kubernetes."""
    found = list(_below(folder, _DEPTH))
    return found if any("kubepods" in name for name in found) else None


def _below(folder: Path, depth: int) -> Iterator[str]:
    """kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice or kubepods/burstable/pod<UID>; in
    version 1 below one folder per controller."""
    for name in _names(folder) or ():
        yield name
        mine = "kubepods" in name or name in _TIERS
        if depth and (mine or depth == _DEPTH) and "pod" not in name.replace("kubepods", ""):
            yield from _below(folder / name, depth - 1)
