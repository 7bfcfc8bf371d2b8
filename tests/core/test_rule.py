"""The closed forms of `rule` against all worlds: exhaustive for what four or five GPUs can be known to be."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from random import Random

import pytest

from atoll.core.domains import Domains, NvlinkGraph
from atoll.core.gpuset import mask_of
from atoll.core.levels import clique
from atoll.core.rule import rule_for
from atoll.core.scope import Scope
from atoll.core.shape import Shape
from tests.core.nodes import board
from tests.core.oracle import World, binds, members, right, sets_of, worlds

PAIRED_LISTS = 1_500
NVLINK_BOARDS = 250


def shape_with(count: int, **chain: Domains) -> Shape:
    """A node of `count` GPUs with what is known of some scopes; the narrower ones are single GPUs."""
    plain = board(*[[gpu] for gpu in range(count)])
    places = {"numa": 2, "socket": 3}
    known = list(plain.chain)
    for name, domains in chain.items():
        known[places[name]] = domains
    return replace(plain, chain=tuple(known))


def knowledge(count: int) -> Iterator[Domains]:
    """Every partitioning of the GPUs with every choice of open blocks."""
    for blocks in partitionings(tuple(range(count))):
        for opened in product((False, True), repeat=len(blocks)):
            flagged = list(zip(blocks, opened, strict=True))
            yield Domains(tuple(b for b, is_open in flagged if not is_open), tuple(b for b, o in flagged if o))


def partitionings(gpus: tuple[int, ...]) -> Iterator[list[int]]:
    if not gpus:
        yield []
        return
    first, rest = gpus[0], gpus[1:]
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = tuple(gpu for gpu in rest if gpu not in others)
            for blocks in partitionings(left):
                yield [mask_of((first, *others)), *blocks]


@cache
def expected(shape: Shape, scopes: tuple[Scope, ...], size: int) -> tuple[list[World], set[frozenset[int]]]:
    all_worlds = worlds(shape, scopes, None)
    sets = sets_of(frozenset(range(shape.count)), size)
    return all_worlds, {gpus for gpus in sets if all(right(world, gpus, size) for world in all_worlds)}


def check(shape: Shape, scopes: tuple[Scope, ...]) -> None:
    for size in range(1, shape.count + 2):
        rule = rule_for(shape, size, scopes, None)
        all_worlds, proven = expected(shape, scopes, size)
        sets = sets_of(frozenset(range(shape.count)), size)
        said = {gpus for gpus in sets if rule.proven(mask_of(gpus))}
        context = (shape.chain, shape.nvlink, scopes, size)
        assert said == proven, context
        assert rule.ever == any(binds(world, size) for world in all_worlds), context
        assert all(any(not mask_of(gpus) & ~region for region in rule.regions) for gpus in proven), context
        for free in range(1 << shape.count):
            fits = any(right(world, gpus, size) for gpus in sets_of(members(free), size) for world in all_worlds)
            assert rule.possible(free) == fits, (context, free)


def test_one_scope_is_proven_exactly_where_all_worlds_agree():
    for count in (1, 2, 3, 4):
        for known in knowledge(count):
            check(shape_with(count, numa=known), (Scope.NUMA_NODE,))


@pytest.mark.limits
def test_a_list_is_proven_exactly_where_all_worlds_agree():
    everything = list(product(knowledge(3), repeat=2))
    sample = Random(7).sample(list(product(knowledge(4), repeat=2)), PAIRED_LISTS)
    for numa, socket in everything:
        check(shape_with(3, numa=numa, socket=socket), (Scope.NUMA_NODE, Scope.SOCKET))
        check(shape_with(3, numa=numa, socket=socket), (Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE))
    for numa, socket in sample:
        check(shape_with(4, numa=numa, socket=socket), (Scope.NUMA_NODE, Scope.SOCKET))


def test_five_gpus_whose_numa_nodes_are_partly_known():
    for known in knowledge(5):
        shape = shape_with(5, numa=known)
        for size in (2, 3, 4):
            rule = rule_for(shape, size, (Scope.NUMA_NODE, Scope.NODE), None)
            _, proven = expected(shape, (Scope.NUMA_NODE, Scope.NODE), size)
            assert {g for g in sets_of(frozenset(range(5)), size) if rule.proven(mask_of(g))} == proven, (known, size)


def test_nvlink_is_proven_exactly_where_all_worlds_agree():
    random = Random(11)
    for _ in range(NVLINK_BOARDS):
        count = random.choice((3, 4, 5))
        pairs = list(combinations(range(count), 2))
        kinds = {pair: random.choice(("link", "link", "none", "unknown")) for pair in pairs}
        while list(kinds.values()).count("unknown") > 4:
            kinds[random.choice(pairs)] = "link"
        shape = replace(
            shape_with(count),
            nvlink=NvlinkGraph(*(rows(count, kinds, kind) for kind in ("link", "unknown"))),
        )
        check(shape, (Scope.NVLINK,))
        check(shape, (Scope.NVLINK, Scope.NODE))


def rows(count: int, kinds: dict[tuple[int, int], str], kind: str) -> tuple[int, ...]:
    return tuple(
        mask_of(peer for peer in range(count) if kinds.get((min(gpu, peer), max(gpu, peer))) == kind)
        for gpu in range(count)
    )


def test_overlapping_partitions_hold_what_any_of_them_holds():
    shape = board([0, 1, 2, 3], partitions=[("a", [0, 1, 2]), ("b", [2, 3])])

    rule = rule_for(shape, 2, (Scope.PARTITION,), None)

    assert rule.proven(0b0011)
    assert rule.proven(0b1100)
    assert not rule.proven(0b1001)
    assert not rule_for(shape, 3, (Scope.PARTITION,), "b").ever
    assert rule_for(shape, 1, (Scope.PARTITION,), "b").proven(0b1000)
    assert not rule_for(shape, 1, (Scope.PARTITION,), "b").proven(0b0001)


def test_cliques_are_found_in_large_boards_without_enumeration():
    count = 64
    two_halves = [((1 << 32) - 1) << 32 * (gpu // 32) & ~(1 << gpu) for gpu in range(count)]

    assert clique(two_halves, (1 << count) - 1, 32) == (1 << 32) - 1
    assert clique(two_halves, (1 << count) - 1, 33) is None
