"""`atoll agent`: what the node itself tells of its GPUs."""

import json
import socket
import sys
from typing import Annotated

import typer
import yaml

from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.adapters.probe.probe import Probed, probe
from atoll.cli.options import object_name
from atoll.cli.topology.show import Output
from atoll.core.errors import printable
from atoll.core.facts import Inventory, Source

NO_GPU = 3
"""Exit code of a machine without a GPU."""


def agent(
    once: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--once", help="Look once, print the GPUNode and end; needs no cluster.")
    ] = False,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the Kubernetes node. Default: the machine's own name.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="yaml or json.")] = Output.YAML,
) -> None:
    """Tell the GPUs of this machine as a GPUNode: from the kernel and from the vendor's tools that are installed.

    What cannot be told is left out, and standard error says why. Exit code 0 when there are GPUs, 3 when there is none.
    """
    if not once:
        raise typer.BadParameter("it runs on a cluster's nodes in a later release; give --once")
    if output not in {Output.YAML, Output.JSON}:
        raise typer.BadParameter("found neither yaml nor json", param_hint="-o")
    probed = probe(object_name(node or socket.gethostname().lower()))
    _say(probed)
    if not probed.gpus:
        sys.stderr.write("no GPU here: neither the kernel nor a tool lists one\n")
        raise typer.Exit(NO_GPU)
    topology = probed.machine.topology
    if topology is None:
        raise AssertionError("a machine whose GPUs are listed has a topology")
    document = json.loads(gpu_node_json(Inventory(probed.machine.name, "", Source.AGENT, topology)))
    del document["metadata"]["ownerReferences"]  # whose Node it is, only the cluster knows
    sys.stdout.write(
        json.dumps(document, indent=2) + "\n" if output == Output.JSON else yaml.safe_dump(document, sort_keys=False)
    )


def _say(probed: Probed) -> None:
    """What could not be told, for a person: one line each."""
    for each in probed.blind:
        if not each.expected:
            sys.stderr.write(printable(f"{each.what}: {each.why}") + "\n")
    for odd in probed.machine.remarks:
        sys.stderr.write(printable(f"{odd.source.file}: {odd.remark.text}") + "\n")
