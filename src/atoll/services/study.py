"""A cluster as one look has shown it, to ask why pods are where they are and what another policy would make of them.

The same service that decides takes the look in; it leads nothing, so nothing is written.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from atoll.core.asking import POLICY, SCOPE
from atoll.core.books import holds_nothing, pod_gpus
from atoll.core.choose import loosened
from atoll.core.decide import decide
from atoll.core.delivery import Delivery, way_of
from atoll.core.errors import AtollError
from atoll.core.events import Dropped, Heard, Kind, PolicyGone, PolicySeen, Synced, Tick
from atoll.core.explain import Explanation, explain
from atoll.core.facts import Enforcement, PodFacts
from atoll.core.fixes import Fix, Loosen, Widen
from atoll.core.kube_events import KubeEvent
from atoll.core.kube_facts import KubePod, Refuses, Unsure
from atoll.core.ledger import Grant, NodeMode, Owner
from atoll.core.placement_policy import PolicyObject
from atoll.core.removal import PodLeft, Pool, Remains
from atoll.core.request import GpuRequest, InvalidRequest, Policy
from atoll.core.resolving import Considered, Ruling, considered
from atoll.core.verdict import Placement, Rejection
from atoll.services.foresight import Foresight
from atoll.services.scheduling import Scheduling


@dataclass(frozen=True, slots=True)
class Story:
    """One pod: what holds for it, and what becomes of it.

    Attributes:
        considered: the rules that were looked at, up to the one that holds.
        request: None where it asks for no GPU.
        decision: as if the pod was asked for now, its own GPUs being free; None where there is nothing to decide.
        grant: what a ledger records for it; None where nothing is.
        there: whether the cluster has it.
    """

    pod: PodFacts
    ruling: Ruling
    considered: tuple[Considered, ...]
    request: GpuRequest | InvalidRequest | None
    decision: Placement | Rejection | None
    explanation: Explanation | None
    grant: Grant | None
    there: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A pod that would be decided otherwise."""

    before: Story
    after: Story


class Study:
    def __init__(self, events: Iterable[Heard], utc_s: float, resources: Sequence[str] = ()) -> None:
        """
        Args:
            events: every object that there is, in any order; where they hold what kube-scheduler looks at, it is
                foreseen where it would not put a pod.
            utc_s: now, since 1970. resources: the names that count as GPUs.
        """
        self._service = Scheduling()
        self._resources = frozenset(resources)
        listed = list(events)
        kube = [event for event in listed if isinstance(event, KubeEvent)]
        self._foresight = Foresight(on=bool(kube))
        for heard in kube:
            self._foresight.take(heard)
        self.unread = tuple(event for event in listed if isinstance(event, Dropped))
        """Objects that cannot be read, so that nothing is known of them."""
        told = [event for event in listed if not isinstance(event, KubeEvent)]
        for event in (*told, *map(Synced, Kind), Tick(utc_s)):
            self._service.step(event, 0.0)

    @property
    def pods(self) -> list[PodFacts]:
        """Those that hold or want GPUs, by namespace and name."""
        found = (pod for pod in self._service.mirror.pods.values() if not holds_nothing(pod))
        return sorted(found, key=lambda pod: (pod.namespace, pod.name))

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """The pod of that name, the newest where several bear it."""
        found = (pod for pod in self._service.mirror.pods.values() if (pod.namespace, pod.name) == (namespace, name))
        return max(found, key=lambda pod: pod.created, default=None)

    def story(self, pod: PodFacts, *, why: bool = True, given: KubePod | None = None) -> Story:
        """
        Args:
            why: whether a refusal is to be explained, which takes its time.
            given: a pod that is not there, as its scheduler would see it.
        """
        requests, mirror = self._service.requests, self._service.mirror
        namespace = requests.namespace(pod.namespace)
        looked_at = tuple(considered(pod, namespace, requests.policies))
        request, ruling = requests.of(pod), requests.ruling(pod)
        node, grant = self._recorded(pod)
        decision, explanation = None, None
        if isinstance(request, InvalidRequest) and not mirror.fleet.any_enforced:
            request = replace(request, enforced=False)
        if isinstance(request, GpuRequest):
            snapshot = mirror.fleet.snapshot()
            for holding in {pod.node, node} - {""}:
                snapshot = snapshot.without(holding, (pod.uid,))
            barred = self._barred(pod, given or self._foresight.waiting(pod.uid)) if why else {}
            open_ = [name for name in mirror.fleet if name not in barred] if barred else None
            decision = decide(snapshot, request, open_)
            refused = isinstance(decision, Rejection) and why
            found = explain(snapshot, request, open_, self._asked_elsewhere, barred) if refused else None
            if isinstance(decision, Rejection) and found is not None:
                decision = replace(decision, code=found.code)
                explanation = replace(found, fixes=self._taken(pod, request, found.fixes))
        return Story(pod, ruling, looked_at, request, decision, explanation, grant, pod.uid in mirror.pods)

    def _barred(self, facts: PodFacts, pod: KubePod | None) -> dict[str, Refuses | Unsure]:
        """Nodes on which its scheduler would not put it, whatever their GPUs. Where nobody can tell, the scheduler can,
        but for pods that are sent for good."""
        if pod is None or not self._foresight.on:
            return {}
        others = tuple(each for each in pod.requests if each[0] not in self._resources)
        said = self._foresight.refusals(replace(pod, requests=others), list(self._service.mirror.fleet))
        sent = way_of(facts.gates) is Delivery.GATE
        return {node: answer for node, answer in said.items() if sent or isinstance(answer, Refuses)}

    def _asked_elsewhere(self, owner: Owner) -> tuple[GpuRequest, list[str]] | None:
        """What an owner asks for, and of which nodes, that somebody makes anew when it is taken away."""
        mirror = self._service.mirror
        pod = mirror.pods.get(owner.uid)
        request = self._service.requests.of(pod) if pod is not None and pod.occupant.controller else None
        if pod is None or not isinstance(request, GpuRequest):
            return None
        demanded = set(pod.origin.nodes)
        return request, [name for name in mirror.fleet if demanded <= set(mirror.nodes[name].labels)]

    def _taken(self, pod: PodFacts, request: GpuRequest, fixes: Iterable[Fix]) -> tuple[Fix, ...]:
        """Without what the pod cannot say: some rule or class fixes something else."""

        def holds(fix: Fix) -> bool:
            match fix:
                case Widen(scope):
                    said, wanted = {SCOPE: str(scope)}, replace(request, scopes=(scope,))
                case Loosen():
                    said, wanted = {POLICY: str(Policy.PREFERRED)}, loosened(request)
                case _:
                    return True
            asked = replace(pod, ask=replace(pod.ask, annotations={**pod.ask.annotations, **said}))
            judged = self._service.requests.judge(asked).request
            if not isinstance(judged, GpuRequest) or judged.degrade_after_s:
                return False
            return (judged.policy, judged.scopes) == (wanted.policy, wanted.scopes)

        return tuple(fix for fix in fixes if holds(fix))

    def remains(self, bystanders: Iterable[PodFacts] = ()) -> Remains:
        """What would be left here without Atoll; which objects were applied, somebody else knows.

        Args:
            bystanders: pods that ask for no GPU and depend on it all the same.
        """
        mirror = self._service.mirror
        others = (pod for pod in bystanders if pod.uid not in mirror.pods and not holds_nothing(pod))
        left = sorted((*self.pods, *others), key=lambda pod: (pod.namespace, pod.name))
        configs = sorted(mirror.pools.objects.values(), key=lambda config: config.name)
        return Remains(
            pools=tuple(
                Pool(each.name, each.enforcement is Enforcement.ENFORCE, each.mode is NodeMode.COMMAND)
                for each in configs
            ),
            pods=tuple(self._left(pod) for pod in left),
            shims=tuple(sorted(mirror.shims)),
        )

    def _left(self, pod: PodFacts) -> PodLeft:
        node, grant = self._recorded(pod)
        request = self._service.requests.of(pod)
        sent = pod.pinned if grant and grant.pins and node == pod.pinned and not (pod.node or pod.gated) else ""
        told = ": ".join(pod.placed or ())
        return PodLeft(
            namespace=pod.namespace,
            name=pod.name,
            since=pod.created,
            gpus=pod_gpus(pod),
            gates=pod.gates,
            scheduler=pod.scheduler,
            node=pod.node,
            sent=sent,
            restricted=isinstance(request, GpuRequest) and request.promised is Policy.RESTRICTED,
            granted=grant is not None,
            owner=pod.occupant.controller,
            why="" if pod.node else pod.unschedulable if sent else told or pod.unschedulable,
        )

    def under(self, policies: Iterable[PolicyObject]) -> list[Change]:
        """The pods that would be decided otherwise if these policies decided, each beside what is there.

        Raises:
            AtollError: one of them would not be accepted.
        """
        pods, requests = self.pods, self._service.requests
        before = [self.story(pod, why=False) for pod in pods]
        known = {policy.name: policy for policy in requests.objects}
        tried = [_deciding(policy) for policy in policies]
        for policy in tried:
            self._service.step(PolicySeen(policy), 0.0)
            if problems := requests.problems(policy):
                raise AtollError(f"PlacementPolicy {policy.name} would not be accepted: {'; '.join(problems)}")
        after = [self.story(pod, why=False) for pod in pods]
        for policy in tried:
            old = known.get(policy.name)
            self._service.step(PolicySeen(old) if old else PolicyGone(policy.name), 0.0)
        changes = (Change(one, other) for one, other in zip(before, after, strict=True))
        return [change for change in changes if _outcome(change.before) != _outcome(change.after)]

    def _recorded(self, pod: PodFacts) -> tuple[str, Grant | None]:
        mirror = self._service.mirror
        found = ((node, mirror.record(node).of(pod.uid)) for node in mirror.granted_nodes(pod.uid))
        return next(((node, grant) for node, grant in found if grant and pod.node in ("", node)), ("", None))


def _outcome(story: Story) -> object:
    """What differs between two stories that are worth telling."""
    request, decision = story.request, story.decision
    asked = replace(request, containers=()) if isinstance(request, GpuRequest) else request
    match decision:
        case Placement():
            return asked, decision.node, decision.containers, decision.fit.degraded
        case Rejection():
            return asked, decision.code
        case None:
            return asked


def _deciding(policy: PolicyObject) -> PolicyObject:
    declared = policy.declared
    spec = replace(declared.spec, enforcement=Enforcement.ENFORCE)
    return replace(policy, declared=replace(declared, spec=spec), status=None)
