"""The program as a whole, before any verb runs."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_a_verb_that_asks_no_cluster_waits_for_no_client_and_no_server() -> None:
    heavy = ("aiohttp", "cryptography", "lightkube", "prometheus_client", "structlog", "uvloop")
    asked = f"import sys, atoll.cli.app; print([name for name in {heavy} if name in sys.modules])"

    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60)

    assert told.stdout.strip() == "[]"


def test_a_shim_holds_nothing_that_only_other_verbs_need() -> None:
    """It runs on every node for months."""
    others = ("typer", "pydantic", "rich.console", "lightkube", "cryptography", "atoll.core.audit", "atoll.cli.app")
    asked = (
        "import sys, atoll.cli.shim_process, atoll.cli.serving, atoll.wiring.shim\n"
        f"print([name for name in {others} if name in sys.modules])"
    )

    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60)

    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        ["demo"],
        ["demo", "-o", "json"],
        ["manifests", "crds"],
        *(["topology", verb, "--machine", "dgx-1"] for verb in ("show", "render")),
    ],
)
def test_an_output_that_takes_no_more_is_told_in_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [sys.executable, "-m", "atoll", *words], check=False, stdout=full, stderr=subprocess.PIPE, timeout=60
        )

    assert (told.returncode, told.stderr) == (1, b"error: the output cannot be written: No space left on device\n")
