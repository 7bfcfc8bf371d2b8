"""`atoll snapshot`: keep what an audit sees, as the input of plans, simulations and bug reports."""

from pathlib import Path
from typing import Annotated

import typer

from atoll.adapters import snapshot_file
from atoll.cli.audit.seen import SEEN_HELP, picture_of
from atoll.cli.audit.verb import Live
from atoll.cli.collector import collector_paused
from atoll.cli.options import GpuResource, resources_of
from atoll.core.anonymize import anonymized

app = typer.Typer(name="snapshot", help="Keep what is seen of a cluster.", no_args_is_help=True)


@app.callback()
def snapshot() -> None:
    """Keep what is seen of a cluster."""


@app.command()
def save(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; a name in .gz is compressed.")],
    source: Annotated[
        list[str] | None, typer.Option("--from", metavar="FILE|FOLDER", help=f"{SEEN_HELP} Repeatable.")
    ] = None,
    kubeconfig: Live = None,
    anonymize: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--anonymize", help="Replace names, UIDs and UUIDs consistently, and drop messages.")
    ] = False,
    gpu_resource: GpuResource = None,
) -> None:
    """Save what an audit of files or a live cluster sees; `atoll audit FILE` reads it again."""
    with collector_paused():
        picture = picture_of(source or [], kubeconfig, resources_of(gpu_resource))
        snapshot_file.save(anonymized(picture) if anonymize else picture, file)
    nodes, pods = len(picture.nodes), len(picture.pods)
    typer.echo(f"{file}: {nodes} node{'' if nodes == 1 else 's'}, {pods} pod{'' if pods == 1 else 's'} with GPUs")
