"""`lspci -t`, with or without -v: which bridge leads to which bus, drawn with `+-`, `\\-` and `|` in fixed columns.

A branch belongs to the bus that was opened in its column. So columns are the only thing that carries meaning, and a
tree whose columns do not fit (a line is missing, blanks were collapsed) is refused: it would hang a GPU under a bridge
that is not its own.
"""

import re
from dataclasses import dataclass, field

from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted

DEPTH_MAX = 64
FUNCTIONS_MAX = 65_536
WRAPPED_FROM = 60
"""A terminal narrower than this is not met; shorter lines are whole."""
PIECES_MAX = 4
NAME_MAX = 400

REMEDY = "Save the output of `lspci -tv` to a file: copying may lose blanks or lines."

_DOMAIN = r"(?:([0-9a-f]{4,8}):)?"
_START = re.compile(rf"\s*-(?:\+-)?\[{_DOMAIN}[0-9a-f]{{2}}\]-")
_BRANCH = re.compile(r"([ |]*)([+\\])-")
_ROOT = re.compile(rf"\[{_DOMAIN}([0-9a-f]{{2}})\]")
_FUNCTION = re.compile(r"([01][0-9a-f]\.[0-7])")
_BEHIND = re.compile(rf"-\[{_DOMAIN}([0-9a-f]{{2}})(?:-(?:[0-9a-f]{{4,8}}:)?[0-9a-f]{{2}})?\]")
_DASHES = re.compile(r"-*")


@dataclass(frozen=True, slots=True)
class Bus:
    """One bus of the tree: its root complex, and the bridges that lead to it from there."""

    domain: str
    number: str
    root: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """One function. `name` is "" without -v; `bridge` tells that a bus lies behind it."""

    address: str
    root: str
    path: tuple[str, ...]
    name: str
    bridge: bool
    line: int


@dataclass(slots=True)
class Tree:
    """The functions and root complexes of all trees in a file."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)

    @property
    def named(self) -> bool:
        return any(leaf.name for leaf in self.leaves.values())


def starts_tree(line: str) -> bool:
    return "]-" in line and _START.match(line) is not None


def read_tree(text: DumpText) -> Tree:
    """Read every tree in the file.

    Raises:
        DumpError: a tree is truncated or its columns do not fit.
    """
    tree = Tree()
    reader: _Reader | None = None
    for number, line in _unwrapped(text):
        if starts_tree(line):
            if reader:
                reader.finish()
            reader = _Reader(text, tree)
            reader.first(number, line)
        elif reader and reader.open and not reader.branch(number, line):
            reader.finish()
    if reader:
        reader.finish()
    return tree


def _unwrapped(text: DumpText) -> list[tuple[int, str]]:
    """Lines with their numbers; what a terminal broke at its right edge is one line again."""
    stripped = [line.rstrip().expandtabs() for line in text.lines]
    drawn = [_is_drawn(line) for line in stripped]
    width = max((len(line) for line, is_drawn in zip(stripped, drawn, strict=True) if is_drawn), default=0)
    lines: list[tuple[int, str]] = []
    glue = 0  # how many more pieces the last line may get
    for number, (line, is_drawn) in enumerate(zip(stripped, drawn, strict=True), 1):
        if glue and line and not is_drawn:
            lines[-1] = (lines[-1][0], lines[-1][1] + line)
            glue = glue - 1 if len(line) == width else 0
            continue
        lines.append((number, line))
        glue = PIECES_MAX if is_drawn and len(line) == width >= WRAPPED_FROM else 0
    return lines


def _is_drawn(line: str) -> bool:
    """Whether the line is a part of a tree, by its first branch."""
    return line.lstrip(" |")[:2] in {"+-", "\\-"} or (line.lstrip()[:1] == "-" and starts_tree(line))


class _Reader:
    """One tree. `open` holds, by column, the bus whose branches stand there; None is the machine itself."""

    def __init__(self, text: DumpText, tree: Tree) -> None:
        self._text = text
        self._tree = tree
        self.open: dict[int, Bus | None] = {}
        self._last = 1

    def first(self, number: int, line: str) -> None:
        at = len(line) - len(line.lstrip()) + 1
        if line[at] == "+":
            self.open[at] = None
            at += 2
        self._chain(number, line, at, None)

    def branch(self, number: int, line: str) -> bool:
        """Read one further line; False when it belongs to no tree."""
        match = _BRANCH.match(line)
        if match is None:
            return False
        column = match.start(2)
        if column not in self.open or max(self.open) != column:
            raise self._refusal(number, column, "a branch where no bus is open")
        bars = [at for at in range(column) if line[at] == "|"]
        if bars != sorted(at for at in self.open if at < column):
            raise self._refusal(number, 0, "bars that do not lead to open buses")
        bus = self.open[column]
        if match[2] == "\\":
            del self.open[column]
        self._chain(number, line, match.end(), bus)
        return True

    def finish(self) -> None:
        if self.open:
            raise self._text.line_refusal(
                self._last, found="a tree that ends here with open branches",
                expected="the whole output of `lspci -tv`", remedy=REMEDY,
            )  # fmt: skip

    def _chain(self, number: int, line: str, at: int, bus: Bus | None) -> None:
        """Follow one line to its right: from bus to bridge to bus, until a function or an empty bus ends it."""
        self._last = number
        while True:
            if root := _ROOT.match(line, at):
                domain = _domain(root[1])
                name = f"pci{domain}:{root[2]}"
                bus = Bus(domain, root[2], name) if bus is None else Bus(domain, root[2], bus.root, bus.path)
                if bus.root == name and name not in self._tree.roots:
                    self._tree.roots.append(name)
                at = root.end()
            elif bus and (function := _FUNCTION.match(line, at)):
                address = f"{bus.domain}:{bus.number}:{function[1]}"
                behind = _BEHIND.match(line, function.end())
                rest = "" if behind else line[function.end() :]
                if rest and not rest[0].isspace():
                    raise self._refusal(number, function.end(), quoted(rest))
                printed = rest.strip()[:NAME_MAX]
                self._add(Leaf(address, bus.root, bus.path, printed, behind is not None, number), at)
                if behind is None:
                    return
                if len(bus.path) == DEPTH_MAX:
                    raise self._refusal(number, at, f"more than {DEPTH_MAX} bridges above each other")
                domain = _domain(behind[1]) if behind[1] else bus.domain
                bus = Bus(domain, behind[2], bus.root, (*bus.path, address))
                at = behind.end()
            else:
                raise self._refusal(number, at, quoted(line[at : at + 20]))
            dashes = _DASHES.match(line, at)
            at = dashes.end() if dashes else at
            if not line[at:].strip():
                return
            if line.startswith("+-", at):
                self.open[at] = bus
                at += 2

    def _add(self, leaf: Leaf, at: int) -> None:
        known = self._tree.leaves.get(leaf.address)
        if known and (known.root, known.path) != (leaf.root, leaf.path):
            raise self._refusal(leaf.line, at, f"{leaf.address} at a second place")
        if len(self._tree.leaves) == FUNCTIONS_MAX:
            raise self._refusal(leaf.line, at, f"more than {FUNCTIONS_MAX} functions")
        if known is None or leaf.name:
            self._tree.leaves[leaf.address] = leaf

    def _refusal(self, number: int, at: int, found: str) -> DumpError:
        expected = "a branch of the tree that `lspci -t` draws"
        return DumpError(self._text.name, number, at + 1, found=found, expected=expected, remedy=REMEDY)


def _domain(text: str | None) -> str:
    return f"{int(text or '0', 16):04x}"
