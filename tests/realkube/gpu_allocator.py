"""NVIDIA's own allocator, asked about GPUs that exist only on paper."""

from collections.abc import Mapping, Sequence

from tests.realkube.answering import Answering
from tests.realkube.binaries import binary

PCIE = {"SYS": 1, "NODE": 2, "PHB": 3, "PXB": 4, "PIX": 5, "PSB": 6}
"""The allocator's numbers for kinds of links; n NVLinks are 6 + n."""


class GpuAllocator(Answering):
    """Args: environment: with an NVML, where it is to look at the machine's GPUs itself."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(binary("gpu-allocator"), environment=environment)

    def seen(self) -> list[list[int]] | str:
        """(G, G) the points of each pair as it reads them from NVML; or why it cannot."""
        found = self.ask(look=True)
        if isinstance(found, str):
            return found
        return [
            [sum(10 * kind if kind <= PCIE["PSB"] else 100 * (kind - 6) for kind in pair) for pair in row]
            for row in found
        ]

    def preferred(
        self,
        pcie: Sequence[Sequence[str | None]],
        nvlinks: Sequence[Sequence[int]],
        available: Sequence[int],
        required: Sequence[int],
        size: int,
    ) -> list[int | None]:
        """What the best-effort policy prefers; None is an empty place. Args: pcie, nvlinks: (G, G)."""
        links = [
            [
                [*([PCIE[token]] if token in PCIE else []), *([6 + count] if count else [])]
                for token, count in zip(*row, strict=True)
            ]
            for row in zip(pcie, nvlinks, strict=True)
        ]
        found = self.ask(links=links, available=list(available), required=list(required), size=size)
        return [None if each < 0 else each for each in found]
