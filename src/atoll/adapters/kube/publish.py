"""Writes a node's inventory as its `GPUNode`, for `atoll topology publish`.

The object is tied to the Node's UID: another node under the same name does not inherit it, and it goes with its Node.
"""

from enum import StrEnum

import msgspec

from atoll.adapters.kube import names, wire
from atoll.adapters.kube.client import JSON, JSON_PATCH, MERGE_PATCH, Answer, KubeClient
from atoll.adapters.kube.codec import node_facts
from atoll.adapters.kube.codec_inventory import gpu_node_json, owner_reference, status_of
from atoll.core.errors import AtollError
from atoll.core.facts import Inventory, NodeConfig, NodeFacts, Source
from atoll.core.hardware import hardware_of
from atoll.core.topology import NodeTopology

_encode = msgspec.json.Encoder().encode
_node = msgspec.json.Decoder(wire.Node)


class PublishError(AtollError):
    """The inventory was not written; the text says why and what would help."""


class Done(StrEnum):
    """In kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"


async def publish(client: KubeClient, node: str, topology: NodeTopology, resources: tuple[str, ...]) -> Done:
    """Create or replace the inventory of a node that exists.

    Raises:
        PublishError: UUIDs are missing, there is no such node, it has another number of GPUs, or the server refused.
        Unanswered: the server gave no answer.
    """
    check_uuids(node, topology)
    facts = await _find_node(client, node, resources)
    inventory = Inventory(node, facts.uid, Source.PUBLISHED, topology)
    _check_count(inventory, facts, resources)
    answer = await client.write("POST", names.GPU_NODES, gpu_node_json(inventory), JSON)
    done = Done.CREATED
    if answer.status == 409:
        done = Done.CONFIGURED
        patch = {"metadata": {"ownerReferences": [owner_reference(inventory)]}}
        answer = await client.write("PATCH", names.gpu_node_path(node), _encode(patch), MERGE_PATCH)
    _accepted(answer, node)
    # The whole status is replaced, so that nothing of an older inventory stays.
    replacement = [{"op": "add", "path": "/status", "value": status_of(inventory)}]
    _accepted(
        await client.write("PATCH", names.gpu_node_path(node) + "/status", _encode(replacement), JSON_PATCH), node
    )
    return done


def check_uuids(node: str, topology: NodeTopology) -> None:
    """Refuse an inventory in which a GPU has no name.

    Raises:
        PublishError: which GPUs, and how to get their UUIDs.
    """
    unnamed = [str(device.index) for device in topology.devices if device.uuid is None]
    if unnamed:
        raise PublishError(
            f"{node}: GPU {', '.join(unnamed[:16])} has no UUID in these files, and a grant names UUIDs; "
            "add the output of `nvidia-smi -L` as a further file"
        )


async def _find_node(client: KubeClient, node: str, resources: tuple[str, ...]) -> NodeFacts:
    answer = await client.read(names.node_path(node))
    if answer.status == 404:
        raise PublishError(f"{node}: there is no such Node in the cluster; `kubectl get nodes` lists them")
    if not answer.ok:
        raise PublishError(f"{node}: the Node could not be read: {answer.why}")
    try:
        return node_facts(_node.decode(answer.body), resources)
    except (msgspec.DecodeError, ValueError) as error:
        raise PublishError(f"{node}: the Node could not be understood: {error}") from error


def _check_count(inventory: Inventory, facts: NodeFacts, resources: tuple[str, ...]) -> None:
    least, most = hardware_of(inventory, NodeConfig()).counts
    if not least <= facts.capacity <= most:
        listed = f"{most}" if least == most else f"{least} to {most}"
        what = " + ".join(resources)
        raise PublishError(
            f"{inventory.node}: the files list {listed} GPUs, the Node's capacity is {facts.capacity} {what}; "
            "publish the files of this very node, once its device plugin has registered all GPUs"
        )


def _accepted(answer: Answer, node: str) -> None:
    if answer.ok:
        return
    raise PublishError(f"{node}: the API server refused the inventory: {answer.why}{remedy(answer)}")


def remedy(answer: Answer) -> str:
    """What would help where a write of one of our kinds was refused."""
    return ". Are the CRDs installed? `atoll manifests crds | kubectl apply -f -`" if answer.status == 404 else ""
