"""What must hold at every moment, judged on the API's objects alone and by rules of its own.

The checks know nothing of the service's memory. They look at each ledger write and each Binding as it lands, so that a
wrong step is found where it is taken and not where it hurts.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from atoll.core.books import holds_nothing
from atoll.core.events import Kind, LedgerSeen, NodeGone, PodGone, PodSeen, WatchEvent
from atoll.core.facts import PodFacts
from atoll.core.ledger import Grant, LedgerRecord, NodeMode, fault_of
from atoll.core.lifecycle import State
from atoll.core.request import GpuRequest, Policy
from atoll.core.scope import Scope
from atoll.core.topology import NodeTopology
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Marks
from atoll.sim.policies import Rulings

SEEN_S = 8.0
"""A watch may lag, drop and list anew for so long before an instance knows of a deletion."""

KNOWN_BY_ALL_S = 20.0
"""No watch lags so far behind, and no write of an earlier decision lands so late."""


class Violation(AssertionError):
    """An invariant does not hold; the message says which and where."""


class Checks:
    """Watches a cluster from its first object on."""

    def __init__(
        self, cluster: FakeCluster, timeline: Timeline, machines: Mapping[str, NodeTopology], marks: Marks
    ) -> None:
        """`machines` is how each node really is, by name; entries may be replaced while the run goes on."""
        self._cluster, self._timeline, self._machines, self._marks = cluster, timeline, machines, marks
        self._strangers: dict[str, float] = {}  # UID of a pod that was bound without us -> since when
        self._before: dict[str, LedgerRecord] = {}
        self._holders: dict[str, dict[str, str]] = {}  # node -> UUID -> pod that runs with it, by its Binding
        self._replaced: set[str] = set()  # nodes of a second life: the service may not have seen it yet
        self._granted_at: dict[str, float] = {}
        self._bound: set[str] = set()
        self._disturbed: dict[str, float] = {}  # node -> when something happened there that nobody could foresee
        self._released: set[str] = set()  # members of gangs whose gates are off
        self._gangs: dict[str, dict[str, None]] = {}  # members that there ever were
        self._rulings = Rulings(cluster, timeline, KNOWN_BY_ALL_S)
        cluster.watchers.insert(0, self._told)

    def _told(self, _: Kind, event: WatchEvent) -> None:
        if isinstance(event, PodSeen) and event.pod.gang is not None:
            self._gangs.setdefault(event.pod.gang.name, {})[event.pod.uid] = None
        match event:
            case LedgerSeen(record):
                self._ledger_written(self._before.get(record.node) or LedgerRecord(record.node), record)
                self._before[record.node] = record
            case PodSeen(pod) if pod.gang is not None and not pod.gated and pod.uid not in self._released:
                self._released.add(pod.uid)
                self._whole_gang_is_recorded(pod)
            case PodSeen(pod) if pod.uid in self._cluster.allocations:
                self._pod_bound_by_us(pod)
            case PodSeen(pod) if pod.node and not holds_nothing(pod):
                self._strangers.setdefault(pod.uid, self._timeline.now)
            case PodSeen(pod):
                self._strangers.pop(pod.uid, None)
            case PodGone(uid):
                self._leave(uid)
                self._strangers.pop(uid, None)
            case NodeGone(name):
                self._replaced.add(name)
            case _:
                pass

    def _whole_gang_is_recorded(self, pod: PodFacts) -> None:
        """The first gate of a gang is lifted when all that it needs have what they get in a ledger."""
        if pod.gang is None or pod.uid not in self._granted_at:
            return  # others held it, or nothing is promised to it
        here = {each.uid: each for each in self._cluster.pods.values() if each.gang == pod.gang}
        if any(uid in self._released for uid in here if uid != pod.uid):
            return  # the others follow, whatever becomes of one of them
        members = self._gangs[pod.gang.name]
        recorded = {grant.owner.uid for record in self._cluster.ledgers.values() for grant in record.grants}
        # Whoever goes after the first gate is lifted keeps none of the others.
        gone = {uid for uid in members if uid in self._granted_at and (uid not in here or here[uid].deleting)}
        counted = [uid for uid in members if uid in recorded or uid in gone or (uid in here and not here[uid].gated)]
        self._marks["a gang set out"] += 1
        if len(counted) < pod.gang.size:
            raise Violation(f"10: {pod.uid} was let go with {counted} of its gang of {pod.gang.size}")

    def _ledger_written(self, old: LedgerRecord, new: LedgerRecord) -> None:
        if new.unreadable or old.unreadable:
            self.disturbed(new.node)
            return  # a person's edit, which the workload made on purpose
        if fault := fault_of(new.grants):
            raise Violation(f"1: ledger of {new.node} says that {fault}")
        for grant in old.grants:
            kept = new.of(grant.owner.uid)
            if kept is None and (why := self._still_needed(grant, new.node)):
                raise Violation(f"5: ledger of {new.node} dropped the grant of {grant.owner.uid}, whose pod {why}")
            if kept is not None and kept.uuids != grant.uuids and kept.node_mode is not NodeMode.COMMAND:
                raise Violation(f"1: the grant of {grant.owner.uid} on {new.node} was moved while it may be in use")
        known = {grant.owner.uid for grant in old.grants}
        for grant in new.grants:
            if grant.owner.uid not in known:
                self._granted_at[grant.owner.uid] = self._timeline.now
                self._granted(grant, new.node)
                if grant.enforced and new.node not in self._replaced:
                    self._within_capacity(new)
                    self._strangers_are_minded(grant, new)

    def _within_capacity(self, record: LedgerRecord) -> None:
        live = [g.count for g in record.grants if not self._ended(g)]
        if sum(live) > (node := self._cluster.nodes[record.node]).capacity:
            raise Violation(f"4: ledger of {record.node} grants {sum(live)} of {node.capacity} GPUs")

    def _strangers_are_minded(self, grant: Grant, record: LedgerRecord) -> None:
        """Whoever holds GPUs that nobody can name makes every named set doubtful, once there was time to see him."""
        since = [
            s for uid, s in self._strangers.items() if (p := self._cluster.pods.get(uid)) and p.node == record.node
        ]
        known = since and self._timeline.now - min(since) > KNOWN_BY_ALL_S
        told = grant.node_mode is NodeMode.COMMAND  # its agent says which
        if known and grant.policy is Policy.RESTRICTED and grant.uuids_known and not told:
            raise Violation(f"3: Restricted {grant.owner.uid} was granted beside a pod whose GPUs are not known")

    def _ended(self, grant: Grant) -> bool:
        pod = self._cluster.pods.get(grant.owner.uid)
        return pod is None or holds_nothing(pod)

    def _still_needed(self, grant: Grant, node: str) -> str:
        """Why the grant may not be dropped; "" when it may."""
        pod = self._cluster.pods.get(grant.owner.uid)
        if pod is None or holds_nothing(pod) or (pod.node and pod.node != node):
            return ""
        if pod.node:
            return "runs there"
        if grant.state is State.HELD:
            return ""  # it authorises no Binding
        if grant.pins and not pod.gated and pod.pinned == node:
            return "was sent there"
        return "can still be bound by a Binding under way" if pod.version == grant.pod_version else ""

    def _granted(self, grant: Grant, node: str) -> None:
        """A new grant keeps the contract, judged by the real machine."""
        pod = self._cluster.pods.get(grant.owner.uid)
        if pod is None or not grant.count:
            return
        request = self._wish(grant, pod)
        promised = request.policy is Policy.RESTRICTED and grant.enforced
        if promised and not grant.uuids_known and not grant.candidates:
            raise Violation(f"3: Restricted {grant.owner.uid} was granted by count on {node}")
        if not grant.uuids_known:
            return
        if len(grant.uuids) != request.gpus:
            raise Violation(f"4: {grant.owner.uid} asked for {request.gpus} and was granted {sorted(grant.uuids)}")
        machine = self._machines.get(node)
        if machine is None or not grant.uuids <= {device.uuid for device in machine.devices}:
            return  # the node was made anew under the service's eyes; nothing runs on GPUs that are not there
        whole = in_one_domain(machine, grant.uuids, request.scopes, request.gpus)
        if request.policy is Policy.RESTRICTED and grant.enforced and not whole:
            raise Violation(f"3: Restricted {grant.owner.uid} was granted {sorted(grant.uuids)} over several domains")
        for candidate in grant.candidates if request.policy is Policy.RESTRICTED and grant.enforced else ():
            if not in_one_domain(machine, candidate, request.scopes, request.gpus):
                raise Violation(f"3: {grant.owner.uid} may get {sorted(candidate)} on {node}, over several domains")
        if not whole and not grant.degraded:
            raise Violation(f"3: the grant of {grant.owner.uid} spans domains and is not recorded as degraded")

    def _wish(self, grant: Grant, pod: PodFacts) -> GpuRequest:
        """What the pod was taken to ask for: what the grant says, if some rule of the last while says so."""
        asked = self._rulings.asked(pod)
        same = [each for each in asked if self._is_said(grant, each)]
        if not same:
            raise Violation(
                f"3: {pod.uid} was granted as {grant.policy} {grant.scopes_asked}, no rule says so: {asked}"
            )
        # Where one rule of the last while has it wait for a whole domain and another does not, either was right.
        request = next((each for each in same if each.policy is Policy.PREFERRED), same[-1])
        self._marks["a patient pod got a whole domain"] += request.patient
        self._marks["degraded when its patience was over"] += bool(request.degrade_after_s) and grant.degraded
        return request

    def _is_said(self, grant: Grant, request: GpuRequest) -> bool:
        return (grant.policy, grant.scopes_asked) == (request.promised, request.scopes)

    def _pod_bound_by_us(self, pod: PodFacts) -> None:
        node, grant = self._cluster.allocations[pod.uid]
        holders = self._holders.setdefault(node, {})
        if holds_nothing(pod):
            self._leave(pod.uid)
            return
        if any(owner == pod.uid for owner in holders.values()) or not grant.count:
            return
        if grant.enforced and pod.uid not in self._bound and not grant.pins:
            self._wish(grant, pod)  # at the moment of its Binding, since a rule may have changed after the grant
        self._bound.add(pod.uid)
        if grant.node_mode is NodeMode.COMMAND:
            return  # who has what is known when the kubelet has let it in
        recorded = self._cluster.ledgers.get(node, LedgerRecord(node)).of(pod.uid)
        tampered = node in self._cluster.ledgers and self._cluster.ledgers[node].unreadable
        if not tampered and (recorded is None or recorded.uuids != grant.uuids):
            raise Violation(f"2: {pod.uid} was bound to {node} with {sorted(grant.uuids)}, the ledger has {recorded}")
        for uuid in sorted(grant.uuids):
            if uuid in holders:
                raise Violation(f"1: {uuid} on {node} was given to {pod.uid} while {holders[uuid]} has it")
            holders[uuid] = pod.uid

    def disturbed(self, node: str) -> None:
        """A stranger was started, or a GPU fell sick or well: what was foreseen before need not come."""
        self._disturbed[node] = self._timeline.now

    def started(self, pod: PodFacts, uuids: frozenset[str], shared_since: float | None) -> None:
        """A node's own parts gave the pod these GPUs.

        Args:
            shared_since: when the pod was deleted of which a container still runs on one of them.
        """
        node, grant = self._cluster.allocations.get(pod.uid, (pod.node, None))
        self._marks["the kubelet gave away what a deleted pod still used"] += shared_since is not None
        if grant is None or not grant.enforced:
            self.disturbed(pod.node)
            return
        if shared_since is not None and grant.candidates and self._granted_at[pod.uid] > shared_since + SEEN_S:
            raise Violation(f"1: {pod.uid} was granted GPUs on {node} that containers of a deleted pod still used")
        calm = self._granted_at.get(pod.uid, 0.0) > self._disturbed.get(node, -KNOWN_BY_ALL_S) + KNOWN_BY_ALL_S
        if node in self._replaced or not grant.candidates or not calm:
            return
        if frozenset(uuids) not in map(frozenset, grant.candidates):
            raise Violation(f"2: {pod.uid} got {sorted(uuids)} on {node}, which is none of its candidates")
        if grant.policy is Policy.RESTRICTED:
            self._marks["observed a Restricted pod"] += 1
            if not in_one_domain(self._machines[node], uuids, grant.scopes_asked, grant.count):
                raise Violation(f"3: Restricted {pod.uid} got {sorted(uuids)} on {node}, over several domains")

    def commanded(self, pod: PodFacts, uuids: frozenset[str]) -> None:
        """A pod got these GPUs through a shim: they are right by what it asked, whoever it changed places with."""
        _, grant = self._cluster.allocations.get(pod.uid, (pod.node, None))
        if grant is None or not grant.enforced:
            self.disturbed(pod.node)
            return
        if grant.policy is Policy.RESTRICTED and grant.uuids_known:
            self._marks["commanded a Restricted pod"] += 1
            self._marks["pods changed places"] += uuids != grant.uuids and not grant.candidates
            self._marks["the hints moved a pod"] += uuids != grant.uuids and bool(grant.candidates)
            self._marks["a commanded pod had candidates"] += bool(grant.candidates)
            if not in_one_domain(self._machines[pod.node], uuids, grant.scopes_asked, grant.count):
                raise Violation(f"3: Restricted {pod.uid} got {sorted(uuids)} on {pod.node}, over several domains")

    def failed(self, pod: PodFacts) -> None:
        """A commanded kubelet let a pod in that then got no GPUs."""
        _, grant = self._cluster.allocations.get(pod.uid, (pod.node, None))
        self._marks["a commanded pod failed"] += 1
        calm = self._granted_at.get(pod.uid, 0.0) > self._disturbed.get(pod.node, -KNOWN_BY_ALL_S) + KNOWN_BY_ALL_S
        if grant is not None and grant.enforced and grant.uuids_known and calm and pod.node not in self._replaced:
            raise Violation(f"9: {pod.uid} failed on {pod.node}, where nothing had happened")

    def _keeps_closed(self, grant: Grant, name: str, strays: Collection[str]) -> bool:
        """Whether the grant is there for what its owner got, in the life that the node is in."""
        node = self._cluster.nodes[name]
        surprised = grant.owner.uid in strays or name in self._disturbed or name in self._replaced
        return surprised and grant.count == 0 and grant.violated.startswith(f"{node.boot_id or node.uid} ")

    def one_eviction_per_life(self) -> None:
        """A node's parts that do what nobody foresaw cost one pod, until something changes on the node."""
        evicted: dict[tuple[str, ...], set[str]] = {}
        for node, *life, uid in self._cluster.evictions:
            evicted.setdefault((node, *life), set()).add(uid)
        for (node, *_), uids in evicted.items():
            self._marks["an eviction"] += 1
            if len(uids) > 1 and node not in self._disturbed:
                raise Violation(f"8: {sorted(uids)} were evicted from {node}, and nothing had changed there")

    def _leave(self, uid: str) -> None:
        for holders in self._holders.values():
            for uuid in [uuid for uuid, owner in holders.items() if owner == uid]:
                del holders[uuid]

    def ledgers_are_true(self, got: Callable[[str], frozenset[str]]) -> None:
        """On commanded nodes every ledger says what its owners really have (at rest)."""
        for record in self._cluster.ledgers.values():
            for grant in record.grants:
                uid = grant.owner.uid
                told = grant.node_mode is NodeMode.COMMAND and grant.uuids_known and uid in self._cluster.pods
                if told and got(uid) and got(uid) != grant.uuids and record.node not in self._replaced:
                    raise Violation(f"2: {uid} has {sorted(got(uid))}, and the ledger says {sorted(grant.uuids)}")

    def all_recorded(self) -> None:
        """Every pod that runs by a Binding of ours has its grant (at rest; a person may have deleted ledgers)."""
        for uid, (node, grant) in self._cluster.allocations.items():
            pod = self._cluster.pods[uid]
            recorded = self._cluster.ledgers.get(node, LedgerRecord(node)).of(uid)
            if grant.count and not holds_nothing(pod) and recorded is None:
                raise Violation(f"5: {uid} runs on {node} and its grant was lost")

    def no_leaks(self, strays: Collection[str] = ()) -> None:
        """No ledger names an owner that is gone (at rest), but for what it got.

        Args: strays: UIDs of pods that got what nobody could foresee.
        """
        for record in self._cluster.ledgers.values():
            for grant in record.grants:
                pod = self._cluster.pods.get(grant.owner.uid)
                over = pod is None or holds_nothing(pod) or pod.node not in ("", record.node)
                # On a machine that was made anew, pods of before have no GPUs that could be told of.
                awaited = grant.node_mode is NodeMode.COMMAND and record.node in self._replaced
                if over and not awaited and not self._keeps_closed(grant, record.node, strays):
                    raise Violation(f"5: ledger of {record.node} still names {grant.owner.uid}, which is gone")

    def nothing_is_held(self) -> None:
        """Whom GPUs were held for has them, or does without (at rest)."""
        for record in self._cluster.ledgers.values():
            for grant in record.grants:
                pod = self._cluster.pods.get(grant.owner.uid)
                if grant.state is State.HELD and pod is not None and not pod.node:
                    raise Violation(f"6: GPUs of {record.node} are held for {grant.owner.uid}, and nobody moves")


def in_one_domain(machine: NodeTopology, uuids: Iterable[str], scopes: Iterable[Scope], size: int) -> bool:
    """Whether the GPUs lie in one domain of the first scope that has one of that size: the rule, written naively."""
    wanted = set(uuids)
    for scope in scopes:
        domains: dict[object, set[str | None]] = {}
        for device in machine.devices:
            key = {Scope.NUMA_NODE: device.numa, Scope.SOCKET: device.socket, Scope.NODE: 0}.get(scope)
            domains.setdefault(key, set()).add(device.uuid)
        if any(len(domain) >= size for domain in domains.values()):
            return any(wanted <= domain for domain in domains.values())
    return False
