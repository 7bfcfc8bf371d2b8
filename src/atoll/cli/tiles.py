"""A node's islands as tiles in a terminal: one box per island, one tile per GPU.

    NUMANode 0                 NUMANode 1
    ┌─────┬─────┬─────┬─────┐  ┌─────┬─────┬─────┬─────┐
    │ 0 A │ 1 A │ 2   │ 3   │  │ 4 B │ 5 B │ 6 B │ 7 B │
    └─────┴─────┴─────┴─────┘  └─────┴─────┴─────┴─────┘
    2 of 4 free                0 of 4 free

A letter stands for an owner, so that the picture reads without colour; colour repeats what the letter says. Whether
colour is shown is the console's business (no terminal or NO_COLOR: none). Lines are values; nothing is printed here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from atoll.core.shape import Shape

WIDTH = 100
"""Columns of a drawing; islands that do not fit beside each other stand below each other."""
GAP = "  "
FREE, OUT, UNSURE = " ", "x", "?"
"""What stands in a tile without an owner: free; lost, sick, quarantined or split; free or taken, nobody knows."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz"
"""No small x: it marks a GPU that is out."""
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
ASCII = str.maketrans("┌┬┐│└┴┘─·…×", "+++|+++-..x")


@dataclass(frozen=True, slots=True)
class Tile:
    """One GPU: nvidia-smi's index, and the letter of its owner or one of the marks above."""

    index: int
    mark: str = FREE

    @property
    def style(self) -> str:
        if self.mark in LETTERS:
            return f"bold black on {COLOURS[LETTERS.index(self.mark) % len(COLOURS)]}"
        return "dim" if self.mark in (OUT, UNSURE) else ""


@dataclass(frozen=True, slots=True)
class Island:
    """GPUs of one domain. `foot` is a line below them, "" for none."""

    name: str
    tiles: tuple[Tile, ...]
    foot: str = ""


def islands_of(
    shape: Shape, blocks: Iterable[tuple[str, int]], indices: Sequence[int], marks: Mapping[int, str] | None = None
) -> tuple[Island, ...]:
    """Islands without feet from blocks of a shape, e.g. of `shape.blocks(Scope.NUMA_NODE)`.

    Args:
        indices: nvidia-smi's index per position. marks: what stands in a tile, by position; free where absent.
    """
    given = marks or {}
    return tuple(
        Island(name, tuple(Tile(indices[n], given.get(n, FREE)) for n in range(shape.count) if mask >> n & 1))
        for name, mask in blocks
    )


def draw(islands: Iterable[Island], width: int = WIDTH) -> list[Text]:
    """The islands side by side, in as many rows as the width needs."""
    shown = tuple(islands)
    digits = max((len(str(tile.index)) for island in shown for tile in island.tiles), default=1)
    lines: list[Text] = []
    for row in _rows([_box(island, digits) for island in shown], width):
        for n in range(max(len(box) for box in row)):
            line = Text(GAP).join(box[n] if n < len(box) else Text(" " * box[0].cell_len) for box in row)
            line.rstrip()
            lines.append(line)
    return lines


def plain(line: Text, encoding: str) -> Text:
    """The line, in ASCII where the terminal can show nothing else."""
    if encoding.lower().replace("-", "").startswith("utf"):
        return line
    line = line.copy()
    line.plain = line.plain.translate(ASCII).encode("ascii", "replace").decode()
    return line


class Lettering:
    """Gives each owner a letter and keeps it; the letter of one that is gone is used again when all are taken."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def assign(self, owners: Iterable[str]) -> Mapping[str, str]:
        """A letter for each of these owners, who are all there are now; "*" for those beyond the alphabet."""
        present = list(dict.fromkeys(owners))
        for gone in [owner for owner in self._letters if owner not in present]:
            del self._letters[gone]
        unused = iter([letter for letter in LETTERS if letter not in self._letters.values()])
        for owner in present:
            if owner not in self._letters:
                self._letters[owner] = next(unused, "*")
        return dict(self._letters)


def _rows(boxes: list[list[Text]], width: int) -> Iterator[list[list[Text]]]:
    """As few rows as the width allows, equally long."""
    widest = max((box[0].cell_len for box in boxes), default=1)
    fitting = max(1, (width + len(GAP)) // (widest + len(GAP)))
    rows = -(-len(boxes) // fitting)
    for row in range(rows):
        yield boxes[row * len(boxes) // rows : (row + 1) * len(boxes) // rows]


def _box(island: Island, digits: int) -> list[Text]:
    cells = [Text(f" {tile.index:>{digits}} {tile.mark} ", style=tile.style) for tile in island.tiles]
    bars = ["─" * cell.cell_len for cell in cells]
    lines = [
        Text(island.name, style="bold"),
        Text("┌" + "┬".join(bars) + "┐"),
        Text("│") + Text("│").join(cells) + Text("│"),
        Text("└" + "┴".join(bars) + "┘"),
    ]
    if island.foot:
        lines.append(Text(island.foot))
    wide = max(line.cell_len for line in lines)
    for line in lines:
        line.pad_right(wide - line.cell_len)
    return lines
