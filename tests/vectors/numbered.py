"""How vector files write NUMA nodes, hints and links, as values of the models."""

from typing import Any

from atoll.core.gpuset import mask_of
from atoll.models.kubelet.hints import Hint, ProviderHints, ResourceHints
from atoll.models.kubelet.numa import NumaNodes
from atoll.models.nvidia.pair_scores import BOARD_POINTS, PAIR_POINTS, Scores, pair_score

Row = dict[str, Any]


def nodes_of(told: list[int] | None) -> int | None:
    return None if told is None else mask_of(told)


def hint_of(told: Row) -> Hint:
    return Hint(nodes_of(told["numa"]), told["preferred"])


def hints_of(told: list[Row] | None) -> ResourceHints:
    return None if told is None else [hint_of(each) for each in told]


def provider_of(told: dict[str, list[Row] | None] | None) -> ProviderHints:
    return None if told is None else {resource: hints_of(hints) for resource, hints in told.items()}


def numa_of(ids: list[int], distances: dict[str, list[int] | None] | None) -> NumaNodes:
    rows = [(distances or {}).get(str(node)) for node in ids]
    return NumaNodes(tuple(ids), tuple(tuple(row) for row in rows if row is not None))


def scores_of(row: Row) -> Scores:
    """Out of the matrices of PCIe tokens and direct NVLinks."""
    points = {**{str(link): value for link, value in PAIR_POINTS.items()}, "PSB": BOARD_POINTS, "X": 0, None: 0}
    pairs = zip(row["p2p"], row["nvlink"], strict=True)
    return tuple(tuple(pair_score(points[token], links) for token, links in zip(*pair, strict=True)) for pair in pairs)
