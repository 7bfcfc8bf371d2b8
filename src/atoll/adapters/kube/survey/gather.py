"""One picture out of many objects: pages of the API server or objects of a support bundle, in any order.

Feed it everything; kinds that say nothing of GPUs are passed over. An object that cannot be read is named in
`blind` and hides no other. The hardware behind a node comes from readings, which callers give by node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from atoll.adapters.formats.cluster import gpu_node
from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.objects import mapping_at, text_at
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.kube import wire_atoll
from atoll.adapters.kube.codec_ledger import record_of
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.claims import Claims, Offers
from atoll.adapters.kube.survey.components import (
    Found,
    config_settings,
    found_in,
    of_nodes,
    of_policy,
    placed,
    told_by_agents,
    with_settings,
)
from atoll.adapters.kube.survey.events import audit_event, concerns, later
from atoll.adapters.kube.survey.hardware import Hardware
from atoll.adapters.kube.survey.nodes import audit_node, described, has_gpus
from atoll.adapters.kube.survey.pods import audit_pod
from atoll.adapters.kube.survey.resources import is_whole
from atoll.adapters.kube.survey.twice import Latest, differing, sharing
from atoll.core.audit.picture import AuditEvent, AuditNode, AuditPod, Blind, Component, Picture, Role
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, Reading, SeenAllocation, Source
from atoll.core.ledger import LedgerRecord

EVENTS_MAX = 2_000
CANDIDATES_MAX = 50_000
BLIND_MAX = 200
WORKLOADS = frozenset({"DaemonSet", "Deployment", "StatefulSet"})

Readings = Mapping[str, tuple[Reading, ...]]


class Survey:
    """Builds a `Picture`.

    Args:
        resources: names of whole GPUs, beside those that are known.
        from_files: what Node objects say of hardware comes as readings of the files that they are in.
    """

    def __init__(self, resources: tuple[str, ...] = (GPU_RESOURCE,), *, from_files: bool = True) -> None:
        self._extra = resources
        self._from_files = from_files
        self._nodes: Latest[str, AuditNode] = Latest()
        self.hardware = Hardware(self.unreadable)
        self._pods: Latest[tuple[str, ...], AuditPod] = Latest()
        self._claims = Claims()
        self._events: dict[tuple[str, ...], AuditEvent] = {}
        self._found: dict[tuple[str, str], Found] = {}
        self._policies: dict[str, list[Component]] = {}
        self._configs: dict[tuple[str, str], wire.ConfigMap] = {}
        self._ledgers: dict[str, LedgerRecord] = {}
        self._version = ""
        self._pods_seen = False
        self._blind: list[Blind] = []
        self._events_left_out = 0
        self._typed: dict[str, tuple[Any, Callable[[Any], None]]] = {
            "Node": (wire.Node, self.add_node),
            "Pod": (wire.Pod, self.add_pod),
            "Event": (wire.Event, self.add_event),
            "ClusterPolicy": (wire.ClusterPolicy, self._add_policy),
            "ResourceClaim": (wire.ResourceClaim, self._claims.add),
            "ConfigMap": (wire.ConfigMap, self._add_config),
            "GPULedger": (wire_atoll.RawLedger, self._add_ledger),
        }

    def add(self, value: Value, where: str = "") -> None:
        """Take one decoded object. Args: where: the file that it is from, for what cannot be read."""
        kind = text_at(value, "kind")
        if not kind and (version := text_at(value, "serverVersion", "gitVersion")):
            self.add_version(version)
        elif kind in WORKLOADS:
            self._convert(kind, value, wire.Workload, lambda each: self.add_workload(kind, each), where)
        elif kind == "GPUNode":
            self._convert(kind, value, dict, self._keep_inventory, where)
        elif kind in self._typed:
            wanted, add = self._typed[kind]
            self._convert(kind, value, wanted, add, where)

    def _convert(self, kind: str, value: Value, wanted: Any, add: Callable[[Any], None], where: str) -> None:  # noqa: ANN401
        try:
            if kind == "GPULedger":
                # Its spec is read by the data version that it names, out of bytes.
                add(msgspec.json.decode(msgspec.json.encode(value), type=wanted))
            else:
                add(msgspec.convert(value, wanted, strict=False))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, DumpError) as error:
            name = "/".join(filter(None, (text_at(value, "metadata", key) for key in ("namespace", "name"))))
            self.unreadable(f"{kind} {name}", f"{where}: {error}" if where else str(error))

    def unreadable(self, what: str, why: str) -> None:
        if len(self._blind) < BLIND_MAX:
            self._blind.append(Blind(what[:200], f"unreadable: {why}"[:400]))

    def _odd(self, what: str, odd: list[str]) -> None:
        if odd:
            self.unreadable(what, "; ".join(dict.fromkeys(odd)))

    def blind(self, blind: Blind) -> None:
        self._blind.append(blind)

    def add_version(self, version: str) -> None:
        self._version = version[:100]

    def add_node(self, node: wire.Node) -> None:
        if not node.metadata.name:
            self.unreadable("Node", "it has no name")
            return
        odd: list[str] = []
        audited = audit_node(node, self._extra, odd.append)
        self._odd(f"Node {audited.name}", odd)
        newest = self._nodes.add(audited.name, audited.name, audited, node.metadata)
        if newest and not self._from_files and has_gpus(audited):
            self.hardware.keep(audited.name, "Node", described(node))

    def pods_were_listed(self) -> None:
        """All pods were given: what none of them holds is free. Of files any pod stands for a list."""
        self._pods_seen = True

    def add_pod(self, pod: wire.Pod) -> None:
        self._pods_seen |= self._from_files
        odd: list[str] = []
        audited = audit_pod(pod, self._extra, odd.append)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._odd(f"Pod {name}", odd)
        if audited is not None:
            self._pods.add(_key(audited), name, audited, pod.metadata)

    def add_event(self, event: wire.Event) -> None:
        audited = audit_event(event)
        if audited is None:
            return
        key: tuple[str, ...] = (event.metadata.namespace, event.metadata.name, event.metadata.uid)
        if not any(key[1:]):
            key = audited.namespace, audited.kind, audited.name, audited.reason, audited.message
        known = self._events.get(key)
        if len(self._events) < CANDIDATES_MAX or known:
            # Both groups of the API tell of the same event, and a later copy of it counts on.
            self._events[key] = later(known, audited) if known else audited
        else:
            self._events_left_out += 1

    def add_workload(self, kind: str, workload: wire.Workload) -> None:
        for found in found_in(kind, workload):
            self._found[found.component.source, f"{found.component.role} {found.component.name}"] = found

    @property
    def config_maps(self) -> tuple[tuple[str, str], ...]:
        """Configurations that device plugins name, as (namespace, name)."""
        return tuple(dict.fromkeys(each for found in self._found.values() for each in found.config_maps))

    def _add_policy(self, policy: wire.ClusterPolicy) -> None:
        self._policies[policy.metadata.name] = of_policy(policy)

    def _add_config(self, config: wire.ConfigMap) -> None:
        self._configs[config.metadata.namespace, config.metadata.name] = config

    def _keep_inventory(self, value: dict[str, Value]) -> None:
        """Only what it says of hardware: what the API server adds would tell every node from its like."""
        name = text_at(value, "metadata", "name")
        status = value.get("status")
        if isinstance(status, dict):
            status = {key: told for key, told in status.items() if key not in gpu_node.VOLATILE}
        told = {"metadata": {"name": name}, "status": status}
        held = gpu_node.allocations(value, self._extra[0])
        self.hardware.keep(name, "GPUNode", msgspec.json.encode(told))
        self.hardware.keep_allocations(name, Source(Format.GPU_NODE, "GPUNode"), held)

    def _add_ledger(self, ledger: wire_atoll.RawLedger) -> None:
        record = record_of(ledger)
        self._ledgers[record.node] = record
        if record.unreadable:
            self.unreadable(f"GPULedger {record.node}", record.unreadable)

    def picture(self, origin: str, taken: str, readings: Readings | None = None) -> Picture:
        """Everything that was seen. Nodes that only readings or pods name are added.

        Args:
            readings: of hardware, by node.
        """
        told = readings or {}
        pods = tuple(self._with_grants(self._pods_with_claims(told)))
        nodes = [*self._described(told)]
        seen = {node.name for node in nodes}
        unseen = dict.fromkeys(pod.node for pod in pods if pod.holds and pod.node not in seen)
        nodes += [AuditNode(name) for name in unseen]
        self._tell_of_copies(pods)
        if self._events_left_out:
            text = f"{self._events_left_out:,} further events were left out"
            self.blind(Blind("events", text, "kubectl get events -A", expected=True))
        return Picture(
            origin=origin,
            taken=taken,
            nodes=tuple(sorted(nodes, key=lambda node: node.name)),
            pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))),
            events=self._relevant_events(pods),
            components=tuple(self._components(nodes)),
            blind=tuple(self._blind),
            gpu_resources=self._resources(nodes),
            pods_seen=self._pods_seen,
        )

    def _described(self, told: Readings) -> Iterable[AuditNode]:
        """The nodes with their hardware, also those of which only the hardware was described."""
        for name, node in self._nodes.kept.items():
            yield self._with_machine(node, told.get(name, ()))
        for name in dict.fromkeys((*told, *self.hardware.nodes)):
            if name not in self._nodes.kept:
                machine = self.hardware.machine(name, told.get(name, ()))
                if machine is not None:
                    yield AuditNode(name, machine=machine)

    def _tell_of_copies(self, pods: Iterable[AuditPod]) -> None:
        if self._from_files:  # a live list that began again reads what changed meanwhile once more
            told = *differing("Node", self._nodes.differing), *differing("Pod", self._pods.differing), *sharing(pods)
            self._blind += told[:BLIND_MAX]

    def _with_machine(self, node: AuditNode, readings: tuple[Reading, ...]) -> AuditNode:
        machine = self.hardware.machine(node.name, readings)
        if machine is None or not (has_gpus(node) or machine.gpus):
            return node
        return replace(node, machine=machine)

    def _pods_with_claims(self, readings: Readings) -> Iterable[AuditPod]:
        named = Offers(lambda node: (*readings.get(node, ()), *self.hardware.slices(node)))
        for pod in self._pods.kept.values():
            if pod.gpus or pod.parts or self._claims.concern(pod):
                yield self._claims.told(pod, named.uuid)

    def _with_grants(self, pods: Iterable[AuditPod]) -> Iterable[AuditPod]:
        """The pods, with what the ledgers say they were granted."""
        found = {_key(pod): pod for pod in pods}
        for record in self._ledgers.values():
            source = Source(Format.LEDGER, f"GPULedger {record.node}")
            for grant in record.grants:
                pod = found.get((grant.owner.uid, grant.owner.namespace, grant.owner.name))
                if pod is None or not grant.uuids_known:
                    continue
                told = tuple(
                    (source, SeenAllocation(each.name, self._extra[0], (("", tuple(part.uuid for part in each.parts)),),
                                            pod.uid, pod.namespace, pod.name))
                    for each in grant.containers if each.parts
                )  # fmt: skip
                found[_key(pod)] = replace(pod, recorded=(*pod.recorded, *told))
        return found.values()

    def _relevant_events(self, pods: Iterable[AuditPod]) -> tuple[AuditEvent, ...]:
        gpu_pods = {(pod.namespace, pod.name) for pod in pods}
        kept = [event for event in self._events.values() if concerns(event, gpu_pods, self._pods_seen)]
        latest = sorted(kept, key=lambda event: (event.last, event.namespace, event.name), reverse=True)
        return tuple(latest[:EVENTS_MAX])

    def _components(self, nodes: list[AuditNode]) -> Iterable[Component]:
        if self._version:
            yield Component(Role.KUBERNETES, "kubernetes", self._version, source="API server")
        seen: list[Component] = []
        yield from of_nodes(nodes)
        for policies in self._policies.values():
            yield from policies
        for _, found in sorted(self._found.items(), key=lambda entry: entry[0]):
            places = placed(found, self._nodes.kept.values())
            if places is not None:
                component = with_settings(replace(found.component, nodes=places), self._configured(found))
                seen.append(component)
                yield component
        yield from told_by_agents(nodes, seen)

    def _configured(self, found: Found) -> Iterable[tuple[str, str]]:
        for key in found.config_maps:
            config = self._configs.get(key)
            data = (config.data or {}) if config else {}
            for name, text in sorted(data.items())[:64]:
                yield from config_settings(key[1], name, _parsed(f"ConfigMap {key[1]}/{name}", text),
                                           several=len(data) > 1)  # fmt: skip

    def _resources(self, nodes: list[AuditNode]) -> tuple[str, ...]:
        seen = {name for node in nodes for name, _ in node.resources if is_whole(name)}
        return tuple(dict.fromkeys((*self._extra, *sorted(seen))))


def _key(pod: AuditPod) -> tuple[str, ...]:
    return pod.uid, pod.namespace, pod.name


def _parsed(name: str, text: str) -> Value:
    try:
        return documents(decode(DumpFile(name, text.encode(errors="replace"))))[0].value
    except DumpError:
        return mapping_at(None)
