"""Speed and memory, measured here and now: `python -m bench` prints the table that docs/benchmarks.md keeps."""
