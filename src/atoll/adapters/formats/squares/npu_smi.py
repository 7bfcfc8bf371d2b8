"""`npu-smi info -t topo` and `npu-smi info -m`: the NPUs of an Ascend node.

A device that cannot tell its topology answers with a sentence. That is no answer of "no devices".
"""

import re

from atoll.adapters.formats.squares.link_matrix import read_link_matrix
from atoll.adapters.formats.squares.square import DEVICES_MAX, Grammar, find_square
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import Format, Reading, Remark, SeenGpu, Source
from atoll.core.topology import LinkKind, PairLink

_GRAMMAR = Grammar(
    device=re.compile(r"(?:NPU|Phy-?ID|Chip|Device)[-_]?\d{1,4}", re.IGNORECASE),
    cell=re.compile(r"[A-Z][A-Z0-9_]{0,15}|N/A"),
)
_CLASSES = {
    "HCCS": PairLink(None, 1, LinkKind.HCCS),
    "HCCS_SW": PairLink(None, 1, LinkKind.HCCS),  # HCCS through a switch
    "UB": PairLink(None, 1, LinkKind.UB),
    "SIO": PairLink(None, 1, LinkKind.SIO),
}
_UNSUPPORTED = re.compile(
    r"\bnot\s{1,8}support(?:ed)?(?:\s{1,8}[\w-]{1,20}){0,3}\s{1,8}topo|"
    r"^\W{0,40}topo\w{0,8}(?:\s{1,8}[\w-]{1,20}){0,3}\s{1,8}not\s{1,8}support",
    re.IGNORECASE,
)
_MAP_HEADING = re.compile(r"\|?\s*NPU ID\s{1,200}Chip ID\s{1,200}(?P<columns>\S.*)")
_MAP_ROW = re.compile(r"\|?\s*(\d{1,4})\s{1,200}(\d{1,4})\s{1,200}(\d{1,4}|-)\s(.*)")
_ANSWER_LINES_MAX = 40
_LINE_MAX = 4096


def recognises(text: DumpText) -> bool:
    return find_square(text, _GRAMMAR) is not None or _map_heading(text) is not None or _unsupported(text) is not None


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading for the matrix and one for the list of chips, as far as they are there.

    Raises:
        DumpError: what is there cannot be trusted.
    """
    readings: list[Reading] = []
    if (line := find_square(text, _GRAMMAR)) is not None:
        matrix = read_link_matrix(text, line, _GRAMMAR, name="topo", classes=_CLASSES)
        readings.append(
            Reading(
                Source(Format.NPU_SMI, text.name, line),
                gpus=matrix.gpus,
                links=matrix.links,
                tables=(matrix.table,),
                remarks=matrix.remarks,
            )
        )
    elif (line := _unsupported(text)) is not None:
        said = quoted(text.lines[line - 1].strip())
        remark = Remark("NotSupported", f"npu-smi cannot tell the topology of this device: {said}.", line)
        readings.append(Reading(Source(Format.NPU_SMI, text.name, line), remarks=(remark,)))
    if (line := _map_heading(text)) is not None:
        readings.append(_read_map(text, line))
    if not readings:
        raise text.line_refusal(1, found="no table of npu-smi", expected="`npu-smi info -t topo` or `npu-smi info -m`")
    return tuple(readings)


def _unsupported(text: DumpText) -> int | None:
    """The line of the answer that this device cannot tell. A long text is some other file that mentions it."""
    lines = [(number, line) for number, line in enumerate(text.lines, 1) if line and not line.isspace()]
    if len(lines) > _ANSWER_LINES_MAX:
        return None
    return next((number for number, line in lines if len(line) <= _LINE_MAX and _says_unsupported(line)), None)


def _says_unsupported(line: str) -> bool:
    return "nvidia" not in line and _UNSUPPORTED.search(line) is not None


def _map_heading(text: DumpText) -> int | None:
    for number, line in enumerate(text.lines, 1):
        if "NPU ID" in line and len(line) <= _LINE_MAX and _MAP_HEADING.match(line.lstrip()):
            return number
    return None


def _read_map(text: DumpText, heading: int) -> Reading:
    """`npu-smi info -m`: which chip sits on which card. Controllers (Mcu) have no logic ID and are no devices."""
    gpus: dict[int, SeenGpu] = {}
    cards: dict[int, int] = {}
    for number in range(heading + 1, len(text.lines) + 1):
        line = text.lines[number - 1]
        row = _MAP_ROW.match(line.strip()) if len(line) <= _LINE_MAX else None
        if row is None:
            if line.strip(" \t\r|+-="):
                break
            continue
        if row[3] == "-":
            continue
        index, rest = int(row[3]), row[4].replace("|", " ").split()
        while rest and (rest[0].isdigit() or rest[0] == "-"):
            rest = rest[1:]  # the physical id, which newer versions print before the name
        if index in gpus or len(gpus) == DEVICES_MAX:
            raise text.line_refusal(number, found=f"chip {index} twice, or too many", expected="the chips of one node")
        gpus[index] = SeenGpu(f"NPU{index}", index=index, model=" ".join(rest)[:80] or None)
        cards[index] = int(row[1])
    if not gpus:
        raise text.line_refusal(heading, found="a heading without chips", expected="a row for each chip")
    order = sorted(gpus)
    return Reading(
        Source(Format.NPU_SMI, text.name, heading),
        gpus=tuple(gpus[index] for index in order),
        extras={"cards": [cards[index] for index in order]},
    )
