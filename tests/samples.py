"""How many examples a property is tried with: all of them, or the share that `make check` takes to stay quick."""

import os

SHARE_PERCENT = int(os.environ.get("ATOLL_EXAMPLES_PERCENT", "100"))


def examples(count: int) -> int:
    return max(1, count * SHARE_PERCENT // 100)
