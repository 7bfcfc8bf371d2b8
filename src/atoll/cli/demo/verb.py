"""`atoll demo`: the real services on a simulated cluster, in seconds, with no Kubernetes."""

import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from atoll.cli.demo.document import report_of
from atoll.cli.demo.drawing import act_lines, headline
from atoll.cli.demo.prompt import HELP, PROMPT, Conversation, printable
from atoll.cli.demo.script import CASES, Case, Played, play
from atoll.cli.ending import FAILED
from atoll.cli.tiles import Lettering, plain

OPENING = "Atoll's real scheduling service on a simulated cluster, in virtual time. Boxes are islands, letters pods."
FILE_MAX = 1_000_000
"""Characters of a file that are read; far more than a cluster to play with needs."""


class DemoOutput(StrEnum):
    TABLE = "table"
    JSON = "json"


def demo(
    output: Annotated[DemoOutput, typer.Option("-o", "--output", help="A story for people, or data.")] = (
        DemoOutput.TABLE
    ),
    keep: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--keep", help="Stay, and take pods from a prompt or from standard input.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="With --keep: take the lines from a file.")
    ] = None,
) -> None:
    """Play the four acceptance cases and explain a waiting pod; each claim is checked.

    Exit code 0 when every claim holds, 1 when one does not, or when a line of --file could not be carried out.
    """
    if file is not None and not keep:
        raise typer.BadParameter("a file is read with --keep only", param_hint="--file")
    if keep and output is DemoOutput.JSON:
        raise typer.BadParameter("--keep talks to a person; it has no JSON", param_hint="--output")
    lines = _lines_of(file) if file is not None else None
    console = Console(highlight=False)
    passed = _print_document() if output is DemoOutput.JSON else _print_story(console)
    if keep:
        passed = _converse(console, lines) and passed
    if not passed:
        raise typer.Exit(FAILED)


def _print_document() -> bool:
    document = report_of((case, tuple(play(case))) for case in CASES)
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return bool(document["passed"])


def _print_story(console: Console) -> bool:
    """Print act by act; False when a claim does not hold."""
    _print(console, [Text(OPENING), Text()])
    failed: list[str] = []
    claims = 0
    for number, case in enumerate(CASES, 1):
        acts = list(_shown(console, number, case))
        claims += sum(len(act.judged) for act in acts)
        failed += [f"{number}: {judged.text}" for act in acts for judged in act.judged if not judged.holds]
    if failed:
        sys.stderr.write(f"error: {len(failed)} of {claims} claims do not hold: {'; '.join(failed)}\n")
    else:
        _print(console, [Text(f"{claims} claims in {len(CASES)} cases: all hold.", style="bold green")])
    return not failed


def _shown(console: Console, number: int, case: Case) -> Iterator[Played]:
    _print(console, [headline(number, case)])
    letters = Lettering()
    for played in play(case):
        _print(console, act_lines(played, letters))
        yield played


def _lines_of(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            found = text.read(FILE_MAX + 1)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--file") from None
    if len(found) > FILE_MAX:
        raise typer.BadParameter(f"{file}: more than {FILE_MAX} characters", param_hint="--file")
    return found.splitlines()


def _converse(console: Console, lines: list[str] | None) -> bool:
    """Answer lines until there are no more; False when lines of a file could not be carried out."""
    # A process that was started without a standard input has none at all.
    typed = sys.stdin if lines is None and sys.stdin is not None else StringIO()
    if isinstance(typed, TextIOWrapper):
        typed.reconfigure(errors="replace")
    by_hand = typed.isatty()
    conversation = Conversation()
    _print(console, [Text(), Text("A cluster of your own, empty:"), *map(Text, HELP)])
    wrong = False
    for line in _typed(console) if by_hand else typed if lines is None else lines:
        answer = conversation.answer(line)
        if not by_hand and line.strip():
            _print(console, [Text(PROMPT + printable(line.strip()), style="dim")])
        _print(console, answer.lines)
        wrong = wrong or answer.wrong
        if answer.end:
            break
    return not wrong or lines is None


def _typed(console: Console) -> Iterator[str]:
    """Lines as they are typed; the end of input and an interrupt both end them."""
    while True:
        try:
            yield console.input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            _print(console, [Text()])
            return


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(plain(line, console.encoding), soft_wrap=True)
