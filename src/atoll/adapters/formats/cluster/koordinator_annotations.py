"""The annotations of Koordinator's `Device`: partition table and copied kubelet checkpoint, JSON that may be none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.loose_json import Pairs, plain, read_loosely
from atoll.adapters.formats.text.objects import list_at, text_at
from atoll.core.evidence.reading import Remark, SeenAllocation, SeenPartition

PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
CHECKPOINTS = ("node.koordinator.sh/gpu-checkpoints", "scheduling.koordinator.sh/gpu-checkpoints")
PARTITIONS_MAX = 4096
GPUS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition table.

    Attributes:
        written: whether there is one at all.
        usable: what Koordinator goes by: nothing where the JSON is none, the last of equal keys.
        sizes: the keys as written, even where the rest is unreadable.
        meant: size -> the sets that its author wrote down, comments and repeated keys aside; None = unreadable.
        problem: why Koordinator does not go by all of it, "" if it does.
    """

    written: bool
    usable: tuple[SeenPartition, ...] = ()
    sizes: tuple[str, ...] = ()
    meant: Mapping[str, list[dict[str, Any]]] | None = None
    problem: str = ""
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoints:
    written: bool
    allocations: tuple[SeenAllocation, ...] = ()
    remarks: tuple[Remark, ...] = ()


def partitions(annotations: Mapping[str, Any], line: int) -> Partitions:
    text = annotations.get(PARTITIONS)
    if not isinstance(text, str) or not text.strip():
        return Partitions(written=False)
    loose = read_loosely(text)
    usable = tuple(_sets(loose.value.items())) if isinstance(loose.value, dict) else ()
    problem = loose.problem or ("" if isinstance(loose.value, dict) else "it is no mapping of sizes")
    remarks: tuple[Remark, ...] = ()
    if problem:
        gone = "goes by no partition" if loose.value is None else "goes by a part of it"
        remarks = (Remark("UnreadableAnnotation", f"{PARTITIONS}: {problem}, so Koordinator {gone}.", line),)
    meant: dict[str, list[dict[str, Any]]] | None = None
    if isinstance(loose.meant, Pairs):
        meant = {}
        for found in _sets(loose.meant):
            meant.setdefault(str(found.size), []).append({"minors": list(found.members), "link": found.link})
    return Partitions(written=True, usable=usable, sizes=loose.keys, meant=meant, problem=problem, remarks=remarks)


def _sets(entries: Value) -> Iterator[SeenPartition]:
    for count, (size, sets) in enumerate(entries):
        if count >= GPUS_MAX or not (size.isascii() and size.isdigit() and len(size) < 5):
            continue
        for each in [plain(one) for one in sets][:PARTITIONS_MAX] if isinstance(sets, list) else ():
            minors = [minor for minor in list_at(each, "minors") if _is_minor(minor)]
            if minors and len(minors) == len(list_at(each, "minors")):
                yield SeenPartition(int(size), tuple(minors), text_at(each, "gpuLinkType"))


def _is_minor(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < GPUS_MAX


def checkpoints(annotations: Mapping[str, Any], line: int) -> Checkpoints:
    """What the kubelet's checkpoint said when the agent copied it."""
    key = next((key for key in CHECKPOINTS if isinstance(annotations.get(key), str)), "")
    if not key:
        return Checkpoints(written=False)
    loose = read_loosely(annotations[key])
    if not isinstance(loose.value, list):
        problem = loose.problem or "it is no list"
        return Checkpoints(written=True, remarks=(Remark("UnreadableAnnotation", f"{key}: {problem}.", line),))
    return Checkpoints(written=True, allocations=tuple(filter(None, map(_checkpoint, loose.value))))


def _checkpoint(entry: Value) -> SeenAllocation | None:
    ids = tuple(each for each in list_at(entry, "deviceIDs") if isinstance(each, str))[:GPUS_MAX]
    if not ids:
        return None
    return SeenAllocation(
        container=text_at(entry, "containerName"),
        resource=text_at(entry, "resourceName"),
        devices=(("", ids),),
        pod_uid=text_at(entry, "podUID"),
    )
