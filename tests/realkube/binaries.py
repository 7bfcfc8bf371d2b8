"""Where the real etcd and Kubernetes lie once `make realkube` has built them.

`ATOLL_KUBERNETES` names another minor than the newest, such as v1.34, for both.
"""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
KUBERNETES = os.environ.get("ATOLL_KUBERNETES", "")
"""The minor that is tested; "" = the newest."""
BUILT = PROJECT / ".cache" / "realkube" / (f"bin-{KUBERNETES}" if KUBERNETES else "bin")


class NotBuiltError(Exception):
    """The binaries are not there; the text says what makes them."""


def binary(name: str) -> Path:
    """Return the path of a program that `build.sh` builds. Only make does that, so that no test waits six minutes."""
    path = BUILT / name
    if not path.exists():
        raise NotBuiltError(f"{path} is missing: run `make realkube` (about 6 minutes the first time, needs Go)")
    return path
