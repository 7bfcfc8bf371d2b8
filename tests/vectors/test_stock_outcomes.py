"""Kubelet and NVIDIA's allocator together: the sets that a stock node may hand out; one case per row."""

from dataclasses import replace
from functools import cache

import pytest

from atoll.core.gpuset import mask_of
from atoll.core.outcomes import Outcomes
from atoll.models.kubelet.device_hints import Devices
from atoll.models.kubelet.numa import NumaNodes
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy
from atoll.models.stock import Kubelet, StockNode
from tests.data import cases, data_folder, rows_of
from tests.vectors.numbered import Row, scores_of

FILE = data_folder("vectors") / "kubelet_gpu_outcomes.jsonl"
TOPOLOGIES = {row["name"]: row for row in rows_of(FILE) if row["kind"] == "topology"}
REJECT, ERROR = "REJECT", "ERROR"


@cache
def node_of(topology: str, policy: str) -> StockNode:
    row = TOPOLOGIES[topology]
    nodes = NumaNodes(tuple(sorted(set(row["numa"]))))
    devices = Devices(tuple(1 << node for node in row["numa"]), nodes.every)
    return StockNode(Kubelet(devices, TopologyManager(TopologyPolicy(policy), nodes)), (scores_of(row),))


def outcomes_of(told: list[list[int] | str]) -> Outcomes:
    sets = frozenset(mask_of(each) for each in told if isinstance(each, list))
    return Outcomes(sets, rejects=REJECT in told, fails=ERROR in told)


@pytest.mark.parametrize("row", [case for case in cases(FILE) if case.values[0].get("kind") != "topology"])
def test_a_stock_node_hands_out_what_is_predicted_and_nothing_else(row: Row) -> None:
    predicted = node_of(row["topology"], row["tm_policy"]).outcomes(mask_of(row["free"]), row["size"])
    observed = outcomes_of(row["observed"])

    assert replace(predicted, asks=False) == outcomes_of(row["possible"])
    assert observed.sets <= predicted.sets
    assert predicted.rejects or not observed.rejects
    assert predicted.fails or not observed.fails
