"""One picture out of many objects: pages of the API server or objects of a support bundle, in any order.

Feed it everything; kinds that say nothing of GPUs are passed over. An object that cannot be read is named in
`blind` and hides no other. The hardware behind a node comes from readings, which callers give by node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

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
    with_settings,
)
from atoll.adapters.kube.survey.events import audit_event, concerns
from atoll.adapters.kube.survey.hardware import Hardware
from atoll.adapters.kube.survey.nodes import audit_node, described, has_gpus
from atoll.adapters.kube.survey.pods import audit_pod
from atoll.adapters.kube.survey.resources import is_whole
from atoll.core.audit.picture import AuditEvent, AuditNode, AuditPod, Blind, Component, Picture, Role
from atoll.core.errors import DumpError
from atoll.core.evidence.machine import Machine
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
        self._nodes: dict[str, AuditNode] = {}
        self.hardware = Hardware(self.unreadable)
        self._pods: dict[str, AuditPod] = {}
        self._claiming: dict[str, AuditPod] = {}  # that hold GPUs through claims, if at all
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
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
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
        odd: list[str] = []
        audited = audit_node(node, self._extra, odd.append)
        self._odd(f"Node {audited.name}", odd)
        self._nodes[audited.name] = audited
        if not self._from_files and has_gpus(audited):
            self.hardware.keep(audited.name, "Node", described(node))

    def pods_were_listed(self) -> None:
        self._pods_seen = True

    def add_pod(self, pod: wire.Pod) -> None:
        self._pods_seen = True
        odd: list[str] = []
        audited = audit_pod(pod, self._extra, odd.append)
        self._odd(f"Pod {pod.metadata.namespace}/{pod.metadata.name}", odd)
        if audited is not None:
            kept = self._pods if audited.gpus or audited.parts else self._claiming
            kept[audited.uid or f"{audited.namespace}/{audited.name}"] = audited

    def add_event(self, event: wire.Event) -> None:
        audited = audit_event(event)
        if audited is None:
            return
        key = (event.metadata.namespace, event.metadata.name, event.metadata.uid)
        if len(self._events) < CANDIDATES_MAX or key in self._events:
            self._events[key] = audited
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
        told = {"metadata": {"name": name}, "status": value.get("status")}
        self.hardware.keep(name, "GPUNode", msgspec.json.encode(told))

    def _add_ledger(self, ledger: wire_atoll.RawLedger) -> None:
        record = record_of(ledger)
        self._ledgers[record.node] = record
        if record.unreadable:
            self.unreadable(f"GPULedger {record.node}", record.unreadable)

    def picture(self, origin: str, taken: str, readings: Readings | None = None) -> Picture:
        """Everything that was seen. Args: readings: of hardware, by node; nodes that no Node object names are added."""
        told = readings or {}
        self._pods = dict(self._pods_with_claims(told))
        unnamed = [name for name in dict.fromkeys((*told, *self.hardware.nodes)) if name not in self._nodes]
        nodes = [self._with_machine(node, told.get(name, ())) for name, node in self._nodes.items()]
        nodes += [
            AuditNode(name, machine=machine)
            for name in unnamed
            if (machine := self.hardware.machine(name, told.get(name, ()))) is not None
        ]
        if self._events_left_out:
            text = f"{self._events_left_out:,} further events were left out"
            self.blind(Blind("events", text, "kubectl get events -A", expected=True))
        return Picture(
            origin=origin,
            taken=taken,
            nodes=tuple(sorted(nodes, key=lambda node: node.name)),
            pods=tuple(sorted(self._with_grants(), key=lambda pod: (pod.namespace, pod.name))),
            events=self._relevant_events(),
            components=tuple(self._components(nodes)),
            blind=tuple(self._blind),
            gpu_resources=self._resources(nodes),
            pods_seen=self._pods_seen,
        )

    def _with_machine(self, node: AuditNode, readings: tuple[Reading, ...]) -> AuditNode:
        machine = self.hardware.machine(node.name, readings)
        if machine is None or not (has_gpus(node) or machine.gpus):
            return node
        return replace(node, machine=machine)

    def _pods_with_claims(self, readings: Readings) -> Iterable[tuple[str, AuditPod]]:
        named = Offers(lambda node: (*readings.get(node, ()), *self.hardware.slices(node)))
        for key, pod in (*self._pods.items(), *self._claiming.items()):
            if key in self._pods or self._claims.concern(pod.uid):
                yield key, self._claims.told(pod, named.uuid)

    def _with_grants(self) -> Iterable[AuditPod]:
        """The pods, with what the ledgers say they were granted."""
        pods = dict(self._pods)
        for record in self._ledgers.values():
            source = Source(Format.LEDGER, f"GPULedger {record.node}")
            for grant in record.grants:
                pod = pods.get(grant.owner.uid)
                if pod is None or not grant.uuids_known:
                    continue
                told = tuple(
                    (source, SeenAllocation(each.name, self._extra[0], (("", tuple(part.uuid for part in each.parts)),),
                                            pod.uid, pod.namespace, pod.name))
                    for each in grant.containers if each.parts
                )  # fmt: skip
                pods[pod.uid] = replace(pod, recorded=(*pod.recorded, *told))
        return pods.values()

    def _relevant_events(self) -> tuple[AuditEvent, ...]:
        gpu_pods = {(pod.namespace, pod.name) for pod in self._pods.values()}
        kept = [event for event in self._events.values() if concerns(event, gpu_pods, self._pods_seen)]
        latest = sorted(kept, key=lambda event: (event.last, event.namespace, event.name), reverse=True)
        return tuple(latest[:EVENTS_MAX])

    def _components(self, nodes: list[AuditNode]) -> Iterable[Component]:
        if self._version:
            yield Component(Role.KUBERNETES, "kubernetes", self._version, source="API server")
        yield from of_nodes(nodes, {node.name: _versions(node.machine) for node in nodes})
        for policies in self._policies.values():
            yield from policies
        for _, found in sorted(self._found.items(), key=lambda entry: entry[0]):
            places = placed(found, self._nodes.values())
            if places is not None:
                yield with_settings(replace(found.component, nodes=places), self._configured(found))

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


def _versions(machine: Machine | None) -> Mapping[str, str]:
    return dict(machine.versions) if machine else {}


def _parsed(name: str, text: str) -> Value:
    try:
        return documents(decode(DumpFile(name, text.encode(errors="replace"))))[0].value
    except DumpError:
        return mapping_at(None)
