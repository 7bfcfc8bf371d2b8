"""Whether this machine lets a test have mounts of its own, as kubelets with NUMA nodes on paper need them."""

import subprocess
from functools import cache

import pytest

_TRIES = ("unshare", "--mount", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /var/lib")


@cache
def missing() -> str:
    """What stands in the way, "" when nothing does."""
    try:
        tried = subprocess.run(_TRIES, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"unshare cannot be run: {error}"
    return f"no mount namespace here (are you root?): {tried.stderr.strip()}" if tried.returncode else ""


needs_mounts = pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")
