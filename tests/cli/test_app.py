"""The program as a whole, before any verb runs."""

import subprocess
import sys


def test_a_verb_that_asks_no_cluster_waits_for_no_client_and_no_server() -> None:
    heavy = ("aiohttp", "cryptography", "lightkube", "prometheus_client", "structlog", "uvloop")
    asked = f"import sys, atoll.cli.app; print([name for name in {heavy} if name in sys.modules])"

    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60)

    assert told.stdout.strip() == "[]"
