"""`nvidia-smi -L`: index, model and UUID of each GPU, and the MIG devices that it is split into."""

import re
from dataclasses import replace

from atoll.adapters.formats.nvidia_smi.header import GPUS_MAX
from atoll.adapters.formats.nvidia_smi.headings import begins_other_output
from atoll.adapters.formats.nvidia_smi.uuids import uuid_remarks
from atoll.adapters.formats.text.sections import Span, cut
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import LINE_PREFIX
from atoll.core.errors import quoted
from atoll.core.evidence.identity import plain_uuid
from atoll.core.evidence.reading import Format, MigDevice, Reading, SeenGpu, Source

EXPECTED = "GPU <index>: <model> (UUID: GPU-<hex>)"

LISTS_MAX = 64

_LISTED = re.compile(r"GPU\s+\d+:|MIG\s+\S+\s+Device\s")
_QUERIED = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_UUID = r"GPU-[0-9A-Za-z*]{8}(?:-[0-9A-Za-z*]{4}){3}-[0-9A-Za-z*]{12}"  # authors put letters beyond f into them
_GPU = re.compile(rf"GPU (0|[1-9]\d{{0,2}}): (\S(?:(?!UUID:).){{0,126}}?) \(UUID: ({_UUID})\)")
_MIG = re.compile(r"MIG (\S{1,64})\s+Device\s+(\d{1,3}): \(UUID: (MIG-[0-9A-Za-z*/-]{1,100})\)")
_INSTANCES = re.compile(r"MIG-GPU-.*/(\d{1,3})/(\d{1,3})")  # until driver 470
_LINKS_COMMAND = re.compile(r"nvidia-smi\s+(?:nvlink|c2c)\b")
_LINK_LINE = re.compile(r"\s*(?:C2C )?Link \d|.*nvlink|.*C2C|.*all links are inactive", re.IGNORECASE)


def recognises(text: DumpText) -> bool:
    """Whether a list of `-L` is somewhere in the text."""
    return bool(_spans(text))


def read(text: DumpText) -> tuple[Reading, ...]:
    """Every list of `-L` in the text, in order.

    Raises:
        DumpError: a list is damaged, or has a gap.
    """
    spans = _spans(text)
    return tuple(_reading(part, first) for part, (first, _) in zip(cut(text, spans), spans, strict=True))


def _reading(text: DumpText, first: int) -> Reading:
    listed = _parse(text)
    if list(listed) != list(range(len(listed))):
        raise text.line_refusal(
            first, found=f"a list of GPUs {', '.join(map(str, listed))}", expected="GPUs from 0 without a gap",
            remedy="Is a line missing?",
        )  # fmt: skip
    gpus = tuple(gpu for gpu, _ in listed.values())
    return Reading(Source(Format.NVIDIA_SMI_LIST, text.name, first), gpus=gpus, remarks=uuid_remarks(listed.values()))


def _spans(text: DumpText) -> list[Span]:
    """The first and last line of each list. `nvlink -s` names each GPU in the same way, which is no list."""
    spans: list[Span] = []
    first = last = 0  # of the list that is open, 0 = none
    links = False  # what follows is the output of `nvlink`
    for number, line in enumerate(text.lines, 1):
        body = line.lstrip(LINE_PREFIX)
        queried = _QUERIED.match(body) is not None
        listed = body.startswith(("GPU", "MIG")) and not queried and _LISTED.match(body) is not None
        if listed and not links:
            first, last = first or number, number
        elif first and ("UUID:" in body or body.startswith(("GPU ", "MIG "))) and not queried:
            last = number  # damaged, which the list's reader refuses
        elif first and _LINK_LINE.match(line):
            first, links = 0, True
        elif (first or links or "nvidia-smi" in line) and (queried or begins_other_output(line)):
            if first:
                spans.append((first, last))
            first, links = 0, _LINKS_COMMAND.search(line) is not None or (links and "nvidia-smi" not in line)
        if len(spans) > LISTS_MAX:
            raise text.line_refusal(
                number, found=f"more than {LISTS_MAX} lists of GPUs", expected="a capture of one node"
            )
    return [*spans, (first, last)] if first else spans


def _parse(text: DumpText) -> dict[int, tuple[SeenGpu, int]]:
    """Read the list of one node: index -> GPU and the line that names it, in order.

    Raises:
        DumpError: a line is damaged, or an index or UUID is listed twice.
    """
    gpus: dict[int, tuple[SeenGpu, int]] = {}
    last: int | None = None
    for number, line in enumerate(text.lines, 1):
        body = line.lstrip(LINE_PREFIX).rstrip()
        if not _LISTED.match(body):
            if "UUID:" in body or body.startswith(("GPU ", "MIG ")):
                raise text.line_refusal(number, found=quoted(body), expected=EXPECTED, remedy=_remedy(body))
            continue  # a prompt or a log line
        if last is not None and (device := _mig_device(body)):
            owner, line_of_owner = gpus[last]
            if any(other.index == device.index for other in owner.mig_devices):
                raise text.line_refusal(
                    number, found=f"MIG device {device.index} of GPU {last} twice", expected="each MIG device once"
                )
            gpus[last] = replace(owner, mig_devices=(*owner.mig_devices, device)), line_of_owner
            continue
        match = _GPU.fullmatch(body)
        if match is None:
            raise text.line_refusal(number, found=quoted(body), expected=EXPECTED, remedy=_remedy(body))
        index, uuid = int(match[1]), plain_uuid(match[3])
        if index in gpus or any(other.uuid == uuid for other, _ in gpus.values()):
            raise text.line_refusal(
                number, found=f"GPU {index} ({uuid}) beside an equal index or UUID", expected="each GPU once",
                remedy="Lists of two nodes must be given one by one.",
            )  # fmt: skip
        if len(gpus) == GPUS_MAX:
            raise text.line_refusal(number, found=f"more than {GPUS_MAX} GPUs", expected="the list of one node")
        gpus[index] = SeenGpu(f"GPU{index}", index=index, uuid=uuid, model=match[2]), number
        last = index
    return dict(sorted(gpus.items()))


def _mig_device(body: str) -> MigDevice | None:
    match = _MIG.fullmatch(body)
    if match is None:
        return None
    instances = _INSTANCES.fullmatch(match[3])
    return MigDevice(
        int(match[2]),
        profile=match[1],
        gpu_instance=int(instances[1]) if instances else None,
        compute_instance=int(instances[2]) if instances else None,
        uuid=plain_uuid(match[3]),
    )


def _remedy(line: str) -> str:
    return "Is this `nvidia-smi -q`? Give `nvidia-smi -L`." if _QUERIED.match(line) else "Is the list truncated?"
