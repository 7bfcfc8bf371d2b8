"""What the API last said, newest word per object, and the books of every node made from it.

Knowledge only grows: an older resourceVersion never replaces a newer one, and a UID that is gone never comes back, in
whatever order watches, reads and answers to our own writes arrive. Views of nodes are made late: events mark nodes, and
`refresh` makes the marked views once, before anybody decides.
"""

from collections.abc import Iterator
from dataclasses import replace

from atoll.core.books import OPEN, READ_BACK, Books, books_of, holds_nothing, in_force, observed, pod_gpus
from atoll.core.events import (
    AgentGone,
    AgentSeen,
    ConfigGone,
    ConfigSeen,
    Dropped,
    InventoryGone,
    InventorySeen,
    Kind,
    LedgerGone,
    LedgerSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PolicyGone,
    PolicySeen,
    ShimGone,
    ShimSeen,
    Synced,
    Undropped,
    WatchEvent,
)
from atoll.core.facts import NodeConfig, NodeFacts, PodFacts, Source
from atoll.core.fleet import Fleet
from atoll.core.hardware import Hardware, hardware_of
from atoll.core.ledger import SEEN, Grant, LedgerRecord, NodeMode, fault_of
from atoll.core.lifecycle import State
from atoll.core.outcomes import Predict
from atoll.core.read_back import may_be_anothers
from atoll.core.resource_version import is_newer, just_before, newest
from atoll.core.view import NodeView
from atoll.core.viewing import view_of
from atoll.models.setup import predicted
from atoll.services.inventories import Filed, Inventories
from atoll.services.pools import Pools

GONE_MAX = 100_000
"""Dead UIDs that are remembered, so that a late watch event cannot revive a pod. The oldest are forgotten first; a
watch that lags behind by so many deletions has long been relisted."""


AGENT, SHIM = "agent", "shim"
"""Who speaks for a node."""


class Mirror:
    """Invariant: after `refresh`, the fleet holds exactly the views that `view` would make now.

    Args:
        predict: what the stock parts of a node hand out.
    """

    def __init__(self, predict: Predict = predicted) -> None:
        self._predict = predict
        self.nodes: dict[str, NodeFacts] = {}
        self.pods: dict[str, PodFacts] = {}
        self.inventories = Inventories()
        self.pools = Pools()
        self.agents: dict[str, AgentSeen] = {}
        self.shims: dict[str, ShimSeen] = {}
        self._silent: dict[str, dict[str, str]] = {}  # node -> who -> why his word is old
        self._pods_listed = ""  # version of the first list of pods
        self._lingering: dict[str, dict[str, str]] = {}  # node -> UID -> version of the pods, see `lingers`
        self.fleet = Fleet()
        self.synced: set[Kind] = set()
        self.ready = False  # every kind was listed
        self.unwatched: dict[str, None] = {}  # UIDs that no watch has shown, so none will say when they are gone
        self._records: dict[str, LedgerRecord] = {}
        self._gone: dict[str, None] = {}
        # Tuples, because nearly all hold one name and a large cluster has a great many of them.
        self._on_node: dict[str, tuple[str, ...]] = {}  # node -> UIDs of pods whose nodeName it is
        self._granted: dict[str, tuple[str, ...]] = {}  # UID -> nodes whose ledger names it
        self._hardware: dict[str, tuple[Filed, NodeConfig, Hardware]] = {}
        self._dirty: dict[str, None] = {}

    # What the API says.

    def apply(self, event: WatchEvent) -> bool:
        """Take one event in; False when it said nothing new."""
        match event:
            case PodSeen(pod):
                self.unwatched.pop(pod.uid, None)
                return self._put_pod(pod)
            case PodGone(uid, version):
                return self._drop_pod(uid, version)
            case LedgerSeen(record):
                return self._put_record(record)
            case LedgerGone(node):
                return self._drop_record(node)
            case NodeSeen(node):
                return self._put_node(node)
            case NodeGone(name, uid):
                return self._drop_node(name, uid)
            case InventorySeen(inventory):
                filed = self.inventories.filed(inventory.node)
                if filed and filed.version and not is_newer(inventory.version, filed.version):
                    return False
                self.inventories.put(inventory)
                self.mark(inventory.node)
                return True
            case InventoryGone(node):
                self.inventories.drop(node)
                self._hardware.pop(node, None)
                self.mark(node)
                return True
            case AgentSeen(node):
                self.agents[node] = event
                if node in self._lingering:
                    self.mark(node)
                return True
            case AgentGone() | ShimGone():
                return False  # the last word stands, and its writer falls silent
            case ShimSeen(node):
                known = self.shims.get(node)
                self.shims[node] = event
                same = known and (known.commands, known.node_uid) == (event.commands, event.node_uid)
                if not same or node in self._lingering:
                    self.mark(node)
                return True
            case ConfigSeen(config):
                self.pools.put(config)
                return self._new_config()
            case ConfigGone(name):
                self.pools.drop(name)
                return self._new_config()
            case Synced(kind, version):
                self._pods_listed = version if kind is Kind.PODS else self._pods_listed
                self.synced.add(kind)
                self.ready = len(self.synced) == len(Kind)
                return True
            case NamespaceSeen() | NamespaceGone() | PolicySeen() | PolicyGone():
                return False  # they say what pods ask for, not who holds what
            case Dropped(Kind.LEDGERS, name, why):
                return self._distrust(name, why)
            case Dropped(Kind.CONFIGS, name):
                self.pools.distrust(name)
                return False
            case Undropped(Kind.CONFIGS, name):
                self.pools.trust(name)
                return True
            case Dropped() | Undropped():
                return False

    def read(self, pod: PodFacts) -> None:
        """A pod as a read or the answer to a write shows it."""
        if pod.uid not in self.pods and not self.pod_is_gone(pod.uid):
            self.unwatched[pod.uid] = None
        self._put_pod(pod)

    def bound_here(self, uid: str, node: str) -> None:
        """The API accepted a Binding; the watch will say so later, under a newer version."""
        pod = self.pods.get(uid)
        if pod is not None and not pod.node:
            self._replace_pod(pod, replace(pod, node=node))

    def forget(self, uid: str) -> None:
        """Drop a pod of which nothing more will be heard."""
        self.unwatched.pop(uid, None)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            _remove(self._on_node, pod.node, pod.uid)
            self.mark(pod.node)

    # What it comes to.

    def pod_is_gone(self, uid: str) -> bool:
        return uid in self._gone

    def record(self, node: str) -> LedgerRecord:
        """The ledger object of a node; one without version when there is none."""
        return self._records.get(node) or LedgerRecord(node)

    @property
    def grants(self) -> int:
        """How many owners the ledgers name."""
        return len(self._granted)

    def record_nodes(self) -> tuple[str, ...]:
        return tuple(self._records)

    def config(self, node: str) -> NodeConfig:
        return self.pools.config(node, self.nodes.get(node))

    def life(self, node: str) -> str:
        """Another text after each boot of an observed node, and with each change of what hands out its GPUs."""
        hardware = self._hardware_of(node)
        return hardware.life if hardware and self.config(node).mode in READ_BACK else ""

    def keeps_closed(self, grant: Grant, node: str) -> bool:
        """Whether what the grant's owner got keeps the node closed, also after him; whatever its mode is meanwhile."""
        return in_force(grant, self._hardware_of(node))

    def state(self, grant: Grant, node: str) -> State:
        uid = grant.owner.uid
        return observed(grant, node, self.pods.get(uid), gone=uid in self._gone)

    @property
    def lingering(self) -> bool:
        """Whether some node has yet to tell that it let a pod go."""
        return bool(self._lingering)

    def lingers(self, uid: str, node: str) -> bool:
        """Whether the pod, which the API has no more, may still hold GPUs of an observed node.

        A pod can be deleted under its running containers. Its node is believed to have let it go when its agent has
        told everything up to after that, and tells nothing of the pod.
        """
        after = self._lingering.get(node, {}).get(uid)
        if after is None:
            return False
        filed, agent = self.inventories.filed(node), self.agents.get(node)
        if self.config(node).mode not in READ_BACK or filed is None or not filed.pods_version:
            return False  # nobody will tell
        if any(each.pod_uid == uid for each in filed.given):
            return True
        if self.config(node).mode is NodeMode.COMMAND and not self._shim_heard(node, after):
            return True
        # The Lease speaks of one object alone: a later one may hold an older word, written late.
        same = agent is not None and agent.inventory_version == filed.version
        return not is_newer(newest(filed.pods_version, agent.pods_version if agent and same else ""), after)

    def _shim_heard(self, node: str, version: str) -> bool:
        """Whether the node's shim knows of something after that version of the pods, so that it takes none that is gone
        for one that waits."""
        shim = self.shims.get(node)
        return shim is not None and bool(shim.pods_version) and is_newer(shim.pods_version, version)

    def fall_silent(self, node: str, who: str, why: str) -> bool:
        """Somebody's word from the node is old; False when that is known."""
        words = self._silent.setdefault(node, {})
        known = words.get(who)
        words[who] = why
        return known != why

    def speak(self, node: str, who: str) -> bool:
        """He is heard again; False when he always was."""
        return self._silent.get(node, {}).pop(who, None) is not None

    @property
    def silent(self) -> Iterator[str]:
        """Nodes of which somebody's word is old."""
        return (node for node, words in self._silent.items() if words)

    def open_grants(self, uid: str) -> Iterator[tuple[str, Grant]]:
        """(node, grant) of what is recorded for a pod that is not bound yet: first where it was sent, then enforced
        ones, then by node name.

        There is more than one only where two instances granted at once, or on shadow nodes, which keep nobody.
        """
        found = ((node, self._records[node].of(uid)) for node in self._granted.get(uid, ()))
        granted = [(node, grant) for node, grant in found if grant and self.state(grant, node) in OPEN]
        pod = self.pods.get(uid)
        sent_to = pod.pinned if pod is not None and not pod.gated else ""
        yield from sorted(granted, key=lambda one: (one[0] != sent_to, not one[1].enforced, one[0]))

    def waiting_owners(self) -> list[str]:
        """UIDs of pods that a ledger names, and that have no node yet."""
        return [uid for uid in self._granted if (pod := self.pods.get(uid)) is not None and not pod.node]

    def granted_nodes(self, uid: str) -> tuple[str, ...]:
        """Nodes whose ledger names the pod, whatever became of it."""
        return self._granted.get(uid, ())

    def view(
        self, node: str, record: LedgerRecord | None = None, without: frozenset[str] = frozenset()
    ) -> NodeView | None:
        """The node's view, now or as it would be with another ledger or without some pods."""
        books = self._books(node, record, without)
        return view_of(books) if books else None

    def may_be_anothers(self, grant: Grant, node: str, record: LedgerRecord | None = None) -> bool:
        """Whether a pod of the node that is not read back may have got what was granted to one that is gone.

        Args: record: the node's ledger as it would be.
        """
        books = self._books(node, record) if self.config(node).mode is NodeMode.COMMAND else None
        return books is not None and may_be_anothers(books, grant)

    def _books(
        self, node: str, record: LedgerRecord | None = None, without: frozenset[str] = frozenset()
    ) -> Books | None:
        facts = self.nodes.get(node)
        if facts is None:
            return None
        record = record or self.record(node)
        pods = (self.pods[uid] for uid in self._on_node.get(node, ()) if uid not in without)
        states = ((g, self.state(g, node)) for g in record.grants if g.owner.uid not in without)
        filed = self.inventories.filed(node)
        told = filed.given if filed and filed.node_uid == facts.uid else ()
        given = (each for each in told if each.pod_uid not in without)
        hardware, config = self._hardware_of(node), self.config(node)
        lingering = frozenset(uid for uid in self._lingering.get(node, ()) if self.lingers(uid, node))
        # Of a grant whose pod the list of pods did not have, the pod is most likely gone; it is being read.
        owners = (grant.owner.uid for grant in record.grants)
        lingering |= {uid for uid in owners if uid not in self.pods and uid not in self._gone}
        shim, silent = self.shims.get(node), self._silent.get(node, {})
        words = (
            silent.get(AGENT, "") if filed and filed.source is Source.AGENT else "",
            silent.get(SHIM, "") if config.mode is NodeMode.COMMAND else "",
        )
        return books_of(
            facts,
            config,
            hardware,
            record,
            pods,
            states,
            given,
            lingering=lingering,
            stale="; ".join(filter(None, words)),
            commands=shim.commands if shim and shim.node_uid == facts.uid else None,
        )

    def refresh(self) -> tuple[tuple[str, ...], bool]:
        """Make the views of marked nodes; returns these nodes, and whether the state of one is another one now."""
        touched, changed = tuple(self._dirty), False
        self._dirty.clear()
        for node in touched:
            self._let_go(node)
            old, new = self.fleet.get(node), self.view(node)
            if new is None:
                self.fleet.drop(node)
            elif new != old:
                self.fleet.put(new)
            changed |= (old and old.state) != (new and new.state)
        return touched, changed

    def _let_go(self, node: str) -> None:
        left = {uid: after for uid, after in self._lingering.get(node, {}).items() if self.lingers(uid, node)}
        if left and node in self.nodes:
            self._lingering[node] = left
        else:
            self._lingering.pop(node, None)

    def mark(self, *nodes: str) -> None:
        """Have the views of these nodes made anew."""
        for node in nodes:
            if node:
                self._dirty[node] = None

    # One kind each.

    def _put_pod(self, pod: PodFacts) -> bool:
        old = self.pods.get(pod.uid)
        if pod.uid in self._gone or (old is not None and not is_newer(pod.version, old.version)):
            return False
        self._replace_pod(old, pod)
        return True

    def _replace_pod(self, old: PodFacts | None, pod: PodFacts) -> None:
        self.pods[pod.uid] = pod
        if old is not None and old.node != pod.node:
            _remove(self._on_node, old.node, old.uid)
        if pod.node:
            _add(self._on_node, pod.node, pod.uid)
        if pod.ended and pod.node and not (old and old.ended):
            self._linger_unserved(pod)
        self.mark(pod.node, *self.granted_nodes(pod.uid))

    def _linger_unserved(self, pod: PodFacts) -> None:
        """A pod that failed before it was served: until its node's shim knows, it may be taken for one that waits."""
        filed = self.inventories.filed(pod.node)
        told = any(each.pod_uid == pod.uid and each.uuids for each in filed.given) if filed else False
        if self.config(pod.node).mode is NodeMode.COMMAND and pod_gpus(pod) and not told:
            self._lingering.setdefault(pod.node, {})[pod.uid] = just_before(pod.version)

    def _drop_pod(self, uid: str, version: str) -> bool:
        if uid in self._gone:
            self._gone_at(uid, version)
            return False
        self._linger(uid, version)
        self._gone[uid] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self.forget(uid)
        self.mark(*self.granted_nodes(uid))
        return True

    def _linger(self, uid: str, version: str) -> None:
        """Remember after which version of the pods its node has to tell that it let it go.

        A read says only that the pod is gone by now; it was not at the last word of it, nor at the first list, unless
        that did not have it.
        """
        pod = self.pods.get(uid)
        after = self._pods_listed if pod is not None and not version else just_before(version or self._pods_listed)
        if pod is not None and pod.node:
            if not holds_nothing(pod) and pod_gpus(pod):
                self._lingering.setdefault(pod.node, {})[uid] = newest(after, "" if version else pod.version)
            return
        for node in self.granted_nodes(uid):
            grant = self.record(node).of(uid)
            if grant is not None and grant.state is State.BINDING:  # it may have landed
                self._lingering.setdefault(node, {})[uid] = newest(after, "" if version else grant.pod_version)

    def _gone_at(self, uid: str, version: str) -> None:
        """The watch says when a pod went of which a read has said that it is gone."""
        for node, left in self._lingering.items():
            if version and uid in left:
                left[uid] = just_before(version)
                self.mark(node)

    def _put_record(self, record: LedgerRecord) -> bool:
        old = self._records.get(record.node)
        if old is not None and old.version and not is_newer(record.version, old.version):
            return False
        fault = record.unreadable or fault_of(record.grants)
        self._replace_record(old, replace(record, grants=() if fault else record.grants, unreadable=fault))
        return True

    def _drop_record(self, node: str) -> bool:
        """What we knew of it stays true: the next write creates the object anew with the grants that still hold."""
        old = self._records.get(node)
        if old is None or not old.version:
            return False
        live = tuple(
            replace(grant, violated=grant.violated and SEEN)  # whoever deletes it opens the node
            for grant in old.grants
            if self.state(grant, node) is not State.RELEASING
        )
        self._replace_record(old, replace(old, version="", grants=live, unreadable=""))
        return True

    def _distrust(self, node: str, why: str) -> bool:
        old = self._records.get(node)
        self._replace_record(old, replace(old or LedgerRecord(node), grants=(), unreadable=why or "damaged"))
        return True

    def _replace_record(self, old: LedgerRecord | None, record: LedgerRecord) -> None:
        for grant in old.grants if old else ():
            _remove(self._granted, grant.owner.uid, record.node)
        for grant in record.grants:
            _add(self._granted, grant.owner.uid, record.node)
        self._records[record.node] = record
        self.mark(record.node)

    def _put_node(self, node: NodeFacts) -> bool:
        if self.nodes.get(node.name) == node:
            return False
        self.nodes[node.name] = node
        self.pools.forget(node.name)
        self.mark(node.name)
        return True

    def _drop_node(self, name: str, uid: str) -> bool:
        if name not in self.nodes or self.nodes[name].uid != uid:
            return False  # already another node of this name
        del self.nodes[name]
        self.pools.forget(name)
        for of_node in (self.agents, self._silent):
            of_node.pop(name, None)
        self.mark(name)
        return True

    def _new_config(self) -> bool:
        self.mark(*self.nodes)
        return True

    def _hardware_of(self, node: str) -> Hardware | None:
        """Made anew only when the inventory or the node's configuration is another one: it is the costly part."""
        filed, config = self.inventories.filed(node), self.config(node)
        if filed is None:
            return None
        made = self._hardware.get(node)
        if made is None or not made[0].describes_as(filed) or made[1] != config:
            same = made is not None and made[0].describes_as(filed) and made[1].partitions == config.partitions
            like = made[2] if made and same else None
            hardware = hardware_of(filed.inventory(node), config, like, self._predict)
            made = self._hardware[node] = (filed, config, hardware)
        return made[2]


def _add(index: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    known = index.get(key, ())
    if name not in known:
        index[key] = (*known, name)


def _remove(index: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    left = tuple(known for known in index.get(key, ()) if known != name)
    if left:
        index[key] = left
    else:
        index.pop(key, None)
