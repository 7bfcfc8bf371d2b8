"""`atoll audit` and `atoll snapshot`: what a person reads, what a script reads, and how bad input ends."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from atoll.cli.app import main
from tests.cli.bundles import uuids, write_bundle

GOLDEN = Path(__file__).parent / "golden"
TAKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?=$|\n)", re.MULTILINE)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["atoll", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    write_bundle(tmp_path / "bundle")
    return Path("bundle")


@pytest.mark.parametrize("output", ["table", "wide"])
def test_the_report_reads_as_a_person_found_it_good(
    bundle: Path, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "audit", str(bundle), "-o", output) == 0

    text = TAKEN.sub("NOW", capsys.readouterr().out)
    golden = GOLDEN / f"audit-{output}.txt"
    if os.environ.get("ATOLL_WRITE_GOLDEN") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_json_and_yaml_say_the_same_and_nothing_else(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "audit", str(bundle), "-o", "json")
    document = json.loads(capsys.readouterr().out)
    run(monkeypatch, "audit", str(bundle), "-o", "yaml")
    same = yaml.safe_load(capsys.readouterr().out)

    document["taken"] = same["taken"] = ""
    assert document == same
    assert (document["apiVersion"], document["kind"]) == ("atoll.dev/v1alpha1", "AuditReport")
    assert document["totals"] == {
        "nodes": 3, "gpus": 24, "free": 16, "pods": 3, "splitPods": 1, "waitingPods": 1,
    }  # fmt: skip
    node = next(node for node in document["nodes"] if node["name"] == "gpu-b")
    split = node["holders"][0]
    assert [node["gpus"][at]["uuid"] for at in split["gpus"]] == uuids("gpu-b")[2:6]
    assert (split["pod"], split["split"], split["source"]) == ("ml/llm", True, "kubelet checkpoint")


def test_a_page_is_written_beside_the_report(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "audit", str(bundle), "--html", "report.html") == 0

    page = Path("report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "ml/llm" in page
    assert run(monkeypatch, "audit", str(bundle), "--html", "no/such/report.html") == 1
    assert "cannot be written" in capsys.readouterr().err


def test_metrics_stand_beside_the_placement(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dcgm.txt").write_text(f'DCGM_FI_DEV_GPU_UTIL{{gpu="2",UUID="{uuids("gpu-b")[2]}"}} 97\n')

    run(monkeypatch, "audit", str(bundle), "--metrics", "dcgm.txt")

    assert "GPU_UTIL of GPU 2 97" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["metrics.log", "gpu-b/dcgm"])
def test_metrics_in_a_folder_are_found_by_content(
    bundle: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = f'DCGM_FI_DEV_GPU_UTIL{{gpu="2",UUID="{uuids("gpu-b")[2]}"}} 97\n'
    (bundle / place).write_text(good + "DCGM_FI_DEV_GPU_UTIL\n")

    assert run(monkeypatch, "audit", str(bundle), "-o", "wide") == 0

    told = capsys.readouterr().out
    assert "GPU_UTIL of GPU 2 97" in told
    assert f"{place}:2" in told


@pytest.mark.parametrize(
    ("content", "code", "told"),
    [
        ('DCGM_A{gpu="1"} 3\nDCGM_B{\n', 0, "dcgm.txt:2"),
        ("DCGM_B{\n", 2, "dcgm.txt:1:1: found"),
        ("node_load1 3\n", 2, "found no metric of a GPU"),
        ('{"data": {"resultType": "vector", "result": []}}', 2, "found no metric of a GPU"),
    ],
)
def test_a_damaged_line_of_metrics_is_told_and_only_where_none_is_good_refused(
    bundle: Path, content: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    Path("dcgm.txt").write_text(content)

    assert run(monkeypatch, "audit", str(bundle), "--metrics", "dcgm.txt", "-o", "wide") == code

    captured = capsys.readouterr()
    assert told in captured.out + captured.err


@pytest.mark.parametrize("anonymize", [False, True])
def test_a_snapshot_shows_the_same_problem_again(
    bundle: Path, anonymize: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def codes(path: str) -> list[str]:
        run(monkeypatch, "audit", path, "-o", "json")
        return [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]

    flags = ["--anonymize"] if anonymize else []
    assert run(monkeypatch, "snapshot", "save", "seen.json.gz", "--from", str(bundle), *flags) == 0
    assert capsys.readouterr().out == "seen.json.gz: 3 nodes, 16 pods with GPUs\n"

    assert codes("seen.json.gz") == codes(str(bundle))
    run(monkeypatch, "audit", "seen.json.gz", "-o", "json")
    told = capsys.readouterr().out
    names = ["gpu-a", "train-0", "wants-four", "llm", "ReplicaSet/web", *uuids("gpu-a")]
    assert [name for name in names if (name in told) is anonymize] == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "give a folder of a support bundle"),
        (["no-such-folder"], 2, "no-such-folder: found nothing to read"),
        (["bundle/notes.md"], 2, "bundle/notes.md:1:1: found no topology"),
        (["empty"], 2, "empty: found nothing that can be used (there is no file)"),
        (["useless"], 2, "useless: found nothing that can be used (notes.md:1 found no topology)"),
        (["bundle/notes.md", "useless/notes.md"], 2, "found nothing that can be used (bundle/notes.md:1"),
        (["--kubeconfig", "no-such-file"], 1, "no-such-file"),
        (["bundle", "--metrics", "no-such-file"], 2, "no-such-file: found nothing to read"),
    ],
)
def test_what_cannot_be_audited_ends_with_one_message(
    bundle: Path, arguments: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    Path("empty").mkdir()
    Path("useless").mkdir()
    Path("useless/notes.md").write_text("hello\n")

    assert run(monkeypatch, "audit", *arguments) == code

    captured = capsys.readouterr()
    assert told in " ".join(captured.err.replace("│", " ").split())
    assert captured.out == ""


def test_one_bad_file_among_good_ones_is_told_and_stops_nothing(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["bundle/gpu-c/topo.txt", "bundle/gpu-c/broken.txt"]

    assert run(monkeypatch, "audit", *files) == 0

    out = capsys.readouterr().out
    assert "8 GPUs on 4 NUMA nodes, 2 on each" in out
    assert "bundle/gpu-c/broken.txt:3" in out
