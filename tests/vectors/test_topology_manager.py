"""The kubelet's Topology Manager: the peer's tables by kind, and recorded merges of random hints; one case per row."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

import pytest

from atoll.core.gpuset import mask_of, positions
from atoll.models.kubelet.numa import (
    EVERY_BIT,
    NotStarted,
    NumaNodes,
    added,
    holds,
    narrower,
    numa_nodes,
    removed,
    subsets,
)
from atoll.models.kubelet.start import OptionLevels, PolicyOptions, policy_options, topology_manager
from atoll.models.kubelet.topology_manager import (
    Fitness,
    TopologyManager,
    TopologyPolicy,
    TopologyScope,
    better,
    gathered,
    single_node_hints,
    widest_of_narrowest,
)
from tests.data import cases, data_folder
from tests.vectors.numbered import Row, hint_of, numa_of, provider_of

CASES = data_folder("vectors") / "topologymanager_cases.jsonl"
ORACLE = data_folder("vectors") / "topologymanager_oracle.jsonl"


def check_merge(row: Row) -> None:
    manager = TopologyManager(
        TopologyPolicy(row["policy"]),
        numa_of(row.get("numa_nodes", []), row.get("distances")),
        prefer_closest=row.get("prefer_closest", False),
    )
    merged = manager.affinity([provider_of(each) for each in row["providers"]])

    assert merged == hint_of(row["expected"])
    if row.get("admit") is not None:
        assert manager.admits(merged) == row["admit"]


def check_admit(row: Row) -> None:
    for scope in row["scopes"]:
        manager = TopologyManager(TopologyPolicy(row["policy"]), numa_of(row["numa_nodes"], None), TopologyScope(scope))

        assert manager.admits(manager.affinity([provider_of(each) for each in row["providers"]])) == row["admit"]


def check_compare(row: Row) -> None:
    current, candidate = (row[which] and hint_of(row[which]) for which in ("current", "candidate"))
    fitness = Fitness(NumaNodes(tuple(range(64))), closest=row["rule"] == "closest")

    assert candidate is not None
    found = better(current, candidate, row["best_nonpreferred_count"], fitness)
    assert found == row[row["winner"]] or found == hint_of(row[row["winner"]])


def check_compare_masks(row: Row) -> None:
    told = row["distances"] or {}
    fitness = Fitness(numa_of([int(node) for node in told], told), closest=row["rule"] == "closest")
    current, candidate = mask_of(row["current"]), mask_of(row["candidate"])

    assert fitness.fitter(candidate, current) == (row["winner"] == "candidate")


def check_max_of_min(row: Row) -> None:
    assert widest_of_narrowest([[hint_of(each) for each in hints] for hints in row["hints"]]) == row["expected"]


def check_filter(row: Row) -> None:
    kept = single_node_hints([[hint_of(each) for each in hints] for hints in row["hints"]])

    assert kept == [[hint_of(each) for each in hints] for hints in row["expected"]]


def check_accumulated(row: Row) -> None:
    expected = None if row["expected"] is None else [provider_of(each) for each in row["expected"]]

    assert gathered([provider_of(each) for each in row["providers"]]) == expected


def check_average(row: Row) -> None:
    told = row["distances"] or {}

    assert numa_of([int(node) for node in told], told).mean_distance(mask_of(row["mask"])) == row["expected"]


def check_numa_info(row: Row) -> None:
    found = numa_nodes({node["id"]: node["distances"] for node in row["nodes"]}, prefer_closest=row["prefer_closest"])

    if row["error_contains"]:
        assert isinstance(found, NotStarted)
        assert row["error_contains"] in found.why
    else:
        assert found == numa_of(row["expected"]["nodes"], row["expected"]["distances"])


LEVELS = OptionLevels(beta=frozenset({"fancy-new-option"}), alpha=frozenset({"fancy-alpha-option"}))
"""The peer's tests bring in one option of each immature level."""


def levels_of(row: Row) -> OptionLevels:
    gate, on = row["feature_gate"] or "", row["gate_on"]
    return OptionLevels(
        beta=LEVELS.beta,
        alpha=LEVELS.alpha,
        beta_on=on if gate.endswith("BetaOptions") else True,
        alpha_on=on if gate.endswith("AlphaOptions") else False,
    )


def check_options(row: Row) -> None:
    found = policy_options(row["options"] or {}, levels_of(row))

    if row["error_contains"]:
        assert isinstance(found, NotStarted)
        assert row["error_contains"] in found.why
    else:
        assert isinstance(found, PolicyOptions)
        told = {key.replace("_", "").lower(): value for key, value in (row["expected"] or {}).items()}
        for key, value in told.items():
            assert value == (found.prefer_closest if key.startswith("prefer") else found.nodes_max)


def check_option_available(row: Row) -> None:
    assert (levels_of(row).refused(row["option"]) is None) == row["expected"]


def check_start(row: Row) -> None:
    nodes = dict.fromkeys(row["numa_node_ids"])
    found = topology_manager(row["policy"], "container", row["options"] or {}, nodes)

    if row["error_contains"]:
        assert isinstance(found, NotStarted)
        assert row["error_contains"] in found.why
    else:
        assert isinstance(found, TopologyManager)
        assert found.policy == row["expected_policy"]


def check_scope(row: Row) -> None:
    found = topology_manager("best-effort", row["scope"], {}, {})

    if row["error_contains"]:
        assert isinstance(found, NotStarted)
        assert row["error_contains"] in found.why
    else:
        assert isinstance(found, TopologyManager)
        assert found.scope == row["expected"]


def check_bitmask(row: Row) -> None:
    given = row["args"]
    mask, masks = mask_of(given.get("mask") or ()), [mask_of(bits) for bits in given.get("masks", ())]
    pair = [mask_of(given[name]) for name in ("firstMask", "secondMask") if name in given]
    bits = given.get("bits") or ()
    found: dict[str, Callable[[], object]] = {
        "NewBitMask": lambda: added(0, bits),
        "Add": lambda: added(mask, bits),
        "Remove": lambda: removed(added(0, given["bitsSet"]), given["bitsRemove"]),
        "And": lambda: reduce(and_, masks),
        "Or": lambda: reduce(or_, masks),
        "Clear": lambda: mask & ~EVERY_BIT,
        "Fill": lambda: mask | EVERY_BIT,
        "IsEmpty": lambda: mask == 0,
        "IsSet": lambda: holds(mask, given["checkBit"]),
        "AnySet": lambda: any(holds(mask, bit) for bit in given["checkBits"]),
        "IsEqual": lambda: pair[0] == pair[1],
        "Count": lambda: mask_of(bits).bit_count(),
        "GetBits": lambda: list(positions(mask_of(bits))),
        "IsNarrowerThan": lambda: narrower(*pair),
        "IsLessThan": lambda: pair[0] < pair[1],
        "IsGreaterThan": lambda: pair[0] > pair[1],
        "IterateBitMasks": lambda: sorted(subsets(range(given["numbits"]))),
    }
    if row["op"] == "IterateBitMasks":
        expected: object = list(range(1, 1 << given["numbits"]))
    else:
        name = next(key for key in given if key.startswith("expected") or key in RESULTS)
        expected = int(given[name], 2) if name.endswith("Mask") else given[name]

    assert found[row["op"]]() == expected


RESULTS = {"andMask", "orMask", "clearedMask", "filledMask"}

CHECKS: dict[str, Callable[[Row], None]] = {
    "merge": check_merge,
    "admit": check_admit,
    "compare": check_compare,
    "compare_masks": check_compare_masks,
    "max_of_min": check_max_of_min,
    "filter_single_numa": check_filter,
    "accumulate_hints": check_accumulated,
    "avg_distance": check_average,
    "numa_info": check_numa_info,
    "policy_options": check_options,
    "policy_option_available": check_option_available,
    "new_manager": check_start,
    "new_manager_scope": check_scope,
    "bitmask": check_bitmask,
}


@pytest.mark.parametrize("row", cases(CASES))
def test_the_topology_manager_s_own_tables_hold(row: Row) -> None:
    CHECKS[row["kind"]](row)


@pytest.mark.parametrize("row", cases(ORACLE))
def test_a_merge_of_random_hints_is_the_recorded_one(row: Row) -> None:
    check_merge(row)
