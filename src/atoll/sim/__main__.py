"""`python -m atoll.sim --seeds A..B`: exit 0 when no run fails, 1 with `seed=…` when one does."""

import argparse
import os
import sys
import time

from atoll.sim.run import run_seed, run_seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m atoll.sim", description=__doc__)
    parser.add_argument("--seeds", default="0..1000", help="A..B, B excluded, or one number")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--story", action="store_true", help="print every step of the one seed that is given")
    parser.add_argument("--marks", action="store_true", help="print how often each thing happened")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("..")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    if args.story:
        story: list[str] = []
        digest, failure, _ = run_seed(seeds[0], story)
        print("\n".join(story))
        print(f"seed={seeds[0]} digest={digest} {failure}")
        return 1 if failure else 0
    started = time.perf_counter()
    result = run_seeds(seeds, args.processes)
    for seed, failure in result.failures[:10]:
        print(f"seed={seed} {failure}")
    if args.marks:
        print("\n".join(f"{count:9} {mark}" for mark, count in sorted(result.marks.items())))
    for mark in result.missing:
        print(f"never happened: {mark}")
    spent_s = time.perf_counter() - started
    print(
        f"seeds={result.seeds} failures={len(result.failures)} digest={result.digest} "
        f"in {spent_s:.1f} s, {result.seeds / spent_s:.0f} seeds/s"
    )
    return 1 if result.failures or result.missing else 0


if __name__ == "__main__":
    sys.exit(main())
