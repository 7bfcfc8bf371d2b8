"""The page on taking Atoll away: its commands are the program's, its table has every step in the plan's order."""

import re
from pathlib import Path

from atoll.adapters.kube.installed import GATE_POLICY
from atoll.core.delivery import PLACEMENT
from atoll.core.removal import StepName
from tests.docs.test_readme import FENCE, must_be_taken

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "uninstall.md").read_text()


def test_its_commands_are_taken_by_the_program() -> None:
    lines = [line[2:] for language, body in FENCE.findall(PAGE) if language == "console" for line in body.splitlines()]
    calls = [line.split("#")[0].split()[1:] for line in lines]

    assert {words[0] for words in calls} == {"uninstall"}
    for words in calls:
        must_be_taken(words)


def test_its_table_has_every_step_in_the_order_of_the_plan() -> None:
    rows = [line.partition(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]

    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(StepName)


def test_the_names_that_it_speaks_of_are_the_code_s() -> None:
    assert f"`{GATE_POLICY}`" in PAGE
    assert f"`{PLACEMENT}`" in PAGE
    assert (PROJECT / "tests" / "e2e" / "test_uninstall.py").exists()
