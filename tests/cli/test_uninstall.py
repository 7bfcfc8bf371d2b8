"""`atoll uninstall --plan`: what it prints, and what it refuses before any cluster is asked."""

import json
import shlex
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from atoll.cli.app import app
from atoll.cli.ending import UNUSABLE
from atoll.cli.removals import age_text, command_text, removal_document, removal_lines
from atoll.core.delivery import PLACEMENT
from atoll.core.removal import Applied, Gates, PodLeft, Remains, removal

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OURS = "atoll-scheduler"


def gated(number: int) -> PodLeft:
    return PodLeft(
        "ml",
        f"p{number}",
        since="2026-01-01T21:30:00Z",
        gpus=4,
        gates=(PLACEMENT,),
        restricted=True,
        owner="Job/train",
        why="Fragmented: 1 of 1 nodes refuse 4 GPUs.\nn1: none",
    )


def remains(pods: int) -> Remains:
    return Remains((Applied("leases", "atoll", "kube-system"),), pods=tuple(map(gated, range(pods))))


def text(there: Remains, *, whole: bool = False) -> list[str]:
    steps = removal(there, Gates.LIFT, OURS)
    return [line.plain for line in removal_lines(steps, Gates.LIFT, NOW, whole=whole)]


def test_without_plan_it_says_how_atoll_is_removed_and_does_nothing() -> None:
    done = CliRunner().invoke(app, ["uninstall"])

    assert done.exit_code == UNUSABLE
    assert "Atoll is removed by running the commands" in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("words", [["--gates", "drop"], ["--scheduler-name", "No_Name"], ["--gpu-resource", "gpu"]])
def test_a_wrong_word_is_refused_before_a_cluster_is_asked(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["uninstall", "--plan", *words])

    assert done.exit_code == UNUSABLE
    assert words[0] in done.output


def test_a_cluster_that_cannot_be_asked_is_one_message(tmp_path: object) -> None:
    done = CliRunner().invoke(app, ["uninstall", "--plan", "--kubeconfig", f"{tmp_path}/none"])

    assert (done.exit_code, done.stdout) == (1, "")


def test_a_pod_is_told_with_its_gate_its_age_and_what_it_waits_for() -> None:
    told = "ml/p0, 4 GPUs, Restricted, behind atoll.dev/placement, for 2 h, of Job/train: Fragmented: 1 of 1 nodes"
    patch = """'{"spec":{"schedulingGates":[{"$patch":"delete","name":"atoll.dev/placement"}]}}'"""

    assert text(remains(1))[:4] == [
        "1. lift our gates",
        "   1 of them is Restricted, which ends with the gate: from then on count decides",
        f"     {told} refuse 4 GPUs.",
        f"     $ kubectl -n ml patch pods p0 --type strategic -p {patch}",
    ]


def test_a_few_are_named_and_the_others_counted() -> None:
    few, whole = text(remains(25)), text(remains(25), whole=True)

    assert few.count("     and 15 more pods") == few.count("     and 15 more commands") == 1
    assert few[-1] == "all of it: atoll uninstall --plan --gates lift -o wide"
    assert sum(line.startswith("     ml/") for line in whole) == sum("patch pods" in line for line in whole) == 25
    assert not any("and 15 more" in line or "all of it" in line for line in whole)


def test_a_cluster_without_atoll_is_told_so() -> None:
    assert text(Remains()) == ["nothing of Atoll is left on this cluster"]


def test_scripts_get_every_pod_and_every_command_as_a_shell_takes_it() -> None:
    steps = removal(remains(25), Gates.LIFT, OURS)
    document = json.loads(json.dumps(removal_document(steps, Gates.LIFT)))

    assert (document["kind"], document["gates"]) == ("Removal", "lift")
    first = document["steps"][0]
    assert list(first) == ["step", "title", "notes", "byHand", "commands", "pods", "nodes"]
    assert first["step"] == "gates"
    assert [tuple(shlex.split(each)) for each in first["commands"]] == list(steps[0].commands)
    assert first["pods"][0] == {
        "namespace": "ml",
        "name": "p0",
        "since": "2026-01-01T21:30:00Z",
        "gpus": 4,
        "gates": ["atoll.dev/placement"],
        "schedulerName": "",
        "node": None,
        "sentTo": None,
        "restricted": True,
        "granted": False,
        "owner": "Job/train",
        "why": "Fragmented: 1 of 1 nodes refuse 4 GPUs.\nn1: none",
    }


def test_no_name_becomes_a_word_of_a_shell() -> None:
    assert command_text(("kubectl", "a b; rm")) == "kubectl 'a b; rm'"


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("2026-01-01T23:59:30Z", "30 s"),
        ("2026-01-01T23:00:00Z", "1 h"),
        ("2025-12-29T00:00:00Z", "4 d"),
        ("2027-01-01T00:00:00Z", "0 s"),
        ("", "an unknown time"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(since: str, told: str) -> None:
    assert age_text(since, NOW) == told
