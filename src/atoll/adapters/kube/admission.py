"""Who may write what Atoll answers, as admission policies that the API server evaluates itself.

Roles say which kinds an account writes; they cannot say "its own node's object" or "this annotation", and they are
often wider than they should be. What is prevented then:

- A stranger edits a `GPULedger`, and a GPU is granted twice or its node closed. Only the scheduler side writes them.
- A pod claims a grant that it never got, or loses sight of its own, for whoever reads annotations: by its template, an
  update, its status, or a Binding. Only the scheduler side sets, changes or removes what Atoll answers.
- Somebody lifts the gate of a pod that waits to be sent to its node, and any scheduler puts it anywhere. Only the
  scheduler side lifts it.
- Somebody puts a placement policy in force that nobody accepted, by its status. Only the scheduler side writes that.
- One node that was broken into speaks for all: with its agent's token it tells other nodes' GPUs, or that a dead agent
  lives. An agent writes the objects of the node that its token names, and deletes none; a shim, its Lease alone.

Not prevented: whoever gets a token of the scheduler side, may impersonate it, or runs pods under these accounts.

Two things pass on purpose. Whoever may delete the *kind* of ledgers may delete one and write its metadata, since that
right takes all of them away without asking here: an administrator who repairs a node or removes Atoll, and the garbage
collector. And pods that carry none of our answers are set aside by a condition before any rule is looked at, so that
no rule, not even a broken one, can hold them up. Failing closed is safe for pods with that: nothing outside the API
server is asked, and the conditions cannot fail, since they read what may be absent as an option.
"""

import json

from atoll.adapters.kube.manifests import NAMESPACE, SERVICE_ACCOUNT, Manifest
from atoll.adapters.kube.manifests_agent import AGENT_ACCOUNT
from atoll.adapters.kube.manifests_shim import SHIM_ACCOUNT
from atoll.adapters.kube.manifests_webhook import rule_of
from atoll.adapters.kube.names import ANSWERED, GROUP, agent_lease, shim_lease
from atoll.core.delivery import PLACEMENT

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""In the tokens that the kubelet fetches for a pod: the node that the pod is on."""

LEDGERS, ANSWERS, GATES, POLICIES, AGENTS, SHIMS = (
    f"{whose}.{GROUP}" for whose in ("ledgers", "answers", "gates", "policies", "agents", "shims")
)
_API_VERSION = "admissionregistration.k8s.io/v1"
_WRITES = ["CREATE", "UPDATE", "DELETE"]
_USER = "request.userInfo.?username.orValue('')"
_MAY_DELETE_THE_KIND = (
    "authorizer.group('apiextensions.k8s.io').resource('customresourcedefinitions')"
    f".name('gpuledgers.{GROUP}').check('delete').allowed()"
)


def admission(
    namespace: str = NAMESPACE,
    service_account: str = SERVICE_ACCOUNT,
    agent_account: str = AGENT_ACCOUNT,
    shim_account: str = SHIM_ACCOUNT,
) -> list[Manifest]:
    """The policies, each with the binding that puts it in force everywhere.

    Args:
        namespace: of both accounts, and of the agents' Leases.
        service_account: as which `atoll serve` runs.
        agent_account, shim_account: as which agents and shims run; others than the scheduler side's.
    """
    scheduler_side, agent, shim = (
        _user(namespace, account) for account in (service_account, agent_account, shim_account)
    )
    policies = [
        _ledgers(scheduler_side),
        _answers(scheduler_side),
        _gates(scheduler_side),
        _policy_statuses(scheduler_side),
        _agents(namespace, agent),
        _shims(namespace, shim),
    ]
    return [each for policy in policies for each in (policy, _in_force(policy))]


def _ledgers(scheduler_side: str) -> Manifest:
    allowed = (
        "request.operation != 'CREATE' && (request.operation == 'DELETE' || object.?spec == oldObject.?spec) && "
        + _MAY_DELETE_THE_KIND
    )
    message = (
        f"only {scheduler_side} writes GPULedgers; who may delete their kind may delete one, and edit its metadata"
    )
    return _policy(
        LEDGERS,
        rules=[rule_of(GROUP, ["gpuledgers", "gpuledgers/*"], _WRITES)],
        conditions={"not-the-scheduler-side": f"{_USER} != {_text(scheduler_side)}"},
        validations=[_validation(allowed, message)],
    )


def _answers(scheduler_side: str) -> Manifest:
    keys = _text(sorted(ANSWERED))
    # A Binding's annotations become the pod's. Subresources that are new one day are covered from their first.
    written = [
        rule_of("", ["pods", "pods/*"], ["CREATE", "UPDATE"]),
        rule_of("", ["bindings"], ["CREATE"]),
    ]
    answered = (
        f"[object, oldObject].exists(each, each != null && "
        f"{keys}.exists(key, key in each.?metadata.?annotations.orValue({{}})))"
    )
    unchanged = f"{keys}.all(key, variables.after[?key] == variables.before[?key])"
    message = f"only {scheduler_side} sets, changes or removes {' and '.join(sorted(ANSWERED))}; leave them as they are"
    return _policy(
        ANSWERS,
        rules=written,
        conditions={"answered": answered, "not-the-scheduler-side": f"{_USER} != {_text(scheduler_side)}"},
        variables={"before": _annotations("oldObject"), "after": _annotations("object")},
        validations=[_validation(unchanged, message)],
    )


def _gates(scheduler_side: str) -> Manifest:
    gated = f".?spec.?schedulingGates.orValue([]).exists(gate, gate.name == {_text(PLACEMENT)})"
    return _policy(
        GATES,
        rules=[rule_of("", ["pods"], ["UPDATE"])],
        conditions={"gated": f"oldObject{gated}", "not-the-scheduler-side": f"{_USER} != {_text(scheduler_side)}"},
        validations=[_validation(f"object{gated}", f"only {scheduler_side} lifts the gate {PLACEMENT}")],
    )


def _policy_statuses(scheduler_side: str) -> Manifest:
    return _policy(
        POLICIES,
        rules=[rule_of(GROUP, ["placementpolicies/status"], ["UPDATE"])],
        conditions={"not-the-scheduler-side": f"{_USER} != {_text(scheduler_side)}"},
        validations=[_validation("false", f"only {scheduler_side} says which placement policy is in force")],
    )


def _agents(namespace: str, agent: str) -> Manifest:
    lease = f"{namespace}/{agent_lease('')}"
    return _of_one_node(
        AGENTS,
        "agent",
        agent,
        rules=[rule_of(GROUP, ["gpunodes", "gpunodes/*"], _WRITES)],
        own=f"(request.resource.resource == 'leases' ? {_text(lease)} : '/') + variables.node",
        only="the GPUNode and the Lease",
        said=f"' writes only the GPUNode ' + variables.node + ' and the Lease ' + {_text(lease)} + variables.node",
    )


def _shims(namespace: str, shim: str) -> Manifest:
    lease = f"{namespace}/{shim_lease('')}"
    return _of_one_node(
        SHIMS,
        "shim",
        shim,
        rules=[],
        own=f"{_text(lease)} + variables.node",
        only="the Lease",
        said=f"' writes only the Lease ' + {_text(lease)} + variables.node",
    )


def _of_one_node(
    policy: str, what: str, user: str, *, rules: list[Manifest], own: str, only: str, said: str
) -> Manifest:
    """Whoever has this account writes what belongs to the node that his token names, and deletes nothing.

    Args:
        rules: beside Leases. own: namespace and name of what he may write. only: the same for people. said: how a
            refusal goes on after naming him.
    """
    return _policy(
        policy,
        rules=[*rules, rule_of("coordination.k8s.io", ["leases"], _WRITES)],
        conditions={f"{'an' if what == 'agent' else 'a'}-{what}": f"{_USER} == {_text(user)}"},
        variables={
            "node": f"request.userInfo.?extra[?{_text(NODE_CLAIM)}][?0].orValue('')",
            "own": own,
            "written": "request.?namespace.orValue('') + '/' + (object == null ? '' : object.metadata.name)",
        },
        validations=[
            _validation("variables.node != ''", f"the {what}'s token names no node: use the one that its pod is given"),
            _validation("request.operation != 'DELETE'", f"the {what} of a node deletes nothing"),
            _validation(
                "variables.written == variables.own",
                f"the {what} of a node writes only {only} of its own node",
                said=f"'the {what} of node ' + variables.node + {said}",
            ),
        ],
    )


def _policy(
    name: str,
    *,
    rules: list[Manifest],
    conditions: dict[str, str],
    validations: list[Manifest],
    variables: dict[str, str] | None = None,
) -> Manifest:
    named = {
        "matchConditions": [{"name": condition, "expression": text} for condition, text in conditions.items()],
        "variables": [{"name": variable, "expression": text} for variable, text in (variables or {}).items()],
    }
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            **{field: entries for field, entries in named.items() if entries},
            "validations": validations,
        },
    }


def _in_force(policy: Manifest) -> Manifest:
    name = policy["metadata"]["name"]
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def _validation(expression: str, message: str, *, said: str = "") -> Manifest:
    told = {"message": message, **({"messageExpression": said} if said else {})}
    return {"expression": expression, **told, "reason": "Forbidden"}


def _annotations(whose: str) -> str:
    return f"{whose} == null ? {{}} : {whose}.?metadata.?annotations.orValue({{}})"


def _user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def _text(value: str | list[str]) -> str:
    """As CEL writes it, which is as JSON does."""
    return json.dumps(value)
