"""What README and docs/audit.md show of the audit is what the program does; and the order of trust is the code's."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from atoll.cli.app import main
from atoll.core.evidence.reading import Format
from tests.cli.bundles import uuids, write_bundle
from tests.docs.test_readme import CUT, PROJECT, README, blocks

AUDIT = (PROJECT / "docs" / "audit.md").read_text()
PICTURE = re.compile(r"<!-- audit -->\n```text\n(.*?)```", re.DOTALL)
LIVE = "--kubeconfig"


def lines() -> list[str]:
    """Every call of the audit, of a show of its bundle, and of a snapshot."""
    shown = [line[2:].split("#")[0].strip() for text in (README, AUDIT) for body in blocks("console", text)
             for line in body.splitlines() if line.startswith("$ atoll ")]  # fmt: skip
    return [line for line in dict.fromkeys(shown) if "bundle" in line or " audit " in line or "snapshot" in line]


def run(monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "110")
    folder = write_bundle(tmp_path / "bundle")
    (tmp_path / "topo.txt").write_text((folder / "gpu-a" / "topo.txt").read_text())
    (tmp_path / "gpus.txt").write_text((folder / "gpu-a" / "gpus.txt").read_text())
    (tmp_path / "dcgm.txt").write_text(f'DCGM_FI_DEV_GPU_UTIL{{UUID="{uuids("gpu-a")[0]}"}} 9\n')
    return folder


def test_every_example_of_the_audit_runs(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(lines()) > 6
    for line in lines():
        command = line.split("|")[0].strip()
        live = LIVE in command

        code = run(monkeypatch, command)

        captured = capsys.readouterr()
        # A live one comes as far as the kubeconfig that is not here; tests/e2e goes on from there.
        assert (code, "kube" in captured.err) == ((1, True) if live else (0, False)), (command, captured.err)


def test_the_readme_shows_what_the_audit_prints(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "atoll audit bundle/")
    printed = re.sub(r" · \d{4}-.*Z\n", "\n", capsys.readouterr().out)

    (picture,) = PICTURE.findall(README)

    pieces = [piece.strip("\n") for piece in picture.split(CUT)]
    assert len(pieces) > 1
    assert [piece for piece in pieces if piece not in printed] == []


def test_the_order_of_trust_is_the_code_s() -> None:
    told = AUDIT[AUDIT.index("## Which source is believed") :]
    words = [
        *("sysfs", "lspci", "lstopo", "numactl", "lscpu", "nvidia-smi", "NCCL", "GPUNode", "PodResources"),
        *("ResourceSlice", "Koordinator", "NodeResourceTopology", "Volcano", "HAMi", "labels"),
    ]

    ranked = [next(n for n, form in enumerate(Format) if word in form) for word in words]

    assert ranked == sorted(ranked)
    assert [told.index(word) for word in words] == sorted(told.index(word) for word in words)
