"""Where the program starts. What runs on every node for months loads its own verb alone: a third less memory."""

import os
import sys

import typer

from atoll.cli.options import FAILED, UNUSABLE
from atoll.core.errors import AtollError, DumpError, printable

# Each is imported where it is needed, since that is the point of this module.


def main() -> None:
    """Run the program."""
    if sys.argv[1:2] == ["shim"]:
        from atoll.cli.shim import alone  # noqa: PLC0415

        to_its_end(alone)
    else:
        from atoll.cli.app import app  # noqa: PLC0415

        to_its_end(app)


def to_its_end(app: typer.Typer) -> None:
    """Run it; what is wrong outside becomes one message, never a traceback."""
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # as in a process that was started with it closed
                sys.stdout.flush()
    except AtollError as error:
        told = "\n".join(map(printable, str(error).split("\n")))
        sys.stderr.write(f"error: {told}\n")
        sys.exit(UNUSABLE if isinstance(error, DumpError) else FAILED)
    except OSError as error:
        # Files and sockets have messages of their own; what is left is an output that takes no more, as a full disk.
        sys.stderr.write(f"error: the output cannot be written: {error.strerror or error}\n")
        # What is still buffered would be tried once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
