"""Which entries of several readings are one physical GPU.

By usable UUID first, then by PCI address. Sources that share no such name are matched by nvidia-smi's index, by PCI
order (in which nvidia-smi counts) or by position, and only where both count all GPUs of the node and find the same
number. No match ever makes two GPUs of one source one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from atoll.core.evidence.identity import address_of, is_name, usable_uuids
from atoll.core.evidence.reading import TRUST, Format, Reading, SeenGpu

Entry = tuple[int, int]
"""(reading, position in its `gpus`)."""

_NVIDIA = {Format.NVIDIA_SMI_TOPO, Format.NVIDIA_SMI_QUERY, Format.NVIDIA_SMI_LIST, Format.NVIDIA_SMI_P2P}
_AMD = {Format.ROCM_SMI, Format.AMD_SMI}
_ASCEND, _METAX = {Format.NPU_SMI}, {Format.MX_SMI}
_PCI_ORDER = _NVIDIA | {Format.MACHINE_FILE, Format.GPU_NODE}
"""Sources whose index counts in PCI bus order."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The GPUs of a node.

    Args:
        seats: by position in the machine; each lists its entries, the most trusted reading's first.
        left: readings whose GPUs could not be matched with these, so that their facts are not used.
        by_order: readings that were matched by PCI order or position, without a common name or index.
    """

    seats: tuple[tuple[Entry, ...], ...]
    left: tuple[int, ...] = ()
    by_order: tuple[int, ...] = ()


def is_complete(reading: Reading) -> bool:
    """Whether it lists all GPUs that it counts."""
    return not any(remark.code in {"IncompleteInventory", "Truncated"} for remark in reading.remarks)


def trust_of(reading: Reading) -> int:
    return TRUST[reading.source.format]


def own_seats(gpus: Sequence[SeenGpu]) -> list[list[int]]:
    """The physical GPUs of one reading, each as positions: partitions, functions and double entries are one.

    Entries at one address that bear different UUIDs are different GPUs, unless the source calls them parts of one.
    """
    uuids = usable_uuids(gpus)
    by_address: dict[str, list[int]] = {}
    seats: list[list[int]] = []
    for at, gpu in enumerate(gpus):
        address = address_of(gpu)
        there = by_address.setdefault(address, []) if address is not None else []
        if not there:
            seats.append(there)
        there.append(at)
    split: list[list[int]] = []
    for seat in seats:
        names = {uuids[at] for at in seat} - {None}
        whole = all(gpus[at].physical is None and gpus[at].partition is None for at in seat)
        split += [[at] for at in seat] if len(names) > 1 and whole else [seat]
    return split


def match(readings: Sequence[Reading]) -> Matched:
    """Match the GPUs of all readings that list some."""
    order = sorted((n for n, reading in enumerate(readings) if reading.gpus), key=lambda n: (trust_of(readings[n]), n))
    if not order:
        return Matched(())
    board = _Board(readings, order)
    board.join_by_name()
    families = board.families()
    main, left, by_order = families[0], [], []
    for family in families[1:]:
        pairing = _pairing(readings, main, family)
        if pairing is None:
            left += sorted({reading for seat in family for reading, _ in seat})
            continue
        pairs, ordered = pairing
        if ordered:
            by_order += sorted({reading for seat in family for reading, _ in seat})
        main = [seat + pairs[at] for at, seat in enumerate(main)]
    rank = {reading: at for at, reading in enumerate(order)}
    seats = [tuple(sorted(seat, key=lambda entry: (rank[entry[0]], entry[1]))) for seat in main]
    return Matched(tuple(sorted(seats, key=lambda seat: _place(readings, seat))), tuple(left), tuple(by_order))


class _Board:
    """The readings' own seats, joined step by step; a seat holds at most one own seat of each reading."""

    def __init__(self, readings: Sequence[Reading], order: Sequence[int]) -> None:
        self._readings, self._order = readings, order
        self._seats: dict[int, dict[int, list[int]]] = {}  # number -> reading -> positions
        self._names: list[dict[str, list[int]]] = [{}, {}, {}]  # uuid, unique id, address -> seats first bearing it
        self._moved: dict[int, int] = {}
        for reading in order:
            gpus = readings[reading].gpus or ()
            own, uuids = own_seats(gpus), usable_uuids(gpus)
            addresses = [address_of(gpus[seat[0]]) for seat in own]
            unique = [{gpus[at].unique_id for at in seat if is_name(gpus[at].unique_id)} for seat in own]
            for at, seat in enumerate(own):
                number = len(self._seats)
                self._seats[number] = {reading: seat}
                for uuid in sorted({name for name in (uuids[entry] for entry in seat) if name is not None}):
                    self._names[0].setdefault(uuid, []).append(number)
                for name in sorted(filter(None, unique[at])):
                    if sum(name in names for names in unique) == 1:
                        self._names[1].setdefault(name, []).append(number)
                address = addresses[at]
                if address is not None and addresses.count(address) == 1:
                    self._names[2].setdefault(address, []).append(number)

    def join_by_name(self) -> None:
        for names in self._names:
            for bearers in names.values():
                for other in bearers[1:]:
                    self._join(bearers[0], other)

    def _now(self, number: int) -> int:
        while number in self._moved:
            number = self._moved[number]
        return number

    def _join(self, one: int, other: int) -> None:
        one, other = sorted((self._now(one), self._now(other)))
        if one != other and not self._seats[one].keys() & self._seats[other].keys():
            self._seats[one] |= self._seats.pop(other)
            self._moved[other] = one

    def families(self) -> list[list[tuple[Entry, ...]]]:
        """Seats of readings that share at least one GPU, the family of the most trusted reading first."""
        family = {reading: reading for reading in self._order}
        for members in self._seats.values():
            owners = {family[reading] for reading in members}
            first = min(owners, key=self._order.index)
            family = {reading: first if owner in owners else owner for reading, owner in family.items()}
        found: dict[int, list[tuple[Entry, ...]]] = {family[reading]: [] for reading in self._order}
        for members in self._seats.values():
            entries = tuple((reading, at) for reading, seat in members.items() for at in seat)
            found[family[entries[0][0]]].append(entries)
        return list(found.values())


def _pairing(
    readings: Sequence[Reading], main: Sequence[tuple[Entry, ...]], family: Sequence[tuple[Entry, ...]]
) -> tuple[list[tuple[Entry, ...]], bool] | None:
    """For each seat of `main` the one of `family`, and whether only their order says so; None where nothing does."""
    both = [{reading for seat in seats for reading, _ in seat} for seats in (main, family)]
    if len(main) != len(family) or not all(is_complete(readings[n]) for members in both for n in members):
        return None
    ours, theirs = (_indices(readings, seats) for seats in (main, family))
    if ours and theirs and sorted(ours) == sorted(theirs) and _count_alike(readings, *both):
        by_index = dict(zip(theirs, family, strict=True))
        return [by_index[index] for index in ours], False
    our_order, their_order = (_pci_order(readings, seats) for seats in (main, family))
    if our_order and their_order:
        seat_at = dict(zip(our_order, their_order, strict=True))
        return [family[seat_at[at]] for at in range(len(main))], True
    named = any(_indices(readings, [seat]) or _address(readings, seat) for seat in family)
    alike = len({_facts(readings, seat) for seat in family}) == 1
    return ([*family], True) if alike and not named else None


def _indices(readings: Sequence[Reading], seats: Iterable[tuple[Entry, ...]]) -> list[int]:
    """Each seat's index by the vendor's tool; empty where one has none or two have the same."""
    found = []
    for seat in seats:
        numbers = [gpu.index for gpu in _gpus(readings, seat) if gpu.index is not None]
        if not numbers:
            return []
        found.append(numbers[0])
    return found if len(set(found)) == len(found) else []


def _count_alike(readings: Sequence[Reading], ours: Iterable[int], theirs: Iterable[int]) -> bool:
    """Whether the indices of both may be of one tool: no vendor is among ours that is not the one among theirs."""
    vendors = [
        {
            vendor
            for vendor, formats in enumerate((_NVIDIA, _AMD, _ASCEND, _METAX))
            if any(readings[n].source.format in formats for n in members)
        }
        for members in (ours, theirs)
    ]
    return not (vendors[0] and vendors[1]) or bool(vendors[0] & vendors[1])


def _pci_order(readings: Sequence[Reading], seats: Sequence[tuple[Entry, ...]]) -> list[int]:
    """The seats in PCI bus order, by address or by an index that counts so; empty where neither is whole."""
    addresses = [_address(readings, seat) for seat in seats]
    if all(addresses) and len(set(addresses)) == len(addresses):
        return sorted(range(len(seats)), key=lambda at: _bus(addresses[at] or ""))
    indices = _indices(readings, seats)
    counted = all(readings[n].source.format in _PCI_ORDER for seat in seats for n, _ in seat)
    return sorted(range(len(seats)), key=indices.__getitem__) if indices and counted else []


def _bus(address: str) -> tuple[int, str]:
    domain = address.partition(":")[0]
    return len(domain), address


def _place(readings: Sequence[Reading], seat: Sequence[Entry]) -> tuple[int, int, int, str, Entry]:
    """By index where the vendor's tool counts it, then by PCI address, then as listed."""
    numbers = [gpu.index for gpu in _gpus(readings, seat) if gpu.index is not None]
    address = _address(readings, seat) or ""
    return (0, numbers[0], 0, "", seat[0]) if numbers else (1, 0, *_bus(address), seat[0])


def _address(readings: Sequence[Reading], seat: Iterable[Entry]) -> str | None:
    return next(filter(None, map(address_of, _gpus(readings, seat))), None)


def _gpus(readings: Sequence[Reading], seat: Iterable[Entry]) -> list[SeenGpu]:
    return [(readings[reading].gpus or ())[at] for reading, at in seat]


def _facts(readings: Sequence[Reading], seat: Iterable[Entry]) -> tuple[object, ...]:
    return tuple((gpu.model, gpu.memory_mib, gpu.numa, gpu.cpu_affinity, gpu.uuid) for gpu in _gpus(readings, seat))
