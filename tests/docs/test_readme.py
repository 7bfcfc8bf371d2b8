"""The README cannot drift: its picture is what the demo prints, its commands and objects are what the program takes."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import typer
import yaml
from typer.testing import CliRunner

from atoll.adapters.catalogue import load
from atoll.adapters.kube import wire, wire_atoll
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_inventory import config_of
from atoll.adapters.kube.manifests import SCHEDULER_NAME
from atoll.cli.app import app
from atoll.core import asking
from atoll.core.asking import BUILT_IN, request_of
from atoll.core.facts import Enforcement
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, Policy, ServiceClass
from atoll.core.scope import DEFAULT_SCOPES, Scope
from tests.e2e.installation import dump_files

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CUT = "\n…\n"


def blocks(language: str, text: str = README) -> list[str]:
    return [body for found, body in FENCE.findall(text) if found == language]


def commands() -> list[str]:
    """Every command line of the README, continued lines joined."""
    joined = [re.sub(r"\\\n\s*", "", body) for body in blocks("console")]
    return [line[2:] for body in joined for line in body.splitlines() if line.startswith("$ ")]


def calls_of_atoll() -> list[list[str]]:
    parts = [part.strip() for line in commands() for part in re.split(r"[;|>]", line)]
    return [shlex.split(part, comments=True)[1:] for part in parts if part.startswith("atoll ")]


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table whose first heading this is, by the word in their first cell."""
    lines = README.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows: dict[str, list[str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip() for cell in line.split("|")[1:-1]]
        rows[first.strip("`")] = rest
    return rows


def document(kind: str) -> dict[str, Any]:
    found = [yaml.safe_load(body) for body in blocks("yaml")]
    return next(one for one in found if one["kind"] == kind)


def test_the_picture_is_what_the_demo_prints() -> None:
    printed = CliRunner().invoke(app, ["demo"]).stdout
    shown = blocks("text", README[README.index("<!-- demo -->") :])[0].rstrip("\n")

    at = 0
    for piece in shown.split(CUT):
        assert piece in printed[at:]
        at = printed.index(piece, at) + len(piece)
    assert printed[at:].strip() == ""


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = re.findall(r"^([a-z0-9]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    made = [shlex.split(line, comments=True)[1] for line in commands() if line.startswith("make ")]

    assert made == ["demo", "test"]
    assert set(made) <= set(targets)


def must_be_taken(call: list[str]) -> None:
    """Whether the program has the command and each of its options."""
    command = typer.main.get_command(app)
    context: click.Context = command.make_context("atoll", list(call), resilient_parsing=True)  # type: ignore[assignment]
    rest = list(call)
    while hasattr(command, "get_command"):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"atoll has no {name}"
    command.make_context(" ".join(call), rest)


@pytest.mark.parametrize("call", calls_of_atoll(), ids=" ".join)
def test_every_command_of_the_readme_is_one_that_the_program_takes(call: list[str]) -> None:
    must_be_taken(call)


def offline_calls() -> list[list[str]]:
    """Those on a bundle are run by the audit's own tests, which make one."""
    offline = [call for call in calls_of_atoll() if call[0] == "manifests" or call[:2] == ["topology", "show"]]
    return [call for call in offline if not any("bundle" in word for word in call)]


@pytest.mark.parametrize("call", offline_calls(), ids=" ".join)
def test_the_commands_of_the_readme_that_need_no_cluster_run_as_they_stand(
    call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump_files(load("hgx-h100", "gpu-node-1"), tmp_path / "node")
    monkeypatch.chdir(tmp_path / "node")

    done = CliRunner().invoke(app, call)

    assert done.exit_code == 0, done.output
    if call[0] == "manifests":
        assert all(one["apiVersion"] and one["kind"] for one in yaml.safe_load_all(done.stdout))
    else:
        assert "NUMANode    {0-3} {4-7}" in done.stdout
        assert "unknown" not in done.stdout


def test_the_readme_says_every_command_that_an_installation_needs() -> None:
    verbs = {tuple(word for word in call[:2] if not word.startswith("-")) for call in calls_of_atoll()}

    assert {("manifests", "crds"), ("manifests", "rbac"), ("manifests", "scheduler-config")} <= verbs
    assert {("topology", "publish"), ("topology", "show"), ("serve",)} <= {verb[:2] for verb in verbs}


def test_the_pod_of_the_readme_asks_for_what_its_text_says() -> None:
    raw = document("Pod")
    raw["metadata"] |= {"uid": "u", "namespace": "ml", "resourceVersion": "1"}
    facts = pod_facts(msgspec.convert(raw, wire.Pod, strict=False), ("nvidia.com/gpu",))

    request = request_of(facts.ask)

    assert isinstance(request, GpuRequest)
    assert (request.gpus, request.policy, request.scopes) == (4, Policy.RESTRICTED, (Scope.NUMA_NODE,))
    assert facts.scheduler == SCHEDULER_NAME


def test_the_configuration_of_the_readme_enforces_a_pool() -> None:
    raw = document("GPUNodeConfig")

    config = config_of(msgspec.convert(raw, wire_atoll.NodeConfig))

    assert config.enforcement is Enforcement.ENFORCE
    assert config.selector is not None
    assert config.selector[0].key == "pool"


def test_the_table_of_annotations_is_what_is_read() -> None:
    rows = table("annotation")

    assert list(rows) == [*asking.ASKED, asking.GANG_SIZE]
    assert all(f"`{policy}`" in rows[asking.POLICY][0] for policy in Policy)
    assert all(f"`{scope}`" in rows[asking.SCOPE][0] for scope in Scope)
    assert rows[asking.SCOPE][1] == f"`{','.join(DEFAULT_SCOPES)}`"
    assert all(f"`{word}`" in rows[asking.SERVICE_CLASS][0] for word in ServiceClass)
    assert BUILT_IN.restricted_from == 4


def test_the_table_of_reasons_has_every_code_in_its_order() -> None:
    assert list(table("reason")) == [str(code) for code in Code]


def test_the_glossary_names_every_scope() -> None:
    glossary = (PROJECT / "docs" / "glossary.md").read_text()

    assert all(f"`{scope}`" in glossary for scope in Scope)
