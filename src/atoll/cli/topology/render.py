"""`atoll topology render`: a machine as the text that nvidia-smi would print on it.

So inventories can be made and published for nodes that nobody has at hand, from the catalogue or a machine file.
"""

from enum import StrEnum
from typing import Annotated

import typer

from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.cli.topology.given import topology_from
from atoll.core.errors import AtollError
from atoll.core.topology import NodeTopology


class Printed(StrEnum):
    """Which command's text."""

    MATRIX = "topo-m"
    PCIE_MATRIX = "topo-mp"
    LIST = "list"


def topology_render(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="A machine file, or dumps of one node; - is stdin.")
    ] = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="A catalogue machine instead of files.")] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Gives a catalogue machine's GPUs the UUIDs of this node.")
    ] = None,
    command: Annotated[Printed, typer.Option(help="Whose output.")] = Printed.MATRIX,
) -> None:
    """Print a node's topology as nvidia-smi prints it, e.g. to publish a node that is not at hand."""
    typer.echo(rendered(topology_from(files or [], machine, node), command), nl=False, color=True)


def rendered(topology: NodeTopology, printed: Printed) -> str:
    """The text.

    Raises:
        AtollError: the command would print a fact that is unknown here.
    """
    try:
        if printed == Printed.LIST:
            return render_list(topology)
        return render_matrix(topology, pcie=printed == Printed.PCIE_MATRIX)
    except ValueError as unknown:
        raise AtollError(f"{printed} cannot be rendered: {unknown}") from unknown
