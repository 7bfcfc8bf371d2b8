"""The cells after the links: which affinity column does each word belong to when a cell is empty?

nvidia-smi prints CPU and NUMA affinity in 8-wide columns under wider headings, and leaves the CPU cell empty where no
local CPU is allowed (a job's cpuset). Tabs and table bars still show an empty cell; in text that was copied with spaces
only the distance to the last link cell does.
"""

from atoll.adapters.formats.nvidia_smi.header import Header, Tail
from atoll.adapters.formats.nvidia_smi.rows import Body, Row
from atoll.adapters.formats.text.words import words
from atoll.core.errors import quoted
from atoll.core.id_list import id_mask

COLUMN_WIDTH = 8
EMPTY_CELL_SHIFT = 6  # an empty 8-wide cell moves the next word by 8; hand-made columns differ by less


def tail_cells(body: Body, header: Header, label: str, row: Row) -> dict[Tail, str | None]:
    """The row's affinity values as printed; None for an empty cell and for N/A in a CPU or NUMA column."""
    given = _joined_lists(row.tail)
    if len(given) > len(header.tail):
        at = row.start + 1 + len(row.cells) + len(header.tail)
        raise body.refusal(at, found=quoted(row.tail[len(header.tail)]), expected=f"the end of row {label}")
    values: list[str | None] = list(given)
    if len(given) < len(header.tail) and header.tail[:1] == (Tail.CPU,) and _cpu_cell_is_empty(body, header, row):
        values = [None, *given]
    values += [None] * (len(header.tail) - len(values))
    cells = dict(zip(header.tail, values, strict=True))
    numa = cells.get(Tail.NUMA)
    if numa is not None and numa != "N/A" and id_mask(numa) is None:
        at = row.start + 1 + len(row.cells) + (row.tail.index(numa) if numa in row.tail else 0)
        raise body.refusal(at, found=f"NUMA Affinity {quoted(numa)}", expected="a node such as 1, a range, or N/A")
    return cells


def _joined_lists(tail: list[str]) -> list[str]:
    """Words, where a list that was broken after a comma is one word again."""
    if not any(word.endswith(",") for word in tail):
        return tail
    joined: list[str] = []
    for word in tail:
        if joined and joined[-1].endswith(","):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _cpu_cell_is_empty(body: Body, header: Header, row: Row) -> bool:
    if not row.tail:
        return True
    last_link = row.start + len(row.cells)
    line = body.line_of[last_link]
    if body.line_of[last_link + 1] != line:
        return False
    text = body.text.lines[line - 1]
    position = last_link - body.line_of.index(line)
    link_at, link_end = _place(text, words(text), position)
    word_at = text.index(row.tail[0], link_end)
    between = text[link_end:word_at]
    if "|" in text:
        return between.count("|") > 1
    if "\t" in between and position > 0:
        # In hand-aligned text two tabs may separate all cells; an empty cell has one more than those.
        _, previous_end = _place(text, words(text), position - 1)
        return between.count("\t") > text[previous_end:link_at].count("\t")
    heading = body.text.lines[header.line - 1]
    names = words(heading)
    if "CPU" not in names:
        return False
    cpu = names.index("CPU")
    heading_at, _ = _place(heading, names, cpu - 1)
    cpu_at, _ = _place(heading, names, cpu)
    in_row, in_heading = word_at - link_at, cpu_at - heading_at
    if in_row - in_heading >= EMPTY_CELL_SHIFT:
        return True
    if min(in_row, in_heading) >= COLUMN_WIDTH + EMPTY_CELL_SHIFT:
        # Under a wide heading, a cell that follows the heading and one that follows an empty cell look alike.
        raise body.refusal(
            last_link + 1,
            found=f"{quoted(row.tail[0])}, which may be CPU or NUMA affinity",
            expected="the output with its tabs",
        )
    return False


def _place(text: str, tokens: list[str], position: int) -> tuple[int, int]:
    """Where a word of the line starts and ends."""
    start = end = 0
    for token in tokens[: position + 1]:
        start = text.index(token, end)
        end = start + len(token)
    return start, end
