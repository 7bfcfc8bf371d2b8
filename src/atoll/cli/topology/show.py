"""`atoll topology show`: what files, folders or a live cluster say of nodes' GPUs, and what they do not say."""

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from atoll.adapters.formats.folder import Bundle
from atoll.cli.console import SafeConsole
from atoll.cli.options import Output
from atoll.cli.topology.document import document_of, json_of_list, list_of
from atoll.cli.topology.drawing import print_machine, print_machines
from atoll.cli.topology.given import SHOW_HELP, bundle_from
from atoll.cli.topology.live import live_bundle
from atoll.cli.topology.notes import print_blind


def topology_show(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE|FOLDER...", help=SHOW_HELP)] = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="A catalogue machine instead of files.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A live cluster instead of files: what its API tells.")
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Of a live cluster, this node alone.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
) -> None:
    """Show what files of a node, a folder of several, a live cluster or a catalogue machine say and do not say.

    In a folder each subfolder is a node, and a folder without any is one node unless its files contradict each other;
    loose files meet at the GPUs that they name, and else stand for themselves.
    Of a cluster, GPUNodes, ResourceSlices and what other schedulers and labels record are read, and nothing is
    written.

    Exit code 0 when it was shown, 1 when the cluster cannot be asked, 2 when nothing of what was given can be used.
    """
    if kubeconfig is None and node is None:
        bundle, listed = bundle_from(files or [], machine)
    elif files or machine:
        raise typer.BadParameter("found a cluster and files or --machine; give one of them")
    else:
        bundle, listed = live_bundle(kubeconfig, node), node is None
    show(bundle, output, SafeConsole(), listed=listed)


def show(bundle: Bundle, output: Output, console: Console, *, listed: bool = False) -> None:
    """Print it. JSON and YAML are ASCII and go out as they are; `listed` makes a list also of one."""
    listed = listed or len(bundle.machines) != 1
    if output in {Output.TABLE, Output.WIDE}:
        wide = output == Output.WIDE
        if listed:
            print_machines(bundle.machines, bundle.blind, console, wide=wide)
        else:
            print_machine(bundle.machines[0], console, wide=wide)
            print_blind(bundle.blind, console, wide=wide)
        return
    if listed and output == Output.JSON:
        for piece in json_of_list(bundle.machines, bundle.blind):
            console.file.write(piece)
        console.file.write("\n")
        return
    document = list_of(bundle.machines, bundle.blind) if listed else document_of(bundle.machines[0])
    text = (
        json.dumps(document, indent=2) if output == Output.JSON else yaml.safe_dump(document, sort_keys=False).rstrip()
    )
    console.file.write(f"{text}\n")
