"""`atoll demo` from the outside: the story, the data, and what happens when a claim does not hold."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from atoll.cli.app import app
from atoll.cli.demo.claims import runs_on_a_whole_island, waits
from atoll.cli.demo.document import report_of
from atoll.cli.demo.script import CASES, Act, AddNode, Case, Delete, Run, play
from atoll.core.reasons import Code
from atoll.core.request import Policy

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    done = RUNNER.invoke(app, ["demo", "-o", "json"])
    assert done.exit_code == 0
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def story() -> str:
    done = RUNNER.invoke(app, ["demo"])
    assert done.exit_code == 0
    return done.stdout


def case(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in document["cases"] if one["name"] == name)


def pod(case: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in case["pods"] if one["name"] == name)


def test_every_claim_of_every_case_holds(document: dict[str, Any]) -> None:
    assert document["passed"]
    assert [one["name"] for one in document["cases"]] == [
        "two-whole-islands",
        "the-only-whole-island",
        "never-a-fragment",
        "woken-by-a-release",
        "why-pending",
    ]
    assert all(check["passed"] and not check["found"] for one in document["cases"] for check in one["checks"])


def test_two_fours_get_two_islands_whose_uuids_are_disjoint(document: dict[str, Any]) -> None:
    idle = case(document, "two-whole-islands")

    got = [set(pod(idle, name)["uuids"]) for name in ("train-a", "train-b")]
    islands = [{gpu["uuid"] for gpu in island["gpus"]} for island in idle["nodes"][0]["islands"]]
    assert sorted(map(sorted, got)) == sorted(map(sorted, islands))


def test_a_preferred_pod_across_islands_is_recorded_with_what_it_lost(document: dict[str, Any]) -> None:
    fragment = case(document, "never-a-fragment")

    grants = [grant for node in fragment["nodes"] for grant in node["grants"]]
    degraded = [grant for grant in grants if grant["degraded"]]
    assert [grant["pod"] for grant in degraded] == ["casual"]
    assert degraded[0]["lost"]["worstLink"] == "SYS"
    assert pod(fragment, "train")["node"] == "l2"


def test_a_waiting_pod_is_explained_per_island_with_blockers_and_a_remedy(document: dict[str, Any]) -> None:
    explanation = case(document, "why-pending")["explanation"]

    assert (explanation["pod"], explanation["code"]) == ("train", "Fragmented")
    assert explanation["cheapest"] == {"node": "l1", "end": [{"namespace": "default", "name": "one-a"}], "gpus": 1}
    broken = next(node for node in explanation["nodes"] if node["node"] == "l1")
    blockers = [{blocker["name"] for blocker in island["blockers"]} for island in broken["islands"]]
    assert sorted(map(sorted, blockers)) == [["one-a"], ["one-b", "two"]]


def test_an_owner_of_a_tile_is_the_pod_whose_grant_names_it(document: dict[str, Any]) -> None:
    for one in document["cases"]:
        for node in one["nodes"]:
            by_grant = {uuid: grant["pod"] for grant in node["grants"] for uuid in grant["uuids"]}
            gpus = [gpu for island in node["islands"] for gpu in island["gpus"]]
            assert {gpu["uuid"]: gpu["owner"] for gpu in gpus if gpu["owner"]} == by_grant
            assert all(
                island["free"] == sum(gpu["owner"] is None for gpu in island["gpus"]) for island in node["islands"]
            )


def test_the_story_shows_islands_and_letters_and_says_why(story: str) -> None:
    assert "│ 0 " in story
    assert "NUMANode 0" in story
    assert "why does train wait? It wants 4 GPUs: Fragmented" in story
    assert "cheapest: it runs on l1 once one-a ends (1 GPU)" in story
    assert re.search(r"\d+ claims in 5 cases: all hold\.\s*$", story)


def test_the_story_has_no_colour_where_there_is_no_terminal(story: str) -> None:
    assert "\x1b" not in story


def test_two_runs_tell_the_same_story(story: str) -> None:
    assert RUNNER.invoke(app, ["demo"]).stdout == story


@pytest.mark.parametrize("output", ["yaml", "wide", "xml", ""])
def test_an_unknown_output_is_wrong_usage(output: str) -> None:
    done = RUNNER.invoke(app, ["demo", "-o", output])

    assert done.exit_code == 2
    assert "table" in done.stderr


def test_the_demo_is_over_in_seconds_as_a_process_without_a_home_or_a_locale(tmp_path: Path) -> None:
    start = time.monotonic()
    command = [sys.executable, "-m", "atoll", "demo"]
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=tmp_path, env=environment)

    assert done.returncode == 0, done.stderr
    assert b"+-----+" in done.stdout
    assert not list(tmp_path.iterdir())
    assert time.monotonic() - start < 15


FALSE = Case(
    "false",
    "A story that did not happen",
    (Act((AddNode("n1", "l40s-2x4"), Run("train", 4)), (waits("train", Code.FRAGMENTED),)),),
)


def test_a_claim_that_does_not_hold_ends_with_1_and_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll.cli.demo.verb.CASES", (FALSE,))

    done = RUNNER.invoke(app, ["demo"])

    assert done.exit_code == 1
    assert "FAIL  train waits with Fragmented; found: it runs on n1" in done.stdout
    assert done.stderr == "error: 1 of 1 claims do not hold: 1: train waits with Fragmented\n"
    assert RUNNER.invoke(app, ["demo", "-o", "json"]).exit_code == 1


def test_a_step_that_cannot_be_taken_is_a_failed_check() -> None:
    broken = replace(FALSE, acts=(Act((Delete("nobody"),), ()),))

    report = report_of([(broken, tuple(play(broken)))])

    assert not report["passed"]
    assert report["cases"][0]["checks"] == [
        {"claim": "delete nobody", "passed": False, "found": "there is no pod nobody"}
    ]


def test_a_pod_that_spans_islands_is_no_whole_island() -> None:
    pairs = tuple(Run(f"pair-{n}", 2) for n in range(4))
    broken = (Delete("pair-0"), Delete("pair-3"), Run("casual", 4, Policy.PREFERRED))
    act = Act((AddNode("n1", "l40s-2x4"), *pairs, *broken), (runs_on_a_whole_island("casual", "n1"),))

    (played,) = play(Case("spans", "Spans", (act,)))

    assert [judged.found for judged in played.judged] == ["its GPUs lie in NUMANode:0, NUMANode:1, no whole island"]


def test_a_waiting_pod_without_a_remedy_fails_the_case_that_asks_why() -> None:
    act = Act((AddNode("n1", "l40s-2x4"), Run("huge", 9)), (), why="huge")

    (played,) = play(Case("huge", "Huge", (act,)))

    assert not played.passed


def test_every_case_is_played_on_catalogue_machines() -> None:
    machines = {step.machine for one in CASES for act in one.acts for step in act.steps if isinstance(step, AddNode)}

    assert machines == {"hgx-h100", "l40s-2x4", "sixteen-gpu"}
