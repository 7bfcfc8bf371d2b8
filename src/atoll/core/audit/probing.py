"""Whether a node may be probed, and how what its pods got compares with what its parts were foreseen to hand out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import comb

from atoll.core.audit.abilities import Plugins
from atoll.core.audit.fragments import is_whole, span_of
from atoll.core.audit.occupancy import Occupancy, occupancies
from atoll.core.audit.picture import Picture
from atoll.core.audit.stock import Stock
from atoll.core.gpuset import positions
from atoll.core.observed import STATES_MAX, over_all
from atoll.core.outcomes import Outcomes, Predict, Unpredictable
from atoll.core.probe import Got

REJECTED = "TopologyAffinityError"


@dataclass(frozen=True, slots=True)
class ProbeSite:
    """A node that may be probed.

    Attributes:
        stock: what its parts are foreseen to hand out, or why that is unknown.
        left: namespace/name of pods that an earlier probe left there.
    """

    name: str
    gpus: int
    occupancy: Occupancy
    stock: Stock
    left: tuple[str, ...] = ()

    @property
    def gates(self) -> tuple[str, ...]:
        """Why nobody can tell what its parts hand out; () = it is foreseen."""
        table = self.stock.table(self.occupancy)
        return table.gates if isinstance(table, Unpredictable) else ()


@dataclass(frozen=True, slots=True)
class NoProbe:
    """Why not, and what would help."""

    why: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Probed:
    """One pod of a probe, judged.

    Attributes:
        indexes: of its GPUs, as nvidia-smi counts; () where they are not known.
        domain: the narrowest known domain around its GPUs; link: its worst link, "" unknown.
        whole: whether its GPUs lie in one domain, or are more than any domain has; None unknown.
        foreseen: whether that was one of the foreseen outcomes; None where nobody could tell.
        sets: how many sets were foreseen.
    """

    got: Got
    indexes: tuple[int, ...] = ()
    domain: str = ""
    link: str = ""
    whole: bool | None = None
    foreseen: bool | None = None
    sets: int = 0


def site_of(
    picture: Picture, name: str, predict: Predict, *, probes: str = "", cordoned: bool = True
) -> ProbeSite | NoProbe:
    """The node, if it may be probed.

    Args:
        probes: how namespace/name of pods begins that an earlier probe left there. cordoned: the node has to be, so
            that no other pod comes meanwhile.
    """
    occupancy = next((each for each in occupancies(picture) if each.node.name == name), None)
    if occupancy is None or not occupancy.node.in_cluster:
        others = ", ".join(sorted(node.name for node in picture.nodes if node.capacity)[:5])
        return NoProbe(f"there is no node {name} with GPUs", f"nodes with GPUs: {others or 'none'}")
    node = occupancy.node
    if not picture.pods_seen:
        return NoProbe("the pods of the cluster cannot be listed, so nobody knows whether the node is idle")
    if not node.allocatable:
        return NoProbe(f"{name} offers no GPU now", "a device plugin has to run there")
    if node.ready is False:
        return NoProbe(f"{name} is not ready", f"kubectl describe node {name}")
    left = tuple(each.label for each in occupancy.held if probes and each.label.startswith(probes))
    if tenants := [each for each in occupancy.held if each.label not in left]:
        held = ", ".join(f"{each.label} holds {each.count}" for each in tenants[:5])
        return NoProbe(f"{name} is not idle: {held}", f"kubectl drain {name}, or another node")
    if cordoned and not node.unschedulable:
        return NoProbe(
            f"{name} is open to other pods, which a probe would stand in the way of", f"kubectl cordon {name}"
        )
    return ProbeSite(name, node.allocatable, occupancy, Stock(Plugins(picture.components), predict), left)


def judged(site: ProbeSite, got: Iterable[Got]) -> Iterator[Probed]:
    """Each pod against what was foreseen beside the pods before it in its round."""
    hardware, shape = site.occupancy.hardware, site.occupancy.shape
    topology = site.occupancy.topology
    held = hidden = 0
    for each in got:
        if each.nth == 1:
            held = hidden = 0
        gpus = hardware.where(frozenset(each.uuids)) if hardware and each.uuids else 0
        known = gpus.bit_count() == each.gpus
        told = _foreseen(site, held, hidden, each.gpus)
        wrong = bool(gpus & held) or (each.uuids is not None and len(each.uuids) != each.gpus)
        foreseen = False if wrong else _was_foreseen(told, each, gpus)  # nobody foresees that, whatever hands them out
        seen = Probed(each, foreseen=foreseen, sets=len(told.sets) if told else 0)
        if known and shape is not None and topology is not None:
            scope, link = span_of(shape, gpus)
            seen = replace(
                seen,
                indexes=tuple(topology.devices[n].index for n in positions(gpus)),
                domain=scope.value,
                link=link,
                whole=is_whole(shape, gpus),
            )
        yield seen
        held |= gpus
        hidden += 0 if each.failed else each.gpus - gpus.bit_count()


def _foreseen(site: ProbeSite, held: int, hidden: int, count: int) -> Outcomes | None:
    shape, table = site.occupancy.shape, site.stock.table(site.occupancy)
    if shape is None or isinstance(table, Unpredictable):
        return None
    free = shape.everything & ~held & ~site.occupancy.state.out
    if hidden > free.bit_count() or comb(free.bit_count(), hidden) > STATES_MAX:
        return None
    return over_all(table, free, hidden, count)


def _was_foreseen(told: Outcomes | None, got: Got, gpus: int) -> bool | None:
    if told is None:
        return None
    if got.failed:
        return told.rejects if REJECTED in got.why else told.fails if "UnexpectedAdmissionError" in got.why else None
    return None if got.uuids is None else gpus in told.sets
