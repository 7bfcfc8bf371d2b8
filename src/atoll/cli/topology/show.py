"""`atoll topology show`: what the files of one node, or a catalogue machine, say and do not say."""

import json
from enum import StrEnum
from typing import Annotated

import typer
import yaml
from rich.console import Console

from atoll.cli.topology.document import document_of
from atoll.cli.topology.drawing import print_topology
from atoll.cli.topology.given import FILES_HELP, topology_from
from atoll.core.topology import NodeTopology


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def topology_show(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE...", help=FILES_HELP)] = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="A catalogue machine instead of files.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
) -> None:
    """Show what the files of one node, or a catalogue machine, say and do not say."""
    show(topology_from(files or [], machine), output, Console())


def show(topology: NodeTopology, output: Output, console: Console) -> None:
    """Print it. JSON and YAML go out as they are, without colour or wrapping."""
    if output in {Output.TABLE, Output.WIDE}:
        print_topology(topology, console, wide=output == Output.WIDE)
        return
    document = document_of(topology)
    text = (
        json.dumps(document, indent=2) if output == Output.JSON else yaml.safe_dump(document, sort_keys=False).rstrip()
    )
    console.out(text, highlight=False)
