"""Grants as they are recorded: the `GPULedger` object in both directions, and the copy of a grant on its pod.

A record is trusted only whole. The digest covers the node's name, its UID and every grant, so a record that somebody
edited, copied from another node or restored in part is *unreadable*: a value with the reason, never an exception and
never half a truth. What could not be read back is never written either: a grant has the same fields here and in core,
and the wire's bounds hold in both directions.
"""

import hashlib
from dataclasses import replace
from sys import intern
from typing import Any

import msgspec

from atoll.adapters.kube import wire_atoll as wire
from atoll.adapters.kube.names import DATA_VERSION
from atoll.core.errors import quoted
from atoll.core.ledger import Grant, LedgerRecord

WHY_MAX = 200
_encoder = msgspec.json.Encoder()
_spec = msgspec.json.Decoder(wire.LedgerSpec)
_grant = msgspec.json.Decoder(wire.Grant)
_version = msgspec.json.Decoder(wire.LedgerVersion)


def record_of(ledger: wire.RawLedger) -> LedgerRecord:
    """Return what the object records; `unreadable` says why it cannot be trusted."""
    node, version = ledger.metadata.name, ledger.metadata.resource_version
    try:
        found = _version.decode(ledger.spec).version
        if found != DATA_VERSION:
            why = f"data version {found} is not known, only {DATA_VERSION}"
            return LedgerRecord(node, version, unreadable=why)
        spec = _spec.decode(ledger.spec)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return LedgerRecord(node, version, unreadable=f"not a ledger record: {error}"[:WHY_MAX])
    if spec.digest != digest(node, spec.node_uid, spec.grants):
        why = f"digest {quoted(spec.digest)} does not fit the grants: edited by hand, or not written by Atoll"
        return LedgerRecord(node, version, unreadable=why)
    try:
        grants = tuple(_grant_of(entry) for entry in spec.grants)
    except msgspec.DecodeError as error:
        return LedgerRecord(node, version, unreadable=f"not a grant: {error}"[:WHY_MAX])
    return LedgerRecord(node, version, spec.node_uid, grants)


def _grant_of(entry: wire.GrantEntry) -> Grant:
    """The grant; words that thousands of grants have in common are one object in all of them."""
    grant = msgspec.convert(_grant.decode(entry.record), Grant, from_attributes=True)
    owner = replace(grant.owner, kind=intern(grant.owner.kind), namespace=intern(grant.owner.namespace))
    containers = tuple(replace(container, name=intern(container.name)) for container in grant.containers)
    return replace(grant, owner=owner, containers=containers, domains=tuple(map(intern, grant.domains)))


def ledger_json(record: LedgerRecord) -> bytes:
    """Return the whole object, with its resourceVersion unless it is to be created.

    Raises:
        ValueError: the record was unreadable; what is not understood must not be written over.
        msgspec.ValidationError: a grant is beyond the bounds of a record.
    """
    if record.unreadable:
        raise ValueError(f"ledger of {record.node} is unreadable: {record.unreadable}")
    grants = tuple(_entry_of(grant) for grant in record.grants)
    spec = wire.LedgerSpec(
        version=DATA_VERSION,
        node_uid=record.node_uid,
        grants=grants,
        digest=digest(record.node, record.node_uid, grants),
        held=sum(grant.count for grant in record.grants),
    )
    metadata = wire.LedgerMeta(record.node, ({},), record.version or None)
    return _encoder.encode(wire.Ledger(metadata, spec))


def digest(node: str, node_uid: str, grants: tuple[wire.GrantEntry, ...]) -> str:
    content = _encoder.encode((DATA_VERSION, node, node_uid, grants))
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def allocation_json(node: str, grant: Grant) -> str:
    """The `atoll.dev/allocation` annotation: what was granted, and no alternatives."""
    answer: dict[str, Any] = {
        "v": DATA_VERSION,
        "node": node,
        "nodeMode": grant.node_mode,
        "policy": grant.policy,
        "scopeAsked": grant.scopes_asked,
        "scopeBound": grant.scope_bound,
        "enforced": grant.enforced,
        "degraded": grant.degraded,
    }
    if grant.lost is not None:
        answer["lost"] = {"scope": grant.lost.scope, "worstLink": grant.lost.worst_link}
    answer |= {
        "uuidsKnown": grant.uuids_known,
        "count": grant.count,
        "containers": _uuids_by_container(grant, init=False),
        "initContainers": _uuids_by_container(grant, init=True),
        "domains": grant.domains,
    }
    return _encoder.encode(answer).decode()


def _uuids_by_container(grant: Grant, *, init: bool) -> dict[str, list[str]]:
    return {
        container.name: [part.uuid for part in container.parts]
        for container in grant.containers
        if container.init is init
    }


def _entry_of(grant: Grant) -> wire.GrantEntry:
    return wire.GrantEntry(
        owner=f"{grant.owner.namespace}/{grant.owner.name}",
        state=grant.state,
        gpus=" ".join(sorted(grant.uuids)) or f"{grant.count} of unknown UUID",
        record=_encoder.encode(msgspec.convert(grant, wire.Grant, from_attributes=True)).decode(),
    )
