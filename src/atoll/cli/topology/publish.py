"""`atoll topology publish`: what nvidia-smi printed on a node becomes that node's `GPUNode`."""

import asyncio
from typing import Annotated

import typer

from atoll.adapters.formats.read import read_topology
from atoll.cli.options import GpuResource, Kubeconfig, object_name, resources_of
from atoll.cli.topology.given import FILES_HELP, read_files


def topology_publish(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES_HELP)],
    node: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="The Node that the files were taken on.")
    ],
    kubeconfig: Kubeconfig = None,
    gpu_resource: GpuResource = None,
) -> None:
    """Write a node's inventory. The Node must exist, and every GPU needs its UUID (`nvidia-smi -L`).

    Exit code 0 when it was written, 1 when it was refused, 2 when the files are no trustworthy topology.
    """
    resources = resources_of(gpu_resource)
    topology = read_topology(read_files(files))
    # Imported here, as in `serve`: the verbs that ask no cluster should not wait half a second for an HTTP client.
    from atoll.adapters.kube.client import KubeClient  # noqa: PLC0415
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.publish import Done, check_uuids, publish  # noqa: PLC0415

    check_uuids(node, topology)
    access = access_from(kubeconfig)

    async def write() -> Done:
        async with KubeClient(access) as client:
            return await publish(client, node, topology, resources)

    done, count = asyncio.run(write()), len(topology.devices)
    typer.echo(f"gpunode.atoll.dev/{node} {done}: {count} GPU{'' if count == 1 else 's'}")
