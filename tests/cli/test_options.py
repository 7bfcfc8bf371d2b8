"""Options that several verbs share: what is refused before anything is read, asked or started."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from atoll.cli.app import app
from atoll.cli.ending import UNUSABLE
from atoll.cli.options import resources_of

BAD = ["bad//name", "gpu", "", "/", "nvidia.com/", "/gpu", "nvidia.com/gpu/x", "NVIDIA.com/gpu", "nvidia..com/gpu",
       "-nvidia.com/gpu", "nvidia.com/-gpu", "nvidia.com/gpu.", "nvidia.com/g pu", "nvidia.com/" + "g" * 64,
       "n" * 254 + "/gpu", "nvidia.com/gpu\n", "nvidia.com/gpü"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_kubernetes_would_refuse_is_refused(name: str):
    with pytest.raises(typer.BadParameter, match="DOMAIN/NAME"):
        resources_of([name])


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "a/b", "x.y-z.io/A_b.c-9", "a/" + "g" * 63]
)
def test_qualified_names_count_as_gpus(name: str):
    assert resources_of(["nvidia.com/gpu", name, name]) == tuple(dict.fromkeys(["nvidia.com/gpu", name]))


def test_without_the_option_nvidias_resource_counts():
    assert resources_of(None) == resources_of([]) == ("nvidia.com/gpu",)


@pytest.mark.parametrize(
    "verb",
    [
        "audit n.yaml",
        "snapshot save s.jsonl --from n.yaml",
        "serve --cert-dir .",
        "topology publish n.yaml --node n1",
        "manifests scheduler-config --extender-url https://a:8443 --cert-dir /x",
    ],
)
def test_every_verb_says_which_option_it_was_and_what_is_legal(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("n.yaml").write_text("kind: Node\nmetadata: {name: n1}\n")

    result = CliRunner().invoke(app, [*verb.split(), "--gpu-resource", "bad//name"])

    assert result.exit_code == UNUSABLE
    assert "--gpu-resource" in result.output
    assert "bad//name" in result.output
