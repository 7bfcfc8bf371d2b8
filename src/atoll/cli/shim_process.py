"""The shim as it runs for months on every node: loaded without what reads command lines, a quarter less memory.

`atoll shim` becomes this; nobody else calls it.
"""

import json
import os
import sys
from pathlib import Path

from atoll.cli.ending import FAILED, to_its_end

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is told by us
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # structlog loads it for colours, wherever it is


def main(told: str) -> None:
    """Args: told: settings as JSON, checked."""
    from atoll.cli.serving import run  # noqa: PLC0415 - after the line above
    from atoll.wiring.shim import ShimSettings, run_shim  # noqa: PLC0415

    words = json.loads(told)
    settings = ShimSettings(
        node=words["node"],
        kubeconfig=Path(words["kubeconfig"]) if words["kubeconfig"] else None,
        namespace=words["namespace"],
        resources=tuple(words["resources"]),
        kubelet_folder=Path(words["kubelet_folder"]),
        plugin_folder=Path(words["plugin_folder"]),
    )
    if not run(run_shim(settings), json_logs=words["json_logs"]):
        sys.exit(FAILED)


if __name__ == "__main__":
    to_its_end(lambda: main(sys.argv[1]))
