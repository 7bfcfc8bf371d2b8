"""`mx-smi topo -m` and `-n`: the GPUs of a MetaX node, the MetaXLinks between them, and perhaps its NICs.

Its matrix looks like that of nvidia-smi; what tells them apart is the banner, the class MX, or the heading
"Node Affinity".
"""

import re

from atoll.adapters.formats.nvidia_smi.tokens import NIC_LABEL
from atoll.adapters.formats.squares.link_matrix import read_link_matrix
from atoll.adapters.formats.squares.square import Grammar, find_square
from atoll.adapters.formats.text.text import DumpText
from atoll.core.evidence.reading import Format, Reading, Remark, Source
from atoll.core.topology import LinkKind, PairLink

_GRAMMAR = Grammar(
    device=re.compile(r"GPU#?\d{1,3}"),
    cell=re.compile(r"(?!GPU)[A-Z][A-Z0-9_]{0,15}|N/A"),
    other=NIC_LABEL,
)
_CLASSES = {
    **{word: PairLink(None, 1, LinkKind.METAXLINK) for word in ("MX", "MXL")},
    **{f"MX{count}": PairLink(None, count, LinkKind.METAXLINK) for count in range(1, 65)},
    "ETH": PairLink(None, 0),
}
_MARKS = re.compile(r"\bmx-smi\b|MetaX|\bNode Affinity\b", re.IGNORECASE)
_CELL = re.compile(r"^[ \t>#|]*GPU#?\d{1,3}\b.*\sMX\b", re.MULTILINE)
_ATTACHED = re.compile(r"Attached GPUs\s{0,200}:\s{0,200}(\d{1,4})\b")
_VERSION = re.compile(r"(?:mx-smi\s{1,20}version\s{0,20}:\s{0,20}|MX-SMI\s{1,20})(\d[\w.]{0,30})")
_DRIVER = re.compile(r"Kernel Mode Driver Version\s{0,20}:\s{0,20}(\d[\w.]{0,30})")
_LINE_MAX = 4096


def recognises(text: DumpText) -> bool:
    if not (_first(text, _MARKS) or any("MX" in line and _CELL.match(line) for line in text.lines)):
        return False
    return find_square(text, _GRAMMAR) is not None


def read(text: DumpText) -> tuple[Reading, ...]:
    """The one matrix of the text.

    Raises:
        DumpError: it is missing or cannot be trusted.
    """
    line = find_square(text, _GRAMMAR)
    if line is None:
        raise text.line_refusal(1, found="no matrix of mx-smi", expected="`mx-smi topo -m` or `mx-smi topo -n`")
    matrix = read_link_matrix(text, line, _GRAMMAR, name="topo", classes=_CLASSES)
    remarks = list(matrix.remarks)
    attached = _first(text, _ATTACHED)
    if attached is not None and int(attached[0]) != len(matrix.gpus):
        told = f"mx-smi counts {int(attached[0])} attached GPUs and lists {len(matrix.gpus)}."
        remarks.append(Remark("IncompleteInventory", told, attached[1]))
    versions = (("mx-smi", _first(text, _VERSION)), ("driver", _first(text, _DRIVER)))
    return (
        Reading(
            Source(Format.MX_SMI, text.name, line),
            gpus=matrix.gpus,
            links=matrix.links,
            tables=(matrix.table,),
            nics=matrix.nics,
            versions=tuple((name, found[0]) for name, found in versions if found),
            remarks=tuple(remarks),
        ),
    )


def _first(text: DumpText, pattern: re.Pattern[str]) -> tuple[str, int] | None:
    """What the pattern finds first, its group where it has one, and the line."""
    for number, line in enumerate(text.lines, 1):
        if len(line) <= _LINE_MAX and (found := pattern.search(line)):
            return found[found.re.groups], number
    return None
