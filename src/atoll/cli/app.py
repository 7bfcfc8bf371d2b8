"""The program `atoll`: one file per verb, put together here. Data goes to standard output, errors to standard error.

Exit codes in kubectl's manner: 0 done, 1 refused or failed, 2 wrong usage or a topology file that cannot be trusted.
"""

import sys
from typing import Annotated

import typer
from rich.console import Console

from atoll.cli import manifests
from atoll.cli.demo import demo
from atoll.cli.serve import serve
from atoll.cli.topology_publish import topology_publish
from atoll.cli.topology_render import topology_render
from atoll.cli.topology_show import Output, show, topology_from
from atoll.core.errors import AtollError, DumpError

FAILED, UNUSABLE = 1, 2

app = typer.Typer(
    name="atoll",
    help="Whole GPU islands for Kubernetes: one topology domain, or wait and be told why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
topology = typer.Typer(name="topology", help="What is known of a node's GPUs.", no_args_is_help=True)


@topology.command("show")
def topology_show(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="`nvidia-smi topo -m`, `topo -mp`, `-L`, `lscpu` or a machine file, all of one node; - is stdin.",
        ),
    ] = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="A catalogue machine instead of files.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
) -> None:
    """Show what the files of one node, or a catalogue machine, say and do not say."""
    show(topology_from(files or [], machine), output, Console())


app.command()(demo)
app.command()(serve)
topology.command("publish")(topology_publish)
topology.command("render")(topology_render)
app.add_typer(topology)
app.add_typer(manifests.app)


def main() -> None:
    """Run the program; what is wrong outside becomes one message, never a traceback."""
    try:
        app()
    except AtollError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(UNUSABLE if isinstance(error, DumpError) else FAILED)
