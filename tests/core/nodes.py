"""Random small nodes and requests for property tests, and the literal boards that many tests speak of."""

from collections.abc import Sequence

from hypothesis import strategies as st

from atoll.core.domains import Domains, NvlinkGraph
from atoll.core.node_state import NodeState
from atoll.core.request import ContainerAsk, ContainerKind, GpuRequest, Policy
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape
from atoll.core.topology import PairLink, PcieLink

OPEN_BLOCKS_MAX = 4  # the oracle enumerates every merging
SCOPES_MAX = 3
LEGAL_ORDER = tuple(Scope)


def board(
    *islands: Sequence[int],
    switches: Sequence[Sequence[int]] = (),
    sockets: Sequence[Sequence[int]] = (),
    bridges: Sequence[tuple[int, int]] = (),
    partitions: Sequence[tuple[str, Sequence[int]]] = (),
    open_numa: bool = False,
) -> Shape:
    """A node whose NUMA nodes (and sockets and PCIe domains, where not said) are these islands.

    Pairs are PIX inside a switch, NODE inside an island, SYS across, and NV4 where bridged.
    """
    count = sum(map(len, islands))
    numa = tuple(sorted(map(mask, islands)))
    near = tuple(sorted(map(mask, switches))) or numa
    wide = tuple(sorted(map(mask, sockets))) or numa
    joined = {frozenset(pair) for pair in bridges}
    links = tuple(tuple(_pair(a, b, near, numa, joined) for b in range(count)) for a in range(count))
    known = [Domains(near, ()), Domains(near, ()), Domains(numa, ()), Domains(wide, ()), Domains((2**count - 1,), ())]
    if open_numa:
        known[2] = Domains((), numa)
    linked = tuple(sum(1 << b for b in range(count) if frozenset((a, b)) in joined) for a in range(count))
    return Shape(
        count=count,
        chain=tuple(known),
        names=_names(known),
        nvlink=NvlinkGraph(linked, (0,) * count),
        partitions=tuple((name, mask(gpus)) for name, gpus in partitions),
        links=links,
        nic_ranks=(0,) * count,
    )


def _pair(a: int, b: int, near: Sequence[int], numa: Sequence[int], joined: set[frozenset[int]]) -> PairLink:
    if a == b:
        return PairLink()
    both = 1 << a | 1 << b
    if frozenset((a, b)) in joined:
        return PairLink(nvlinks=4)
    if any(not both & ~block for block in near):
        return PairLink(PcieLink.PIX, 0)
    return PairLink(PcieLink.NODE if any(not both & ~block for block in numa) else PcieLink.SYS, 0)


def mask(gpus: Sequence[int]) -> int:
    return sum(1 << gpu for gpu in set(gpus))


def free_on(shape: Shape, free: Sequence[int], **other: object) -> NodeState:
    """An enforced node with these GPUs free."""
    words = {"count": shape.count, "count_free": len(free), "free": mask(free), "enforced": True} | other
    return NodeState(shape, **words)  # type: ignore[arg-type]


def wish(gpus: int, *scopes: Scope, policy: Policy = Policy.RESTRICTED, **other: object) -> GpuRequest:
    """One container that asks for so many GPUs."""
    containers = (ContainerAsk("main", gpus),)
    return GpuRequest(containers, policy, scopes or (Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE), **other)  # type: ignore[arg-type]


def _names(chain: Sequence[Domains]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple("Node" if scope is Scope.NODE else f"{scope} {n}" for n in range(len(known.closed + known.open)))
        for scope, known in zip(CHAIN, chain, strict=True)
    )


@st.composite
def partitionings(draw: st.DrawFn, count: int, *, known: bool) -> Domains:
    """Random blocks, of which some are open unless all shall be known."""
    owners = draw(st.lists(st.integers(0, min(3, count - 1)), min_size=count, max_size=count))
    blocks = sorted(mask([gpu for gpu in range(count) if owners[gpu] == owner]) for owner in set(owners))
    opened = set() if known else draw(st.sets(st.sampled_from(blocks), max_size=OPEN_BLOCKS_MAX))
    return Domains(tuple(b for b in blocks if b not in opened), tuple(b for b in blocks if b in opened))


@st.composite
def shapes(draw: st.DrawFn, *, known: bool = False, count_max: int = 8) -> Shape:
    count = draw(st.integers(1, count_max))
    chain = [draw(partitionings(count, known=known)) for _ in CHAIN[:-1]] + [Domains((2**count - 1,), ())]
    pairs = [(a, b) for a in range(count) for b in range(a)]
    sure = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    unknown = draw(st.sets(st.sampled_from(pairs), max_size=0 if known else 3)) - sure if pairs else set()
    tokens = draw(st.lists(st.sampled_from([*PcieLink, None]), min_size=len(pairs), max_size=len(pairs)))
    pcie = dict(zip(pairs, tokens, strict=True))

    def link(a: int, b: int) -> PairLink:
        pair = (max(a, b), min(a, b))
        if a == b:
            return PairLink()
        return PairLink(pcie[pair], 2 if pair in sure else None if pair in unknown else 0)

    def row(gpu: int, chosen: set[tuple[int, int]]) -> int:
        return sum(1 << peer for peer in range(count) if (max(gpu, peer), min(gpu, peer)) in chosen)

    declared = draw(st.lists(st.integers(1, 2**count - 1), max_size=3))
    return Shape(
        count=count,
        chain=tuple(chain),
        names=_names(chain),
        nvlink=NvlinkGraph(tuple(row(g, sure) for g in range(count)), tuple(row(g, unknown) for g in range(count))),
        partitions=tuple((f"p{n}", gpus) for n, gpus in enumerate(declared)),
        links=tuple(tuple(link(a, b) for b in range(count)) for a in range(count)),
        nic_ranks=tuple(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))),
        unnamed=0 if known else draw(st.sampled_from([0, 0, 0, 1])),
    )


@st.composite
def states(draw: st.DrawFn, *, known: bool = False, count_max: int = 8) -> NodeState:
    """A node with random occupancy; `known` leaves nothing open."""
    shape = draw(shapes(known=known, count_max=count_max))
    free = draw(st.integers(0, shape.everything))
    hidden = 0 if known else draw(st.sampled_from([0, 0, 0, min(1, free.bit_count()), min(2, free.bit_count())]))
    held = draw(st.integers(0, shape.everything)) & ~free if draw(st.booleans()) else 0
    out = shape.everything & ~free & ~held if draw(st.booleans()) else 0
    count_free = free.bit_count() - hidden
    return NodeState(shape, shape.count, count_free, free, hidden, held, out, enforced=draw(st.booleans()))


@st.composite
def scope_lists(draw: st.DrawFn) -> tuple[Scope, ...]:
    chosen = draw(st.sets(st.sampled_from(LEGAL_ORDER), min_size=1, max_size=SCOPES_MAX))
    return tuple(scope for scope in LEGAL_ORDER if scope in chosen)


@st.composite
def single_requests(draw: st.DrawFn, policy: Policy = Policy.RESTRICTED, gpus_max: int = 9) -> GpuRequest:
    scopes = draw(scope_lists())
    partition = draw(st.sampled_from([None, "p0", "p9"])) if scopes == (Scope.PARTITION,) else None
    return wish(draw(st.integers(1, gpus_max)), *scopes, policy=policy, partition=partition)


@st.composite
def pod_requests(draw: st.DrawFn, *, per_container: bool = False) -> GpuRequest:
    """Two or three containers, init and sidecars among them."""
    kinds = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=2))
    apps = draw(st.integers(1 if kinds else 2, 2))
    ordered = [*kinds, *([ContainerKind.APP] * apps)]
    containers = tuple(ContainerAsk(f"c{n}", draw(st.integers(1, 4)), kind) for n, kind in enumerate(ordered))
    policies = tuple(draw(st.sampled_from(Policy)) for _ in containers) if per_container else ()
    policy = Policy.RESTRICTED
    return GpuRequest(containers, policy, draw(scope_lists()), None, per_container, policies)
