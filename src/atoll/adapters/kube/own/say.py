"""The Lease by which what runs on a node says that it lives, and a few words of what it knows, as annotations."""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import names, wire
from atoll.adapters.kube.client import JSON, MERGE_PATCH, KubeClient

LEASE_S = 60
"""How long such a word is good."""

_encode = msgspec.json.Encoder().encode


async def say(
    client: KubeClient,
    lease: tuple[str, str],
    holder: str,
    node: tuple[str, str],
    labels: Mapping[str, str],
    told: Mapping[str, str],
) -> str:
    """Renew a Lease, or make it. Returns why it was not written, "" = it was.

    Args:
        lease: its namespace and name. node: name and UID of the Node that it goes with.

    Raises:
        Unanswered, AccessError: nobody knows whether it was.
    """
    namespace, name = lease
    spec = wire.LeaseSpec(holder, LEASE_S, renew_time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    patch = {"metadata": {"annotations": told}, "spec": spec}
    path = f"{names.leases_path(namespace)}/{quote(name)}"
    answer = await client.write("PATCH", path, _encode(patch), MERGE_PATCH)
    if answer.status == 404:
        made = wire.Lease(wire.LeaseMeta(name, namespace, None, dict(told)), spec)
        body = msgspec.to_builtins(made)
        owner = {"apiVersion": "v1", "kind": "Node", "name": node[0], "uid": node[1]}
        body["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
        answer = await client.write("POST", names.leases_path(namespace), _encode(body), JSON)
    return "" if answer.ok else answer.why
