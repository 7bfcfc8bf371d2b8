"""What is to be done, in which order, so that nothing is stuck once Atoll is gone.

Values in, a plan out: what one look has shown becomes steps, each with its commands, the pods that it concerns, and
what only a hand can do. The order is the point of it. Nobody new may come in before those who wait are let out; pods
are let out while whoever binds them is still there; and the books go last, when nobody writes them any more.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from atoll.core.delivery import OURS, PLACEMENT

Command = tuple[str, ...]
"""The words of a call of kubectl."""


class Gates(StrEnum):
    """What becomes of pods behind our gates."""

    LIFT = "lift"
    KEEP = "keep"


class StepName(StrEnum):
    """The spelling is that of the printed document, and API."""

    REGISTRATIONS = "registrations"
    POOLS = "pools"
    GATES = "gates"
    SENT = "sent"
    SCHEDULER = "scheduler"
    PROCESSES = "processes"
    PLUGINS = "plugins"
    NODES = "nodes"
    RUNNING = "running"
    ADMISSION = "admission"
    KINDS = "kinds"
    LEASES = "leases"
    ACCESS = "access"


@dataclass(frozen=True, slots=True)
class Applied:
    """An object of an installation.

    Attributes: kind: the resource as kubectl takes it.
    """

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """A `GPUNodeConfig`, as far as it keeps nodes from their old ways."""

    name: str
    enforced: bool
    commanded: bool


@dataclass(frozen=True, slots=True)
class PodLeft:
    """A pod that Atoll has to do with.

    Attributes:
        since: when it was made, as the API says.
        gates: names of its scheduling gates, those of others too.
        node: that it is on. sent: that it was sent to and is not on yet. Both "" = none.
        restricted: whether it is promised a whole domain.
        owner: Kind/name of who makes it anew, "" = nobody.
        why: what it was last told of its waiting; of one that was sent, what its scheduler says against the node.
    """

    namespace: str
    name: str
    since: str = ""
    gpus: int = 0
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    node: str = ""
    sent: str = ""
    restricted: bool = False
    granted: bool = False
    owner: str = ""
    why: str = ""

    @property
    def ours(self) -> tuple[str, ...]:
        """Our gates on it."""
        return tuple(gate for gate in self.gates if gate in OURS)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(gate for gate in self.gates if gate not in OURS)


@dataclass(frozen=True, slots=True)
class Remains:
    """What is there of Atoll.

    Attributes:
        objects: in no order. pods: by namespace and name.
        shims: nodes on which a shim stands before the device plugin.
        gate_policy: name of the admission policy by which nobody else lifts `atoll.dev/placement`.
    """

    objects: tuple[Applied, ...] = ()
    pools: tuple[Pool, ...] = ()
    pods: tuple[PodLeft, ...] = ()
    shims: tuple[str, ...] = ()
    gate_policy: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, before the next.

    Attributes:
        notes: what is to be known of it. by_hand: what no printed command does.
        commands: to be run in this order; each may be run again.
    """

    name: StepName
    title: str
    notes: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    pods: tuple[PodLeft, ...] = ()
    nodes: tuple[str, ...] = ()


def removal(remains: Remains, gates: Gates, scheduler: str) -> tuple[Step, ...]:
    """The steps, in their order; those in which nothing is to be done or known are left out.

    Args:
        scheduler: the name of the scheduler that goes with Atoll.
    """
    stopping = _processes(remains, scheduler)
    # In shadow, a service that runs lets go of whom it holds: pods that are to stay must not live to see both.
    first, later = ((stopping,), ()) if gates is Gates.KEEP else ((), (stopping,))
    steps = (
        _registrations(remains),
        *first,
        _pools(remains),
        _gates(remains, gates, scheduler),
        _sent(remains),
        _scheduler(remains, gates, scheduler),
        *later,
        _plugins(remains),
        _nodes(remains),
        _running(remains),
        _admission(remains, gates),
        _kinds(remains),
        _leases(remains),
        _access(remains),
    )
    return tuple(step for step in steps if step is not None)


def _registrations(remains: Remains) -> Step | None:
    return _deleting(
        remains,
        StepName.REGISTRATIONS,
        "take the webhook out, so that no new pod is gated, given our scheduler, or refused",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    )


def _pools(remains: Remains) -> Step | None:
    found = [pool for pool in remains.pools if pool.enforced or pool.commanded]
    if not found:
        return None
    return Step(
        StepName.POOLS,
        "switch the pools to shadow, where every pod passes",
        ("pods that run keep what they have; a Restricted pod that waits is promised nothing from here on",),
        commands=tuple(_to_shadow(pool) for pool in found),
    )


def _to_shadow(pool: Pool) -> Command:
    spec = {"enforcement": "shadow", **({"mode": "observe"} if pool.commanded else {})}
    return ("kubectl", "patch", "gpunodeconfigs", pool.name, "--type", "merge", "-p", _json({"spec": spec}))


def _gates(remains: Remains, gates: Gates, scheduler: str) -> Step | None:
    found = tuple(pod for pod in remains.pods if pod.ours)
    if not found:
        return None
    if gates is Gates.KEEP:
        notes = (*_of_others(found), _until_later(found, scheduler))
        return Step(StepName.GATES, "the pods behind our gates stay there, as was chosen", notes, pods=found)
    guards = _gate_policy(remains)
    moment = f"the API server forgets {remains.gate_policy} within seconds: run again what it refuses in that name"
    notes = (*_promises(found), *_of_others(found), *((moment,) if guards else ()))
    return Step(StepName.GATES, "lift our gates", notes, commands=(*guards, *map(_lifting, found)), pods=found)


def _promises(pods: Sequence[PodLeft]) -> Iterator[str]:
    if losing := sum(pod.restricted for pod in pods):
        yield f"{_of_them(losing)} Restricted, which ends with the gate: from then on count decides"


def _of_others(pods: Sequence[PodLeft]) -> Iterator[str]:
    if held := sum(bool(pod.others) for pod in pods):
        yield f"{_of_them(held)} behind gates of others, too, which stay, and for which it goes on waiting"


def _until_later(pods: Sequence[PodLeft], scheduler: str) -> str:
    stuck = sum(pod.scheduler == scheduler for pod in pods)
    then = f"{_of_them(stuck)} for {scheduler}, and not bound then either" if stuck else "any scheduler binds it then"
    return f"each waits until somebody lifts its gate, and nobody is left who does; {then}"


def _gate_policy(remains: Remains) -> tuple[Command, ...]:
    """While that policy is there, nobody but the scheduler side may lift `atoll.dev/placement`."""
    if not any(PLACEMENT in pod.gates for pod in remains.pods):
        return ()
    kinds = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
    named = [each for each in remains.objects if each.kind in kinds and each.name == remains.gate_policy]
    return tuple(_delete(each) for each in sorted(named, key=lambda each: kinds.index(each.kind)))


def _lifting(pod: PodLeft) -> Command:
    # Merged by name, so that it takes ours alone, says nothing of a gate that is off already, and may be run again.
    gates = [{"$patch": "delete", "name": gate} for gate in pod.ours]
    patch = _json({"spec": {"schedulingGates": gates}})
    return ("kubectl", "-n", pod.namespace, "patch", "pods", pod.name, "--type", "strategic", "-p", patch)


def _sent(remains: Remains) -> Step | None:
    found = tuple(pod for pod in remains.pods if pod.sent)
    if not found:
        return None
    refused = sum(bool(pod.why) for pod in found)
    hand = f"{_of_them(refused)} refused there by its own scheduler: delete it, and have it made anew"
    return Step(
        StepName.SENT,
        "let the pods that were sent to a node be bound",
        ("the scheduler that it names binds it without Atoll; none of them goes to another node",),
        (hand,) * bool(refused),
        pods=found,
    )


def _scheduler(remains: Remains, gates: Gates, scheduler: str) -> Step | None:
    found = tuple(pod for pod in remains.pods if pod.scheduler == scheduler and not pod.node)
    if not found:
        return None
    anew = f"delete it, and have it made anew with another schedulerName than {scheduler}"
    wait = "wait until they are bound, and look again; " if gates is Gates.LIFT else ""
    return Step(
        StepName.SCHEDULER,
        f"pods that name {scheduler} and are not bound: without it they wait for ever",
        ("a pod's schedulerName cannot be changed; where its owner's template says it, change it there",),
        (f"{wait}whoever is left: {anew}",),
        pods=found,
    )


def _processes(remains: Remains, scheduler: str) -> Step | None:
    if not remains.objects:
        return None
    one = "where the extender was written into the cluster's only kube-scheduler, take it out there and start that anew"
    return Step(
        StepName.PROCESSES,
        "stop Atoll's processes",
        ("pods that run are not touched by that",),
        (f"{one}; then stop every `atoll serve`, and the kube-scheduler {scheduler}",),
    )


def _plugins(remains: Remains) -> Step | None:
    if not remains.shims:
        return None
    return Step(
        StepName.PLUGINS,
        "put the device plugin back in front of the kubelet",
        ("the shim goes after that: a plugin behind a shim that is gone offers no GPUs",),
        ("in its DaemonSet's volume, make /var/lib/atoll/device-plugins /var/lib/kubelet/device-plugins again",),
        nodes=remains.shims,
    )


def _nodes(remains: Remains) -> Step | None:
    return _deleting(remains, StepName.NODES, "take agents and shims off the nodes", ("daemonsets",))


def _running(remains: Remains) -> Step | None:
    found = tuple(pod for pod in remains.pods if pod.node and pod.granted)
    title = "pods that run with a grant: nothing happens to them, and nothing is to be done"
    return Step(StepName.RUNNING, title, pods=found) if found else None


def _admission(remains: Remains, gates: Gates) -> Step | None:
    free = f"from here on whoever may update pods may lift {PLACEMENT}"
    kept = gates is Gates.KEEP and any(PLACEMENT in pod.gates for pod in remains.pods)
    return _deleting(
        remains,
        StepName.ADMISSION,
        "delete the admission policies",
        ("validatingadmissionpolicybindings", "validatingadmissionpolicies"),
        (free,) * kept,
        done=() if gates is Gates.KEEP else _gate_policy(remains),
    )


def _kinds(remains: Remains) -> Step | None:
    return _deleting(
        remains,
        StepName.KINDS,
        "delete the kinds, and with them every ledger, inventory, pool and placement policy",
        ("customresourcedefinitions",),
        ("from here on nothing says who was given which GPUs; save first what is to be kept",),
    )


def _leases(remains: Remains) -> Step | None:
    return _deleting(remains, StepName.LEASES, "delete the Leases, which nobody renews any more", ("leases",))


def _access(remains: Remains) -> Step | None:
    return _deleting(
        remains,
        StepName.ACCESS,
        "delete accounts and roles",
        # Accounts are found by the bindings that name them, so they go before these.
        ("serviceaccounts", "clusterrolebindings", "rolebindings", "clusterroles", "roles"),
        ("keep an account as which something else runs, too",),
    )


def _deleting(
    remains: Remains,
    name: StepName,
    title: str,
    kinds: Sequence[str],
    notes: tuple[str, ...] = (),
    *,
    done: tuple[Command, ...] = (),
) -> Step | None:
    """What there is of these kinds, in their order.

    Args:
        done: what an earlier step has deleted.
    """
    found = sorted(
        (each for each in remains.objects if each.kind in kinds),
        key=lambda each: (kinds.index(each.kind), each.namespace, each.name),
    )
    commands = tuple(command for each in found if (command := _delete(each)) not in done)
    return Step(name, title, notes, commands=commands) if commands else None


def _delete(found: Applied) -> Command:
    where = ("-n", found.namespace) if found.namespace else ()
    return ("kubectl", *where, "delete", found.kind, found.name, "--ignore-not-found")


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _of_them(count: int) -> str:
    return f"{count} of them {'is' if count == 1 else 'are'}"
