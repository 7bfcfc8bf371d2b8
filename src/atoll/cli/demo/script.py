"""What the demo plays, as values: the four acceptance cases, and one question why a pod waits.

A case is a few acts on a fresh cluster. An act takes steps, shows the cluster and makes claims, which are checked on
what is recorded afterwards, so that the demo cannot tell a story that did not happen.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from atoll.cli.demo.claims import (
    Claim,
    free_in_islands,
    has_what_was_given_back,
    is_beside,
    is_degraded,
    is_told,
    runs_on_a_whole_island,
    shares_no_gpu,
    waits,
)
from atoll.cli.demo.cluster import Playground
from atoll.cli.demo.scene import Scene, scene_of
from atoll.core.explain import Explanation
from atoll.core.reasons import Code
from atoll.core.request import Policy


@dataclass(frozen=True, slots=True)
class AddNode:
    name: str
    machine: str

    def __str__(self) -> str:
        return f"add node {self.name} ({self.machine})"


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    gpus: int
    policy: Policy | None = None  # None: what the size says, Restricted from four on

    def __str__(self) -> str:
        return f"run {self.name} {self.gpus}" + (f" policy={self.policy}" if self.policy else "")


@dataclass(frozen=True, slots=True)
class Delete:
    name: str

    def __str__(self) -> str:
        return f"delete {self.name}"


Step = AddNode | Run | Delete


@dataclass(frozen=True, slots=True)
class Act:
    """`why` names a pod that waits at the end; its explanation is shown and must name a remedy."""

    steps: tuple[Step, ...]
    claims: tuple[Claim, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim and what was found instead, "" when it holds."""

    text: str
    found: str

    @property
    def holds(self) -> bool:
        return not self.found


@dataclass(frozen=True, slots=True)
class Played:
    """An act and how it went."""

    act: Act
    scene: Scene
    judged: tuple[Judged, ...]
    explanation: Explanation | None

    @property
    def passed(self) -> bool:
        return all(judged.holds for judged in self.judged)


def play(case: Case) -> Iterator[Played]:
    """Play a case on a cluster of its own, act by act."""
    playground = Playground()
    for act in case.acts:
        before = scene_of(playground)
        judged = [Judged(str(step), wrong) for step in act.steps if (wrong := take(playground, step))]
        after = scene_of(playground)
        judged += [Judged(claim.text, claim.judge(before, after)) for claim in act.claims]
        explanation = playground.explain(act.why) if act.why else None
        if act.why:
            told = "" if explanation is not None and explanation.cheapest is not None else "nothing that would help"
            judged.append(Judged(f"it is known what would let {act.why} run", told))
        yield Played(act, after, tuple(judged), explanation)


def take(playground: Playground, step: Step) -> str:
    """Do it; "" or what was wrong with it."""
    match step:
        case AddNode(name, machine):
            playground.add_node(name, machine)
            return ""
        case Run(name, gpus, policy):
            return playground.run(name, gpus, policy)
        case Delete(name):
            return playground.delete(name)


TRAIN = Run("train", 4, Policy.RESTRICTED)


def _pairs(count: int) -> tuple[Run, ...]:
    """Pairs fill one island after the other: each goes where an island is broken already."""
    return tuple(Run(f"pair-{n}", 2) for n in range(1, count + 1))


def _group_beside_three_broken_islands(node: str) -> tuple[Step, ...]:
    broken = (Delete("pair-2"), Delete("pair-4"), Delete("pair-6"))
    return (
        AddNode(node, "sixteen-gpu"),
        Run("group", 4, Policy.RESTRICTED),
        *_pairs(6),
        *broken,
        TRAIN,
    )


def _four_free_and_no_four(full: str, broken: str) -> tuple[Step, ...]:
    """One node is full; on the other, one island lacks a GPU and the other has only one."""
    small = (Run("three", 3), Run("one-a", 1), Run("two", 2), Run("one-b", 1), Delete("three"))
    return (
        AddNode(full, "hgx-h100"),
        Run("big", 8, Policy.RESTRICTED),
        AddNode(broken, "l40s-2x4"),
        *small,
        TRAIN,
    )


CASES: tuple[Case, ...] = (
    Case(
        "two-whole-islands",
        "Two pods of four on an idle node get two whole islands",
        (
            Act(
                (AddNode("h1", "hgx-h100"), Run("train-a", 4, Policy.RESTRICTED), Run("train-b", 4, Policy.RESTRICTED)),
                (
                    runs_on_a_whole_island("train-a", "h1"),
                    runs_on_a_whole_island("train-b", "h1"),
                    shares_no_gpu("train-a", "train-b"),
                ),
            ),
        ),
    ),
    Case(
        "the-only-whole-island",
        "Where one island alone has four free, exactly that one is given",
        (
            Act(
                (AddNode("l1", "l40s-2x4"), Run("pair", 2), TRAIN),
                (runs_on_a_whole_island("train", "l1"), is_beside("train", "l1", "pair")),
            ),
        ),
    ),
    Case(
        "never-a-fragment",
        "Four free GPUs across two islands are no four",
        (
            Act(
                (
                    AddNode("l1", "l40s-2x4"),
                    *_pairs(4),
                    Delete("pair-2"),
                    Delete("pair-3"),
                    TRAIN,
                ),
                (
                    free_in_islands("l1", 2, 2),
                    waits("train", Code.FRAGMENTED),
                    is_told("train", "4 free, no NUMANode has 4 (2/4, 2/4)"),
                ),
                why="train",
            ),
            Act((AddNode("l2", "l40s-2x4"),), (runs_on_a_whole_island("train", "l2"),)),
            Act(
                (Run("train-b", 4, Policy.RESTRICTED), Run("casual", 4, Policy.PREFERRED)),
                (runs_on_a_whole_island("train-b", "l2"), is_degraded("casual", "l1")),
            ),
        ),
    ),
    Case(
        "woken-by-a-release",
        "A group that ends gives its island to the pod that waits, by itself",
        (
            Act(
                _group_beside_three_broken_islands("x1"),
                (free_in_islands("x1", 0, 2, 2, 2), waits("train", Code.FRAGMENTED)),
            ),
            Act(
                (Delete("group"),),
                (runs_on_a_whole_island("train", "x1"), has_what_was_given_back("train", "group")),
            ),
        ),
    ),
    Case(
        "why-pending",
        "Why is it Pending, who is in the way, and what would help?",
        (
            Act(
                _four_free_and_no_four("h1", "l1"),
                (free_in_islands("l1", 3, 1), waits("train", Code.FRAGMENTED)),
                why="train",
            ),
            Act((Delete("one-a"),), (runs_on_a_whole_island("train", "l1"),)),
        ),
    ),
)
