"""Mutated valid dumps: each is read or refused with a place, never an exception of another kind.

The number of cases is ATOLL_FUZZ_CASES; a failing case prints its number, which alone reproduces it.
"""

import os
import random
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from atoll.adapters.catalogue import load, names
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.core.errors import DumpError
from tests.data import data_folder
from tests.fuzz.mutations import mutant

CASES = int(os.environ.get("ATOLL_FUZZ_CASES", "4000"))
STILL_PARSE = 0.3
CHUNK = 2000


@cache
def valid_dumps() -> tuple[str, ...]:
    """Our own renderings of the catalogue, and the real dumps where they are at hand."""
    own = [load(name, "fuzz") for name in names()]
    texts = [render(machine) for machine in own for render in (render_matrix, render_list)]
    for path in sorted((data_folder("corpus") / "topo").glob("d*.txt")):
        try:
            read_topology([DumpFile(path.name, path.read_bytes())])
        except DumpError:
            continue
        texts.append(path.read_text())
    return tuple(texts)


def survivors(first: int) -> int:
    """Run one chunk of cases; how many of them still parsed."""
    parsed = 0
    for number in range(first, min(first + CHUNK, CASES)):
        rng = random.Random(number)
        text = mutant(rng.choice(valid_dumps()), rng)
        try:
            topology = read_topology([DumpFile("mutant", text.encode(errors="surrogatepass"))])
        except DumpError as refused:
            if not str(refused).startswith("mutant"):
                raise AssertionError(f"case {number}: a refusal without its place: {refused}") from refused
            continue
        except Exception as error:
            raise AssertionError(f"case {number}: {error!r} on\n{text}") from error
        parsed += 1
        assert topology.devices, f"case {number}: a topology without GPUs"
    return parsed


def test_every_mutated_dump_is_read_or_refused_with_its_place() -> None:
    with ProcessPoolExecutor(2) as pool:
        parsed = sum(pool.map(survivors, range(0, CASES, CHUNK)))

    assert parsed >= STILL_PARSE * CASES, (
        f"only {parsed} of {CASES} mutants still parse: the deep paths are not reached"
    )
