"""Mutated valid input of every format: each is read or refused with a place, in time, and never fails otherwise.

ATOLL_FUZZ_CASES mutants per parser, which are the same on every machine. A failing one prints its name, such as
lspci:4711, and ATOLL_FUZZ_CASE=lspci:4711 runs it alone; with `pytest -s` its text is shown.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from zlib import crc32

import pytest

from atoll.core.errors import DumpError
from tests.fuzz.parsers import Parser, check_place, parsers, unchanged

CASES = int(os.environ.get("ATOLL_FUZZ_CASES", "300"))
ALONE, _, NUMBER = os.environ.get("ATOLL_FUZZ_CASE", "").partition(":")
BLOCK = 10_000
STILL_PARSE = 0.3
SECONDS_MAX = 1.0

PARSERS = {parser.name: parser for parser in parsers()}
BLOCKS = [
    pytest.param(parser, first, min(BLOCK, CASES - first), id=f"{name}-{first}")
    for name, parser in PARSERS.items()
    for first in range(0, CASES, BLOCK)
]
if ALONE:
    BLOCKS = [pytest.param(PARSERS[ALONE], int(NUMBER), 1, id=f"{ALONE}-{NUMBER}")]


class TooSlow(BaseException):
    """A mutant took more than its time. No reader catches it."""


def stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


@contextmanager
def bounded() -> Iterator[None]:
    """The timer counts this process's own time, so that a busy machine fails no test."""
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def made(parser: Parser, number: int, rng: Random) -> bytes:
    rng.seed(crc32(parser.name.encode()) << 32 | number)
    return parser.mutate(rng.choice(parser.seeds), rng)


def survives(parser: Parser, content: bytes) -> bool:
    """Whether the mutant still parses."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    try:
        return parser.read(content)
    except DumpError as refused:
        check_place(refused)
        return False


@pytest.mark.parametrize(("parser", "first", "count"), BLOCKS)
def test_every_mutant_is_read_or_refused_with_its_place(
    parser: Parser, first: int, count: int, record_property: Callable[[str, object], None]
) -> None:
    parsed, rng, started = 0, Random(), time.process_time()
    with bounded():
        for number in range(first, first + count):
            content = made(parser, number, rng)
            if ALONE:
                print(content.decode(errors="replace"))
            try:
                parsed += survives(parser, content)
            except (Exception, TooSlow) as error:
                name = f"{parser.name}:{number}"
                pytest.fail(f"ATOLL_FUZZ_CASE={name} fails: {error!r}\n{content[:3000].decode(errors='replace')}")
    record_property("fuzzed", (parser.name, count, parsed, time.process_time() - started))

    assert ALONE or parsed >= STILL_PARSE * count, (
        f"only {parsed} of {count} mutants still parse: the deep paths are not reached"
    )


@pytest.mark.parametrize("parser", [pytest.param(parser, id=parser.name) for parser in PARSERS.values()])
def test_every_seed_is_valid(parser: Parser) -> None:
    for seed in parser.seeds:
        assert parser.read(unchanged(seed)), f"a seed that is not read:\n{seed}"
