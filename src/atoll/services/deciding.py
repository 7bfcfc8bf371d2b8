"""What the service asks of the decision core, in the service's own words: grants, what-ifs and refusals."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from atoll.core.assess import assess, restricted
from atoll.core.books import owner_of
from atoll.core.choose import judge
from atoll.core.decide import decide
from atoll.core.facts import Enforcement, PodFacts
from atoll.core.fleet import Fleet
from atoll.core.keeping import idle
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, NodeMode
from atoll.core.lifecycle import State
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.sentences import reason
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Fit, Placement, Refusal, Rejection
from atoll.core.view import NodeView
from atoll.services.mirror import Mirror
from atoll.services.requests import Requests

OFFERED_MAX = 1024
"""Pods between a filter call and its bind call; kube-scheduler has a few dozen of them at once."""


class Court:
    """Decides on the mirror's books and changes nothing."""

    def __init__(self, mirror: Mirror, requests: Requests) -> None:
        self._mirror = mirror
        self._requests = requests
        self._offered: dict[str, Sequence[str]] = {}

    def enforced(self, node: str) -> bool:
        return self._mirror.config(node).enforcement is Enforcement.ENFORCE

    def offered(self, uid: str, names: Sequence[str]) -> None:
        """Remember among which nodes the scheduler chooses for a pod, until it is bound; the oldest are forgotten."""
        if self._mirror.fleet.any_enforced:
            self._offered[uid] = names
            if len(self._offered) > OFFERED_MAX:
                del self._offered[next(iter(self._offered))]

    def held_on(self, uid: str) -> str | None:
        """The node that keeps GPUs for the pod. Grants of shadow nodes keep nobody from going elsewhere."""
        return next((node for node, grant in self._mirror.open_grants(uid) if grant.enforced), None)

    def outdated(self) -> list[tuple[str, str]]:
        """(UID, node) of enforced grants whose pods, which are not bound yet, ask for something else by now."""
        found = []
        for uid in self._mirror.waiting_owners():
            pod = self._mirror.pods[uid]
            request = self._requests.of(pod)
            for node, grant in self._mirror.open_grants(uid):
                put_off = isinstance(request, InvalidRequest) and request.code is not Code.INVALID_REQUEST
                if released(grant, pod):
                    continue
                if grant.enforced and not put_off and not (isinstance(request, GpuRequest) and is_for(grant, request)):
                    found.append((uid, node))
        return found

    def still_good(self, grant: Grant, node: str) -> bool:
        """Whether the GPUs of a recorded grant are all there and none of them is out, and its pod still asks for that.

        A grant that leaves the choice to the node is judged anew: it is good while nothing else could come of it.
        """
        view, pod = self._mirror.view(node), self._mirror.pods.get(grant.owner.uid)
        if view is None:
            return False
        if view.state.enforced and not grant.enforced:
            return False  # it was made when the node was a shadow, which gives what no rule allows
        request = self._requests.of(pod) if pod else None
        sent = pod is not None and released(grant, pod)
        if grant.enforced and isinstance(request, GpuRequest) and not sent and not is_for(grant, request):
            return False
        observed = NodeMode.OBSERVE in {view.state.mode, grant.node_mode}
        if (observed or view.state.in_turn or grant.candidates) and view.state.enforced:
            return self._still_foreseen(grant, node)
        position = {uuid: n for n, uuid in enumerate(view.uuids)}
        return all(uuid in position and not view.state.out >> position[uuid] & 1 for uuid in grant.uuids)

    def _still_foreseen(self, grant: Grant, node: str) -> bool:
        pod = self._mirror.pods.get(grant.owner.uid)
        view = self._mirror.view(node, without=frozenset({grant.owner.uid}))
        request = self._requests.of(pod) if pod else None
        if view is None or not isinstance(request, GpuRequest):
            return False
        now = decide(_alone(view), request, (node,))
        return (
            isinstance(now, Placement)
            and view.state.mode is grant.node_mode
            and _sets(now.containers, now.candidates) <= _sets(grant.containers, grant.candidates)
        )

    def grant(self, pod: PodFacts, request: GpuRequest, node: str, record: LedgerRecord) -> Grant | str:
        """A grant for the pod on the node, its ledger being `record`; or why not, in one line."""
        names = self._offered.pop(pod.uid, ())
        view = self._mirror.view(node, record)
        if view is None:
            return f"node {node} is not known"
        if not view.state.enforced and restricted(request) and self._any_enforced(names):
            # Rule 11: with an enforced candidate beside it, a shadow node must not be the way round the rule.
            verdict = assess(view.state, request)
            if isinstance(verdict, Refusal):
                return reason(verdict)
        decision = decide(_alone(view), request, (node,))
        if isinstance(decision, Placement):
            return grant_of(pod, decision, view.state.mode)
        return reason(decision.nodes[0][0])

    def fits_without(self, request: GpuRequest, node: str, uids: frozenset[str]) -> bool:
        """Whether the node can serve the request once these pods are gone."""
        view = self._mirror.view(node, without=uids)
        if view is None:
            return False
        return isinstance(decide(_alone(view), request, (node,)), Placement)

    def said(self, pod: PodFacts, names: Sequence[str] | None) -> tuple[Code, str] | None:
        """Code and short text of the pod's refusal; None when it fits by now."""
        request = self._requests.of(pod)
        if request is None:
            return None
        if isinstance(request, InvalidRequest):
            return request.code, request.message
        found = self.placement(self._mirror.fleet.snapshot(), request, names)
        return None if isinstance(found, Placement) else found

    def placement(
        self, snapshot: Snapshot, request: GpuRequest, names: Sequence[str] | None
    ) -> Placement | tuple[Code, str]:
        """Where the request is served, or code and short text of its refusal."""
        decision = decide(snapshot, request, names)
        if not isinstance(decision, Rejection):
            return decision
        after = f"; takes what there is {request.degrade_after_s} s after it was created" if request.patient else ""
        return decision.code, decision.message + after

    def candidates(
        self, snapshot: Snapshot, request: GpuRequest, among: Sequence[str] | None = None
    ) -> tuple[list[str], list[str]]:
        """(nodes that may have GPUs for the request, enforced ones beside them; these bear on what shadows give)."""
        fitting, others = [], []
        for state, names in snapshot.groups(among):
            if isinstance(judge(state, request, any_enforced=False), Fit):
                fitting += names
            elif state.enforced:
                others += names
        return fitting, others

    def fit_alone(self, snapshot: Snapshot, requests: Sequence[GpuRequest]) -> bool:
        """Whether pods that ask for these would fit together if nobody else was there. The largest choose first."""
        fleet, alike = Fleet(), Counter[NodeState]()
        for _, names in snapshot.groups(None):
            for name in names:
                view = snapshot.view(name)
                empty = idle(view) if view is not None else None
                if empty is None or alike[empty.state] >= len(requests):
                    break  # each takes one node at most, and those of a group are alike
                alike[empty.state] += 1
                fleet.put(empty)
        one = fleet.snapshot()
        for request in sorted(requests, key=lambda request: -request.gpus):
            found = decide(one, request)
            if not isinstance(found, Placement):
                return False
            one = one.with_grants((found,))
        return True

    def fitting(self, waiting: Sequence[tuple[PodFacts, Sequence[str] | None]]) -> list[PodFacts]:
        """Those pods, in the given order, that fit together: each takes what it would get from those behind it."""
        snapshot, fit = self._mirror.fleet.snapshot(), []
        for pod, names in waiting:
            request = self._requests.of(pod)
            if request is None or isinstance(request, InvalidRequest) or self.held_on(pod.uid):
                continue
            decision = decide(snapshot, request, names)
            if isinstance(decision, Placement):
                snapshot = snapshot.with_grants((decision,))
                fit.append(pod)
        return fit

    def _any_enforced(self, names: Sequence[str]) -> bool:
        return any((view := self._mirror.fleet.get(name)) is not None and view.state.enforced for name in names)


def released(grant: Grant, pod: PodFacts) -> bool:
    """Whether the pod was sent to its node: what it has got is its own to its end."""
    return grant.pins and not pod.gated


def is_for(grant: Grant, request: GpuRequest) -> bool:
    """Whether the grant was made for what is asked. One that was made for less would be bound in its place."""
    granted = (grant.policy, grant.each, grant.scopes_asked, grant.partition, grant.count)
    return granted == (request.promised, request.promised_each, request.scopes, request.partition, request.gpus)


def _alone(view: NodeView) -> Snapshot:
    """The node as a fleet of one."""
    fleet = Fleet()
    fleet.put(view)
    return fleet.snapshot()


def _sets(containers: Iterable[ContainerGrant], candidates: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """What the owner may get; () where nobody can tell."""
    return set(candidates) or {tuple(sorted(part.uuid for container in containers for part in container.parts))}


def grant_of(pod: PodFacts, placement: Placement, mode: NodeMode) -> Grant:
    """What is recorded when the decision is carried out. mode: of the node."""
    request, fit = placement.request, placement.fit
    return Grant(
        owner=owner_of(pod),
        state=State.BINDING,
        count=request.gpus,
        containers=placement.containers,
        policy=request.promised,
        scopes_asked=request.scopes,
        scope_bound=fit.bound,
        node_mode=mode,
        enforced=placement.enforced,
        degraded=fit.degraded,
        lost=fit.lost,
        uuids_known=fit.uuids_known,
        domains=placement.domains,
        candidates=placement.candidates,
        pod_version=pod.version,
        occupant=replace(pod.occupant, service_class=request.service_class),
        partition=request.partition,
        each=request.promised_each,
    )
