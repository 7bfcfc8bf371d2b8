"""The matrices between GPUs in an hwloc XML: NVLink and xGMI bandwidth, and hops.

hwloc gives each pair the bandwidth of all its links together, so that some links are known but not how many. Behind an
NVSwitch two GPUs have no bandwidth to each other but both have it to the switch. An object may be named by several
matrices, and several objects (partitions) may be one GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.evidence.reading import LinkTable, Remark
from atoll.core.topology import LinkKind, PairLink

_KINDS = {"NVLinkBandwidth": LinkKind.NVLINK, "XGMIBandwidth": LinkKind.XGMI}
_HOPS = "XGMIHops"
OBJECTS_MAX = 1024
DIGITS_MAX = 20

Links = tuple[tuple[PairLink, ...], ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix: the objects by their hwloc index, and the values row by row."""

    name: str
    objects: tuple[str, ...]
    values: tuple[int, ...]
    line: int

    def value(self, a: int, b: int) -> int:
        return self.values[a * len(self.objects) + b]


def matrices(root: Element) -> Iterator[Matrix | Remark]:
    """The matrices that are about GPU links; a remark in place of one that is damaged."""
    for element in root.children:
        name = element.get("name") or ""
        if element.tag not in {"distances2", "distances2hetero"} or not (name in _KINDS or name == _HOPS):
            continue
        objects = [word.rpartition(":")[2] for part in element.all("indexes") for word in part.text.split()]
        words = [word for part in element.all("u64values") for word in part.text.split()]
        numbers = all(word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX for word in words)
        if not 0 < len(objects) <= OBJECTS_MAX or len(words) != len(objects) ** 2 or not numbers:
            yield Remark("BrokenTable", f"The matrix {name} is damaged and was left out.", element.line)
        elif element.get("indexing") in {None, "gp"}:
            yield Matrix(name, tuple(objects), tuple(map(int, words)), element.line)


def links_of(
    found: Sequence[Matrix], owners: Mapping[str, int], switches: frozenset[str], count: int
) -> tuple[Links | None, tuple[LinkTable, ...]]:
    """The links between `count` GPUs, and the matrices by GPU.

    Args:
        owners: hwloc index of an object -> position of its GPU.
        switches: hwloc indexes of NVSwitches.
    """
    hops = {
        (a, b): min(values) for matrix in found if matrix.name == _HOPS for (a, b), values in _pairs(matrix, owners)
    }
    grid: list[list[PairLink]] = [[PairLink()] * count for _ in range(count)]
    known = False
    for matrix in found:
        kind = _KINDS.get(matrix.name)
        if kind is None:
            continue
        behind = _behind_switches(matrix, owners, switches)
        for (a, b), values in _pairs(matrix, owners):
            some = min(values) > 0 or bool(behind.get(a, frozenset()) & behind.get(b, frozenset()))
            if not some and max(values) > 0:
                continue  # linked for some partitions only
            if some and hops.get((a, b), 1) > 1:
                continue  # reachable, but not directly
            known = True
            grid[a][b] = grid[b][a] = PairLink(nvlinks=int(some), kind=kind)
    tables = tuple(table for matrix in found if (table := _table(matrix, owners, count)) is not None)
    return (tuple(map(tuple, grid)) if known else None), tables


def _pairs(matrix: Matrix, owners: Mapping[str, int]) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Each pair of different GPUs with the values of all its objects, in both directions."""
    values: dict[tuple[int, int], list[int]] = {}
    rows = [(row, owners[name]) for row, name in enumerate(matrix.objects) if name in owners]
    for (row, one), (column, other) in combinations(rows, 2):
        if one != other:
            pair = (min(one, other), max(one, other))
            values.setdefault(pair, []).extend((matrix.value(row, column), matrix.value(column, row)))
    yield from values.items()


def _behind_switches(matrix: Matrix, owners: Mapping[str, int], switches: frozenset[str]) -> dict[int, frozenset[str]]:
    columns = [(column, name) for column, name in enumerate(matrix.objects) if name in switches]
    return {
        owners[name]: frozenset(switch for column, switch in columns if matrix.value(row, column) > 0)
        for row, name in enumerate(matrix.objects)
        if name in owners
    }


def _table(matrix: Matrix, owners: Mapping[str, int], count: int) -> LinkTable | None:
    """The matrix by GPU; where partitions of one GPU differ there is no cell."""
    cells: list[list[str | None]] = [[None] * count for _ in range(count)]
    for (a, b), values in _pairs(matrix, owners):
        if len(set(values)) == 1:
            cells[a][b] = cells[b][a] = str(values[0])
    if not any(cell for row in cells for cell in row):
        return None
    return LinkTable(matrix.name, tuple(map(tuple, cells)))
