"""`atoll agent`: what the node itself tells of its GPUs."""

import json
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.adapters.node.looking import NO_GPU
from atoll.adapters.probe.probe import SYSFS, Probed, probe
from atoll.cli.ending import FAILED
from atoll.cli.options import GpuResource, Kubeconfig, LogFormat, Output, object_name, resources_of
from atoll.core.errors import printable
from atoll.core.facts import Inventory, Source


def agent(
    *,
    once: Annotated[bool, typer.Option("--once", help="Look, print the GPUNode and end; no cluster.")] = False,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="NODE_NAME", help="Of the Kubernetes node. Default: the machine's own name."
        ),
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="yaml or json, with --once.")] = Output.YAML,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Where the agent's Lease lies.")
    ] = "kube-system",
    gpu_resource: GpuResource = None,
    host_root: Annotated[Path, typer.Option(metavar="DIR", help="Where the machine's /sys is found.")] = Path("/"),
    kubelet_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="The kubelet's folder: its pods, sockets and checkpoint.")
    ] = Path("/var/lib/kubelet"),
    kubelet_host: Annotated[
        str, typer.Option(metavar="HOST", help="Where the kubelet is reached. Default: where its Node says.")
    ] = "",
    kubelet_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A further authority that signs certificates of kubelets.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Logs go to standard error.")] = LogFormat.JSON,
) -> None:
    """Keep the cluster's word about this node's GPUs true, until SIGTERM; or tell it once with --once.

    It reads the kernel, the vendor's tools that are installed, the kubelet and the pods of its node; it changes nothing
    there, and writes its GPUNode and its Lease alone. With --once, what cannot be told is left out, and standard error
    says why; exit code 0 when there are GPUs, 3 when there is none, 1 when that cannot be told.
    """
    name = object_name(node or socket.gethostname().lower())
    if once:
        _once(name, output, host_root)
        return
    # Imported here, since a single look should not wait for clients that it does not use.
    from atoll.cli.serving import run  # noqa: PLC0415
    from atoll.wiring.agent import AgentSettings, run_agent  # noqa: PLC0415

    settings = AgentSettings(
        node=name,
        kubeconfig=kubeconfig,
        namespace=namespace,
        resources=resources_of(gpu_resource),
        host_root=host_root,
        kubelet_dir=kubelet_dir,
        kubelet_host=kubelet_host,
        kubelet_ca=kubelet_ca,
    )
    if not run(run_agent(settings), json_logs=log_format is LogFormat.JSON):
        raise typer.Exit(FAILED)


def _once(name: str, output: Output, host_root: Path) -> None:
    if output not in {Output.YAML, Output.JSON}:
        raise typer.BadParameter("found neither yaml nor json", param_hint="-o")
    probed = probe(name, host_root)
    _say(probed)
    if not probed.gpus and any(not each.expected and each.what != SYSFS for each in probed.blind):
        sys.stderr.write("whether there is a GPU here cannot be told: see above\n")
        raise typer.Exit(FAILED)
    if not probed.gpus:
        sys.stderr.write("no GPU here: neither the kernel nor a tool lists one\n")
        raise typer.Exit(NO_GPU)
    topology = probed.machine.topology
    if topology is None:
        raise AssertionError("a machine whose GPUs are listed has a topology")
    versions = dict(probed.machine.versions)
    inventory = Inventory(
        probed.machine.name,
        "",
        Source.AGENT,
        topology,
        driver=versions.get("driver", ""),
        cuda=versions.get("cuda", ""),
    )
    document = json.loads(gpu_node_json(inventory))
    del document["metadata"]["ownerReferences"]  # whose Node it is, only the cluster knows
    text = json.dumps(document, indent=2) + "\n" if output == Output.JSON else yaml.safe_dump(document, sort_keys=False)
    typer.echo(text, nl=False)


def _say(probed: Probed) -> None:
    """What could not be told, for a person: one line each."""
    for each in probed.blind:
        if not each.expected:
            sys.stderr.write(printable(f"{each.what}: {each.why}") + "\n")
    for odd in probed.machine.remarks:
        sys.stderr.write(printable(f"{odd.source.file}: {odd.remark.text}") + "\n")
