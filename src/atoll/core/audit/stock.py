"""What the parts that hand out GPUs today would do with a pod now: every outcome, of every state the node may be in.

Nodes of one model and one setup share a table, and nodes of one state share its answers.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb

from atoll.core.audit.abilities import Plugins, policy_of, sharing_of
from atoll.core.audit.fragments import is_whole, verdict_on
from atoll.core.audit.models import Model
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.report import Prospect, StockSizeView, StockView
from atoll.core.facts import StockParts
from atoll.core.observed import STATES_MAX, over_all
from atoll.core.outcomes import OutcomeTable, Predict, StockSetup, Unpredictable
from atoll.core.shape import Shape
from atoll.core.verdict import Fit


class Stock:
    """The stock path of each node. Args: predict: the models."""

    def __init__(self, plugins: Plugins, predict: Predict) -> None:
        self._plugins, self._predict = plugins, predict
        self._tables: dict[tuple[Model, StockParts], OutcomeTable | Unpredictable] = {}

    def of(self, occupancy: Occupancy, sizes: Sequence[int]) -> StockView:
        """What a pod of each size would get on the node now."""
        table = self.table(occupancy)
        if isinstance(table, Unpredictable):
            return StockView(gates=table.gates)
        state, shape = occupancy.state, occupancy.shape
        if shape is None or not occupancy.told:
            return StockView(gates=("nothing tells which GPUs are held",))
        if comb(state.free.bit_count(), state.hidden) > STATES_MAX:
            return StockView(gates=(f"it is not known which GPUs {state.hidden} owners hold",))
        asked = tuple(size for size in sizes if size <= shape.count)
        return StockView(_prospects(table, shape, state.free, state.hidden, asked))

    def table(self, occupancy: Occupancy) -> OutcomeTable | Unpredictable:
        """Of the node's model, its positions in the order of the shape."""
        model = occupancy.model
        if model is None:
            return Unpredictable(("no source lists the GPUs",))
        kubelet = occupancy.node.machine.kubelet if occupancy.node.machine else None
        plugin = self._plugins.of(occupancy.node.name)
        parts = StockParts(
            policy=policy_of(occupancy),
            scope=kubelet.topology_manager_scope if kubelet else "",
            cpu_manager=kubelet.cpu_manager if kubelet else "",
            memory_manager=kubelet.memory_manager if kubelet else "",
            plugin=plugin.name if plugin else "",
            version=plugin.version if plugin else "",
            sharing=sharing_of(occupancy, plugin),
        )
        known = self._tables.get((model, parts))
        if known is None:
            known = self._tables[model, parts] = self._predict(StockSetup(model.topology, parts))
        return known


@lru_cache(maxsize=16_384)
def _prospects(
    table: OutcomeTable, shape: Shape, free: int, hidden: int, sizes: tuple[int, ...]
) -> tuple[Prospect, ...]:
    return tuple(_prospect(table, shape, free, hidden, size) for size in sizes)


def _prospect(table: OutcomeTable, shape: Shape, free: int, hidden: int, size: int) -> Prospect:
    told = over_all(table, free, hidden, size)
    return Prospect(
        gpus=size,
        sets=len(told.sets),
        split=sum(not is_whole(shape, gpus) for gpus in told.sets),
        rejects=told.rejects,
        fails=told.fails,
        asks=told.asks,
    )


def stock_sizes(
    nodes: Sequence[Occupancy], views: Sequence[StockView], sizes: Sequence[int]
) -> tuple[StockSizeView, ...]:
    """Per size, on how many of the nodes that take pods the stock path keeps a pod whole, splits or fails it now."""
    told = [(node, view) for node, view in zip(nodes, views, strict=True) if node.takes_pods]
    return tuple(_stock_size(told, size) for size in sizes)


def _stock_size(told: Sequence[tuple[Occupancy, StockView]], size: int) -> StockSizeView:
    whole, split, avoidable, refuses, unknown = 0, 0, list[str](), 0, 0
    for node, view in told:
        prospect = next((each for each in view.prospects if each.gpus == size), None)
        if prospect is None:
            unknown += bool(view.gates)
        elif prospect.split:
            split += 1
            if isinstance(verdict_on(node, size), Fit):
                avoidable.append(node.node.name)
        elif prospect.rejects or prospect.fails:
            refuses += node.state.free.bit_count() - node.state.hidden >= size
        else:
            whole += 1
    return StockSizeView(size, whole, split, tuple(sorted(avoidable)), refuses, unknown)
