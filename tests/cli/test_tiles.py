"""The drawing of islands: what it looks like without colour, and how it fits a terminal."""

from rich.text import Text

from atoll.cli.tiles import Island, Lettering, Tile, draw, islands_of, plain
from atoll.core.scope import Scope
from atoll.core.shape import shape_of
from atoll.sim.machines import machine


def text(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def test_islands_stand_side_by_side_with_the_owners_letter_in_each_tile() -> None:
    islands = (
        Island("NUMANode 0", (Tile(0, "A"), Tile(1)), "1 of 2 free"),
        Island("NUMANode 1", (Tile(2, "x"), Tile(3, "?"))),
    )

    assert text(draw(islands)) == (
        "NUMANode 0     NUMANode 1\n"
        "┌─────┬─────┐  ┌─────┬─────┐\n"
        "│ 0 A │ 1   │  │ 2 x │ 3 ? │\n"
        "└─────┴─────┘  └─────┴─────┘\n"
        "1 of 2 free"
    )


def test_islands_that_do_not_fit_a_line_are_dealt_out_evenly() -> None:
    islands = [Island(f"NUMANode {n}", (Tile(2 * n), Tile(2 * n + 1))) for n in range(4)]

    names = [line.plain.split() for line in draw(islands, width=50) if "NUMANode" in line.plain]

    assert names == [["NUMANode", "0", "NUMANode", "1"], ["NUMANode", "2", "NUMANode", "3"]]
    assert all(line.cell_len <= 50 for line in draw(islands, width=50))


def test_a_node_without_gpus_draws_nothing() -> None:
    assert draw([]) == []


def test_tiles_of_a_shape_carry_the_given_indices_and_marks() -> None:
    shape, _ = shape_of(machine("n1", (2, 2)))

    islands = islands_of(shape, shape.blocks(Scope.NUMA_NODE), (7, 6, 5, 4), {1: "B"})

    assert islands == (
        Island("NUMANode 0", (Tile(7), Tile(6, "B"))),
        Island("NUMANode 1", (Tile(5), Tile(4))),
    )


def test_only_owned_tiles_have_an_owners_colour() -> None:
    assert Tile(0, "A").style != Tile(0, "B").style
    assert Tile(0).style == ""
    assert "on" not in Tile(0, "x").style


def test_a_terminal_without_unicode_gets_the_same_picture_in_ascii() -> None:
    drawn = draw([Island("NUMANode 0", (Tile(0, "A"),))])

    assert text([plain(line, "ascii") for line in drawn]) == "NUMANode 0\n+-----+\n| 0 A |\n+-----+"
    assert [plain(line, "UTF-8") for line in drawn] == drawn


def test_an_owner_keeps_its_letter_while_others_come_and_go() -> None:
    letters = Lettering()

    first = letters.assign(["a", "b", "a"])
    second = letters.assign(["c", "b"])

    assert first == {"a": "A", "b": "B"}
    assert second == {"c": "A", "b": "B"}


def test_owners_beyond_the_alphabet_share_a_star() -> None:
    letters = Lettering().assign([f"pod-{n}" for n in range(60)])

    assert "x" not in letters.values()
    assert letters["pod-59"] == "*"
