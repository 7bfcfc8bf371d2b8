"""The plan of removal: what is done first, who is let out by what, and what is left alone."""

import json

import pytest

from atoll.core.delivery import PLACEMENT, WAITING
from atoll.core.removal import Applied, Gates, PodLeft, Pool, Remains, Step, StepName, removal

OURS = "atoll-scheduler"
GATES = "gates.atoll.dev"
FOREIGN = "kueue.x-k8s.io/admission"
BINDINGS, POLICIES = "validatingadmissionpolicybindings", "validatingadmissionpolicies"
OBJECTS = (
    Applied("roles", "atoll-election", "kube-system"),
    Applied("clusterroles", "atoll"),
    Applied("clusterrolebindings", "atoll"),
    Applied("serviceaccounts", "atoll", "kube-system"),
    Applied("leases", "atoll", "kube-system"),
    Applied("customresourcedefinitions", "gpuledgers.atoll.dev"),
    *(Applied(kind, f"{name}.atoll.dev") for kind in (POLICIES, BINDINGS) for name in ("ledgers", "gates")),
    Applied("daemonsets", "atoll-shim", "kube-system"),
    Applied("validatingwebhookconfigurations", "atoll"),
    Applied("mutatingwebhookconfigurations", "atoll"),
)
EVERYTHING = Remains(
    OBJECTS,
    pools=(Pool("first", enforced=True, commanded=False), Pool("commanded", enforced=True, commanded=True)),
    pods=(
        PodLeft("a", "runs", node="n1", granted=True),
        PodLeft("a", "sent", sent="n1", granted=True),
        PodLeft("b", "queued", scheduler=OURS),
        PodLeft("b", "room", scheduler=OURS, gates=(WAITING,)),
        PodLeft("c", "gate", gates=(PLACEMENT,), restricted=True),
        PodLeft("c", "both", gates=(FOREIGN, PLACEMENT)),
    ),
    shims=("n2",),
    gate_policy=GATES,
)


def plan(remains: Remains = EVERYTHING, gates: Gates = Gates.LIFT) -> dict[StepName, Step]:
    return {step.name: step for step in removal(remains, gates, OURS)}


def commands(step: Step) -> list[str]:
    return [" ".join(command) for command in step.commands]


def pods(step: Step) -> list[str]:
    return [pod.name for pod in step.pods]


def test_a_cluster_without_atoll_has_nothing_to_be_done() -> None:
    assert removal(Remains(), Gates.LIFT, OURS) == ()


def test_pods_are_let_out_after_the_webhook_is_gone_and_before_their_scheduler_is() -> None:
    assert list(plan()) == [
        StepName.REGISTRATIONS,
        StepName.POOLS,
        StepName.GATES,
        StepName.SENT,
        StepName.SCHEDULER,
        StepName.PROCESSES,
        StepName.PLUGINS,
        StepName.NODES,
        StepName.RUNNING,
        StepName.ADMISSION,
        StepName.KINDS,
        StepName.LEASES,
        StepName.ACCESS,
    ]


def test_where_gates_are_kept_atoll_is_stopped_before_a_pool_is_in_shadow() -> None:
    """A service that runs would let the pods go."""
    names = list(plan(gates=Gates.KEEP))

    assert names[:4] == [StepName.REGISTRATIONS, StepName.PROCESSES, StepName.POOLS, StepName.GATES]
    assert sorted(names) == sorted(plan())


def test_a_gate_is_lifted_by_its_name_and_those_of_others_stay() -> None:
    step = plan()[StepName.GATES]

    assert pods(step) == ["room", "gate", "both"]
    lifting = [command for command in step.commands if "patch" in command]
    assert [(command[2], command[5]) for command in lifting] == [("b", "room"), ("c", "gate"), ("c", "both")]
    assert [json.loads(command[-1])["spec"]["schedulingGates"] for command in lifting] == [
        [{"$patch": "delete", "name": gate}] for gate in (WAITING, PLACEMENT, PLACEMENT)
    ]
    assert step.notes == (
        "1 of them is Restricted, which ends with the gate: from then on count decides",
        "1 of them is behind gates of others, too, which stay, and for which it goes on waiting",
        "the API server forgets gates.atoll.dev within seconds: run again what it refuses in that name",
    )


def test_the_policy_that_guards_a_gate_goes_before_the_gate_and_only_once() -> None:
    steps = plan()
    first = [f"kubectl delete {kind} {GATES} --ignore-not-found" for kind in (BINDINGS, POLICIES)]

    assert commands(steps[StepName.GATES])[:2] == first
    assert commands(steps[StepName.ADMISSION]) == [
        f"kubectl delete {kind} ledgers.atoll.dev --ignore-not-found" for kind in (BINDINGS, POLICIES)
    ]


def test_the_waiting_room_s_gate_is_guarded_by_no_policy() -> None:
    waiting = Remains(OBJECTS, pods=(PodLeft("b", "room", gates=(WAITING,)),), gate_policy=GATES)

    assert len(plan(waiting)[StepName.GATES].commands) == 1
    assert len(plan(waiting)[StepName.ADMISSION].commands) == 4


def test_gates_that_are_kept_are_listed_and_no_command_touches_them() -> None:
    steps = plan(gates=Gates.KEEP)

    assert pods(steps[StepName.GATES]) == ["room", "gate", "both"]
    assert steps[StepName.GATES].commands == ()
    assert "1 of them is for atoll-scheduler, and not bound then either" in steps[StepName.GATES].notes[-1]
    assert len(steps[StepName.ADMISSION].commands) == 4
    assert "whoever may update pods may lift atoll.dev/placement" in steps[StepName.ADMISSION].notes[0]


def test_a_pool_that_commands_its_shims_is_told_not_to_before_they_go() -> None:
    steps = plan()

    assert commands(steps[StepName.POOLS]) == [
        'kubectl patch gpunodeconfigs first --type merge -p {"spec":{"enforcement":"shadow"}}',
        'kubectl patch gpunodeconfigs commanded --type merge -p {"spec":{"enforcement":"shadow","mode":"observe"}}',
    ]
    assert steps[StepName.PLUGINS].nodes == ("n2",)
    assert commands(steps[StepName.NODES]) == ["kubectl -n kube-system delete daemonsets atoll-shim --ignore-not-found"]


def test_a_pool_in_shadow_is_left_as_it_is() -> None:
    assert StepName.POOLS not in plan(Remains(pools=(Pool("shadow", enforced=False, commanded=False),)))


def test_pods_that_name_our_scheduler_are_told_of_gated_or_not() -> None:
    step = plan()[StepName.SCHEDULER]

    assert pods(step) == ["queued", "room"]
    assert step.commands == ()
    assert "delete it, and have it made anew with another schedulerName" in step.by_hand[0]


def test_pods_that_run_are_named_and_nothing_is_done_to_them() -> None:
    step = plan()[StepName.RUNNING]

    assert (pods(step), step.commands, step.by_hand) == (["runs"], (), ())
    assert not any("runs" in command for each in plan().values() for command in each.commands)


@pytest.mark.parametrize(("why", "by_hand"), [("", 0), ("0/1 nodes are available", 1)])
def test_a_pod_that_was_sent_and_refused_has_to_be_deleted_by_hand(why: str, by_hand: int) -> None:
    sent = Remains(pods=(PodLeft("a", "sent", sent="n1", granted=True, why=why),))

    assert len(plan(sent)[StepName.SENT].by_hand) == by_hand


def test_accounts_go_before_the_bindings_by_which_they_are_found() -> None:
    assert commands(plan()[StepName.ACCESS]) == [
        "kubectl -n kube-system delete serviceaccounts atoll --ignore-not-found",
        "kubectl delete clusterrolebindings atoll --ignore-not-found",
        "kubectl delete clusterroles atoll --ignore-not-found",
        "kubectl -n kube-system delete roles atoll-election --ignore-not-found",
    ]
