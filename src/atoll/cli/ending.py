"""How a run of the program ends: exit codes, and what becomes of an error."""

import os
import sys
from collections.abc import Callable

from atoll.core.errors import AtollError, DumpError, printable

FAILED, UNUSABLE = 1, 2
"""In kubectl's manner: refused or failed; wrong usage or a topology file that cannot be trusted. 0 is done."""


def to_its_end(program: Callable[[], object]) -> None:
    """Run it; what is wrong outside becomes one message, never a traceback."""
    try:
        try:
            program()
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
