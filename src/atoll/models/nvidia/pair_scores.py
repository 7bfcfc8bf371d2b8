"""How near NVIDIA's allocator thinks two GPUs are: points for the PCIe path and, on top, 100 for each direct NVLink.

Links through an NVSwitch count nothing, since the allocator looks for the peer's own PCI address behind a link; so on
an HGX board it sees PCIe alone.

Source: NVIDIA/go-gpuallocator v0.6.0, gpuallocator/besteffort_policy.go.
"""

from collections.abc import Sequence

from atoll.core.topology import PcieLink

PAIR_POINTS: dict[PcieLink, int] = {
    PcieLink.PIX: 50,
    PcieLink.PXB: 40,
    PcieLink.PHB: 30,
    PcieLink.NODE: 20,
    PcieLink.SYS: 10,
}
BOARD_POINTS = 60
"""Two GPUs of one board, which `nvidia-smi topo` prints as PSB or PIX."""

NVLINK_POINTS = 100
NVLINKS_MAX = 18

Scores = tuple[tuple[int, ...], ...]
"""(G, G) by position: the points of a pair, as seen from the GPU of the row."""


def pair_score(points: int, nvlinks: int) -> int:
    """Args: points: of the PCIe path, 0 where it is not known. nvlinks: direct ones."""
    return points + NVLINK_POINTS * min(nvlinks, NVLINKS_MAX)


def set_score(scores: Scores, members: Sequence[int]) -> int:
    """The sum over the pairs of a set, each seen from its earlier member."""
    return sum(scores[a][b] for at, a in enumerate(members) for b in members[at + 1 :])
