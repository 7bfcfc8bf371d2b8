"""`atoll topology publish`: what nvidia-smi printed on a node becomes that node's `GPUNode`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from atoll.adapters.dumps import read_topology
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import Access, access_from
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.publish import Done, check_uuids, publish
from atoll.cli.topology.given import FILES_HELP, read_files
from atoll.core.topology import NodeTopology


def topology_publish(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES_HELP)],
    node: Annotated[str, typer.Option(metavar="NAME", help="The Node that the files were taken on.")],
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Default: the pod's service account, then $KUBECONFIG, then ~/.kube/config."),
    ] = None,
    gpu_resource: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"Counts as a GPU; repeatable. Default: {GPU_RESOURCE}.")
    ] = None,
) -> None:
    """Write a node's inventory. The Node must exist, and every GPU needs its UUID (`nvidia-smi -L`).

    Exit code 0 when it was written, 1 when it was refused, 2 when the files are no trustworthy topology.
    """
    topology = read_topology(read_files(files))
    check_uuids(node, topology)
    done = asyncio.run(_publish(access_from(kubeconfig), node, topology, tuple(gpu_resource or (GPU_RESOURCE,))))
    count = len(topology.devices)
    typer.echo(f"gpunode.atoll.dev/{node} {done}: {count} GPU{'' if count == 1 else 's'}")


async def _publish(access: Access, node: str, topology: NodeTopology, resources: tuple[str, ...]) -> Done:
    async with KubeClient(access) as client:
        return await publish(client, node, topology, resources)
