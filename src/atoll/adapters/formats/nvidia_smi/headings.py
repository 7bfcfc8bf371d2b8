"""Where matrices begin in a text, and which of them are `topo -m`, which `topo -p2p`, and which another tool's.

They all begin with a line of GPU labels. The words of their rows tell them apart; a damaged row of `topo -m` is still
one of `topo -m`, so that its reader can say what is wrong with it.
"""

import re
from enum import StrEnum

from atoll.adapters.formats.nvidia_smi.header import WRAPPED_LINES_MAX
from atoll.adapters.formats.nvidia_smi.tokens import CELLS, GLUED_LABELS, GPU_LABEL, NIC_LABEL, SELF
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import is_rule, words

MATRICES_MAX = 64
LEGEND_AFTER_MAX = 12
CANDIDATES_MAX = 2_000
HEADING_MAX = 16_384

STATUSES = frozenset({"OK", "CNS", "GNS", "TNS", "DR", "NS", "U"})
"""The cells of `topo -p2p` beside X: OK, chipset, GPU or topology not supported, disabled, not supported, unknown."""

_FOREIGN = frozenset({"MX", "ETH", "NA", "XGMI", "PCIE", "True", "False", "HCCS", "HCCS_SW", "SIO"})
_TAIL = frozenset({"CPU", "NUMA", "Affinity", "affinity", "ID", "GPU", "...", "…"})
_COMMAND = re.compile(r"(?:nvidia-smi|ixsmi|rocm-smi|amd-smi|mx-smi)\b")
_RULE = re.compile(r"\s*([#=_*+-])\1{9,}")


class Kind(StrEnum):
    """Which command printed a matrix."""

    TOPO = "topo -m"
    P2P = "topo -p2p"
    OTHER = "another tool"


def is_heading(tokens: list[str]) -> bool:
    """Whether a line has GPU labels where a heading has them, and no row begins here."""
    if tokens[:1] == ["GPU"]:
        tokens = tokens[1:]
    if not tokens or GLUED_LABELS.fullmatch(tokens[0]) is None:
        return False
    second = tokens[1] if len(tokens) > 1 else ""
    return not second or (
        second not in CELLS and (second.startswith("GPU") or second in _TAIL or NIC_LABEL.fullmatch(second) is not None)
    )


def kind_at(text: DumpText, number: int) -> Kind | None:
    """Which matrix begins at this line; None when none does."""
    tokens = words(text.lines[number - 1])
    if not is_heading(tokens):
        return None
    if "Node" in tokens:
        return Kind.OTHER  # MetaX calls the column Node Affinity
    rows = 0
    only_self = True
    for line in text.lines[number : number + WRAPPED_LINES_MAX + LEGEND_AFTER_MAX]:
        row = words(line)
        if rows and row[:2] == ["OK", "="]:
            return Kind.P2P if only_self else Kind.TOPO
        if len(row) < 2 or GPU_LABEL.fullmatch(row[0]) is None or is_heading(row):
            if rows and row and is_heading(row):
                break
            continue
        cells = set(row[1:])
        if cells & STATUSES:
            return Kind.P2P
        if cells & _FOREIGN or row[1] == "N/A" or row[1][0].isdigit():
            return Kind.OTHER
        rows += 1
        only_self = only_self and cells == {SELF}
        if not only_self:
            return Kind.TOPO
    if rows:
        return Kind.TOPO
    whole = all(GLUED_LABELS.fullmatch(word) or NIC_LABEL.fullmatch(word) or word in _TAIL for word in tokens)
    return Kind.TOPO if whole and len(tokens) > 1 else None


def begins_other_output(line: str) -> bool:
    """Whether a line of a capture ends what stood above it: a command, or a rule drawn over the width."""
    return _RULE.match(line) is not None or (_COMMAND.search(line) is not None and not is_rule(line))


def headings(text: DumpText) -> list[tuple[int, Kind]]:
    """The lines at which matrices begin. Labels that wrapped out of a row may be among them."""
    found: list[tuple[int, Kind]] = []
    candidates = 0
    for number, line in enumerate(text.lines, 1):
        if "GPU" not in line or len(line) > HEADING_MAX or not is_heading(words(line)):
            continue
        candidates += 1
        if candidates > CANDIDATES_MAX:
            break
        kind = kind_at(text, number)
        if kind is not None:
            found.append((number, kind))
    return found
