"""Run every benchmark, or those named: `python -m bench decision stock agent` and so on."""

import importlib
import sys

from bench.rows import HEAD

ALL = (
    *("decision", "stock", "extender", "webhook", "memory", "agent", "shim", "audit", "cluster", "outage"),
    *("gate", "freed", "waiting"),
)


def main() -> int:
    """Print the rows as they come; 1 when a goal was missed."""
    names = sys.argv[1:] or list(ALL)
    if unknown := [name for name in names if name not in ALL]:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    print(HEAD, flush=True)
    missed = 0
    for name in names:
        for row in importlib.import_module(f"bench.{name}").rows():
            print(row, flush=True)
            missed += row.met is False
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
