"""Order of preference: tables against naive scans, and the sentences of DESIGN §6 one by one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.core.assess import assess
from atoll.core.domains import Domains
from atoll.core.geometry import MIX, SETS_MAX, geometry_of
from atoll.core.gpuset import mask_of, positions
from atoll.core.request import Policy
from atoll.core.rule import rule_for
from atoll.core.scope import CHAIN, DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape
from atoll.core.tables import chooser_for
from atoll.core.verdict import Fit
from tests.core.nodes import board, free_on, mask, scope_lists, shapes, wish
from tests.samples import examples

BOUNDED = settings(max_examples=examples(150), deadline=None)
TWO_BY_FOUR = board([0, 1, 2, 3], [4, 5, 6, 7])
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def subsets(free: int, size: int) -> list[int]:
    return [mask_of(chosen) for chosen in combinations(positions(free), size)]


def slots(shape: Shape, free: int, size: int) -> int:
    """Weighted intact slots for the sizes above `size`, where the default list puts each."""
    worth = 0
    for wanted, weight in MIX:
        for scope in DEFAULT_SCOPES:
            known = shape.chain[CHAIN.index(scope)]
            large = [block for block in known.closed + known.open if block.bit_count() >= wanted]
            if large and wanted > size:
                worth += weight * sum((block & free).bit_count() // wanted for block in large)
            if large:
                break
    return worth


def naive_rank(shape: Shape, size: int, free: int, gpus: int, domain: int) -> tuple[int, ...]:
    """The parts of the rank that come before the tie-breakers inside narrower domains, and the links after them."""
    pairs = list(combinations(positions(gpus), 2))
    every = list(combinations(range(shape.count), 2))
    linked = {pair for pair in every if shape.nvlink.linked[pair[0]] >> pair[1] & 1}
    mixed = 0 < len(linked) < len(every)
    ranks = [shape.links[a][b].rank for a, b in pairs]
    return (
        int(mixed and any(pair not in linked for pair in pairs)),
        slots(shape, free, size) - slots(shape, free & ~gpus, size),
        (domain & free & ~gpus).bit_count(),
        (domain & free).bit_count() - domain.bit_count(),
        -min(ranks, default=0),
        -sum(ranks),
    )


def around(shape: Shape, scope: Scope, region: int) -> int:
    """0 for a domain of its own; else the width of the narrowest domain around it that is one."""
    if scope not in CHAIN or region not in shape.chain[CHAIN.index(scope)].open:
        return 0
    wider = [
        other.width
        for other, known in zip(CHAIN, shape.chain, strict=True)
        if other.width > scope.width and any(not region & ~block for block in known.closed)
    ]
    return min(wider)


def main_parts(rank: tuple[int, ...]) -> tuple[int, ...]:
    return (*rank[3:7], *rank[10:12])


@BOUNDED
@given(shapes(), scope_lists(), st.integers(1, 8), st.integers(0, 255))
def test_a_table_row_equals_a_scan_over_all_sets(shape: Shape, scopes: tuple[Scope, ...], size: int, free: int):
    free &= shape.everything
    rule = rule_for(shape, size, scopes, None)
    scan = [
        ((around(shape, rule.bound, region), *naive_rank(shape, size, free, gpus, region)[:4]), gpus)
        for gpus in subsets(free, size)
        if rule.proven(gpus)
        for region in rule.regions
        if not gpus & ~region
    ]

    best = chooser_for(shape, size, scopes, None).proven(free)

    if best is None:
        assert not scan
        return
    rank, tied = best
    top = min(key for key, _ in scan)
    assert rank[2:7] == top
    assert set(tied) <= {gpus for key, gpus in scan if key == top}
    assert main_parts(rank) in {
        naive_rank(shape, size, free, tied[0], region) for region in rule.regions if not tied[0] & ~region
    }


@BOUNDED
@given(shapes(), st.integers(0, 255), st.integers(1, 8))
def test_one_set_stands_for_all_that_differ_only_by_twins(shape: Shape, free: int, size: int):
    geometry = geometry_of(shape)
    free &= shape.everything

    def by_twins(gpus: int) -> tuple[int, ...]:
        return tuple((twins & gpus).bit_count() for twins in geometry.twins)

    offered = list(geometry.sets(free, size))

    assert len(offered) == len(set(offered)) == geometry.ways(free, size)
    assert {by_twins(gpus) for gpus in offered} == {by_twins(gpus) for gpus in subsets(free, size)}


def granted(shape: Shape, free: Sequence[int], gpus: int, *scopes: Scope, **words: object) -> set[int]:
    verdict = assess(free_on(shape, free), wish(gpus, *scopes, **words))
    assert isinstance(verdict, Fit), verdict
    return set(positions(verdict.gpus))


def rank(shape: Shape, free: Sequence[int], gpus: int, *scopes: Scope, **words: object) -> tuple[int, ...]:
    verdict = assess(free_on(shape, free), wish(gpus, *scopes, **words))
    assert isinstance(verdict, Fit), verdict
    return verdict.rank


def test_three_go_to_the_dirty_island():
    assert granted(TWO_BY_FOUR, [0, 1, 2, 3, 4, 5, 7], 3) == {4, 5, 7}


def test_single_gpus_fill_the_broken_island():
    assert granted(TWO_BY_FOUR, [0, 1, 2, 3, 6], 1) == {6}
    assert granted(TWO_BY_FOUR, [0, 1, 2, 3, 4, 5, 6], 1) <= {4, 5, 6}


def test_single_gpus_fill_the_broken_pair_of_an_island():
    paired = board([0, 1, 2, 3], [4, 5, 6, 7], switches=PAIRS)

    assert granted(paired, [0, 1, 3], 1) == {3}


def test_an_idle_node_stays_whole_while_a_half_used_one_fits():
    for gpus in (1, 2, 3, 4):
        assert rank(TWO_BY_FOUR, [4, 5, 6, 7], gpus) < rank(TWO_BY_FOUR, range(8), gpus)


def test_two_islands_of_two_are_no_island_of_four_but_serve_pairs_first():
    assert rank(TWO_BY_FOUR, [0, 1, 6, 7], 2) < rank(TWO_BY_FOUR, [0, 1, 2, 3], 2)


def test_the_narrower_bound_scope_wins_between_nodes_under_both_policies():
    nps4 = board([0, 1], [2, 3], [4, 5], [6, 7], sockets=[[0, 1, 2, 3], [4, 5, 6, 7]])
    for policy in Policy:
        assert rank(TWO_BY_FOUR, range(8), 4, policy=policy) < rank(nps4, [0, 1, 2, 3], 4, policy=policy)


def test_linked_sets_win_where_only_some_pairs_have_bridges():
    bridged = board([0, 1, 2, 3], [4, 5, 6, 7], bridges=[(1, 2), (5, 6)])

    assert granted(bridged, [0, 1, 2, 3, 4, 5, 7], 2) == {1, 2}


def test_six_of_two_islands_keep_the_links_of_a_whole_one():
    assert granted(TWO_BY_FOUR, range(8), 6) in ({0, 1, 2, 3, 4, 5}, {0, 1, 4, 5, 6, 7})


def test_a_degraded_grant_comes_after_every_intact_one():
    split = rank(TWO_BY_FOUR, [0, 1, 4, 5], 4, policy=Policy.PREFERRED)

    assert split > rank(TWO_BY_FOUR, range(8), 4, policy=Policy.PREFERRED)
    assert split > rank(TWO_BY_FOUR, range(8), 8, policy=Policy.PREFERRED)


def test_network_cards_break_the_last_tie():
    near = replace(TWO_BY_FOUR, nic_ranks=(1, 1, 1, 1, 5, 5, 5, 5))

    assert granted(near, range(8), 4) == {4, 5, 6, 7}


def test_four_on_a_two_socket_nps4_node_are_one_socket():
    nps4 = board([0, 1], [2, 3], [4, 5], [6, 7], sockets=[[0, 1, 2, 3], [4, 5, 6, 7]])

    assert granted(nps4, [2, 3, 4, 5, 6, 7], 4) == {4, 5, 6, 7}


def test_six_of_two_fours_leave_a_pair_whole_even_where_every_link_is_equal():
    islands = [[0, 1, 2, 3], [4, 5, 6, 7]]
    every = [(a, b) for a in range(8) for b in range(a)]
    switched = replace(board(*islands, bridges=every), nic_ranks=(5,) * 8)

    left = set(range(8)) - granted(switched, range(8), 6)

    assert any(left <= set(island) for island in islands)


def test_sixteen_gpus_in_two_islands_are_decided_without_symmetry_too():
    islands = [list(range(8)), list(range(8, 16))]
    rugged = replace(board(*islands), nic_ranks=tuple(range(16)))  # no two GPUs are twins

    assert granted(rugged, range(16), 8) == set(range(8, 16))
    assert geometry_of(rugged).ways(rugged.everything, 8) <= SETS_MAX


def test_up_to_64_gpus_follow_the_same_counts_per_domain():
    for count in (17, 24, 40, 64):
        size = count // 4
        islands = [list(range(n * size, (n + 1) * size if n < 3 else count)) for n in range(4)]
        rugged = replace(board(*islands), nic_ranks=tuple(gpu % 6 for gpu in range(count)))
        free = [*islands[0][1:], *islands[1][: size // 2], *islands[2], *islands[3][:2]]

        for wanted in range(1, size + 1):
            fits = [sorted(set(island) & set(free)) for island in islands]
            by_count = {
                tuple(fit): naive_rank(rugged, wanted, mask(free), mask(fit[:wanted]), mask(islands[n]))[1:4]
                for n, fit in enumerate(fits)
                if len(fit) >= wanted
            }
            best = [set(fit) for fit, key in by_count.items() if key == min(by_count.values())]
            assert any(granted(rugged, free, wanted, Scope.NUMA_NODE) <= fit for fit in best)


def test_a_large_board_without_symmetry_still_gets_cliques_and_whole_blocks():
    ring = [(gpu, (gpu + 1) % 40) for gpu in range(40)]
    rugged = replace(
        board(list(range(20)), list(range(20, 40)), bridges=ring), nic_ranks=tuple(gpu % 6 for gpu in range(40))
    )

    plain = replace(board(list(range(20)), list(range(20, 40))), nic_ranks=rugged.nic_ranks)

    assert len(granted(plain, range(40), 18)) == 18
    assert granted(rugged, range(40), 2, Scope.NVLINK) in [{a, b} for a, b in ring]
    assert len(granted(rugged, range(40), 30)) == 30
    assert rugged.chain[2] == Domains((2**20 - 1, (2**20 - 1) << 20), ())
