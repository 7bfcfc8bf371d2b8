"""`atoll shim`: between a kubelet and its device plugins, so that containers get exactly the GPUs that were decided."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import GpuResource, Kubeconfig, LogFormat, object_name, resources_of


def shim(
    *,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="NODE_NAME", help="Of the Kubernetes node. Default: the machine's own name."
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Where the shim's Lease lies.")
    ] = "kube-system",
    gpu_resource: GpuResource = None,
    kubelet_folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the kubelet looks for device plugins.")
    ] = Path("/var/lib/kubelet/device-plugins"),
    plugin_folder: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where device plugins look for the kubelet: mounted for them in the other's place."
        ),
    ] = Path("/var/lib/atoll/device-plugins"),
    log_format: Annotated[LogFormat, typer.Option(help="Logs go to standard error.")] = LogFormat.JSON,
) -> None:
    """Stand between the kubelet and unmodified device plugins, until SIGTERM.

    Where the node's GPUNodeConfig says mode: command, it answers which GPUs a container should get by the node's
    GPULedger. All else goes through as it comes.
    """
    told = {
        "node": object_name(socket.gethostname().lower() if node is None else node),
        "kubeconfig": str(kubeconfig) if kubeconfig else None,
        "namespace": namespace,
        "resources": resources_of(gpu_resource),
        "kubelet_folder": str(kubelet_folder),
        "plugin_folder": str(plugin_folder),
        "json_logs": log_format is LogFormat.JSON,
    }
    if sys.stdout is not None:
        sys.stdout.flush()
    # In the same process, and without what reads command lines.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "atoll.cli.shim_process", json.dumps(told)])  # noqa: S606 - our own words
