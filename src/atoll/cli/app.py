"""The program `atoll`, put together from its verbs. Data goes to standard output, errors to standard error.

Exit codes in kubectl's manner: 0 done, 1 refused or failed, 2 wrong usage or a topology file that cannot be trusted.
"""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from atoll.cli import manifests, snapshot
from atoll.cli.agent import agent
from atoll.cli.audit.probe import audit_probe
from atoll.cli.audit.verb import audit
from atoll.cli.demo.verb import demo
from atoll.cli.options import FAILED, UNUSABLE
from atoll.cli.serve import serve
from atoll.cli.shim import shim
from atoll.cli.topology.publish import topology_publish
from atoll.cli.topology.render import topology_render
from atoll.cli.topology.show import topology_show
from atoll.core.errors import AtollError, DumpError, printable


class Verbs(TyperGroup):
    """Verbs of two words beside one of the first word alone: what follows `audit` is a file, unless it is `probe`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - typer's
        two = " ".join(args[:2])
        if two in self.commands:
            return two, self.commands[two], args[2:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="atoll",
    cls=Verbs,
    help="Whole GPU islands for Kubernetes: one topology domain, or wait and be told why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
topology = typer.Typer(name="topology", help="What is known of a node's GPUs.", no_args_is_help=True)

app.command()(demo)
app.command()(audit)
app.command("audit probe")(audit_probe)
app.command()(serve)
app.command()(agent)
app.command()(shim)
topology.command("show")(topology_show)
topology.command("publish")(topology_publish)
topology.command("render")(topology_render)
app.add_typer(topology)
app.add_typer(snapshot.app)
app.add_typer(manifests.app)


def main() -> None:
    """Run the program; what is wrong outside becomes one message, never a traceback."""
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
