"""What the API server is answered when pods and workloads with GPUs are written."""

import base64
import json
import time
from typing import Any

import pytest

from atoll.core.delivery import Delivery
from atoll.core.events import Event, NamespaceSeen, PolicySeen
from atoll.core.facts import Enforcement, NodeConfigObject
from atoll.core.placement_policy import PolicyRule, Setting, Settings
from atoll.core.request import Policy, ServiceClass
from atoll.core.scope import Scope
from atoll.servers.webhook import BadReview, NotNow, Webhook, templates_in
from atoll.services.scheduling import Scheduling
from tests.services.stage import ENFORCED, Stage, inventory, node
from tests.services.test_study import policy, restricted

Json = dict[str, Any]
GPUS = ("nvidia.com/gpu",)
ML = NamespaceSeen("ml", (("team", "a"),))
SHADOW = NodeConfigObject("all", enforcement=Enforcement.SHADOW)


class Service:
    """A scheduling service as the webhook asks it."""

    def __init__(self, scheduling: Scheduling, missing: str = "") -> None:
        self._scheduling, self._missing = scheduling, missing
        self.review = scheduling.review

    def not_ready(self) -> str:
        return self._missing


def webhook(*events: Event, scheduler: str = "", config: NodeConfigObject = ENFORCED, missing: str = "") -> Webhook:
    """Two nodes of two islands of four, and a namespace of team a."""
    stage = Stage(node("n1"), inventory("n1"), node("n2"), inventory("n2"), ML, *events, config=config)
    return Webhook(Service(stage.service, missing), GPUS, scheduler)


def pod(gpus: int = 4, annotations: dict[str, str] | None = None, **spec: object) -> Json:
    metadata: Json = {"name": "p", "generateName": "p-"}
    if annotations is not None:
        metadata["annotations"] = annotations
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def review(found: Json | None) -> bytes:
    request = {"uid": "u1", "namespace": "ml", "operation": "CREATE", "object": found, "oldObject": None}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def said(answer: bytes) -> Json:
    told = json.loads(answer)
    assert (told["apiVersion"], told["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert told["response"]["uid"] == "u1"
    response: Json = told["response"]
    return response


def patched(hook: Webhook, found: Json) -> Json:
    """The pod as it is after the webhook's patch."""
    response = said(hook.mutate(review(found)).body)
    assert response["allowed"]
    result = json.loads(json.dumps(found))
    for step in json.loads(base64.b64decode(response["patch"])) if "patch" in response else ():
        *folders, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = result
        for folder in folders:
            place = place[folder]
        if step["op"] == "remove":
            del place[last]
        else:
            place[last] = step["value"]
    return result


def validated(hook: Webhook, found: Json) -> tuple[str, list[str]]:
    """Why it is refused, "" where it is not, and the warnings."""
    response = said(hook.validate(review(found)).body)
    return ("" if response["allowed"] else response["status"]["message"]), response.get("warnings", [])


# What is filled in.


def test_the_rule_that_holds_is_written_into_the_pod_with_its_name() -> None:
    settings = Settings(policy=Policy.RESTRICTED, scopes=(Scope.NUMA_NODE,), service_class=ServiceClass.BATCH)
    hook = webhook(PolicySeen(policy("training", PolicyRule("all", settings=settings))))

    assert patched(hook, pod())["metadata"]["annotations"] == {
        "atoll.dev/policy": "Restricted",
        "atoll.dev/scope": "NUMANode",
        "atoll.dev/ruled": "training/all: policy=Restricted;scope=NUMANode",
    }


def test_what_a_pod_says_itself_stays() -> None:
    hook = webhook(PolicySeen(policy("training", restricted("all"))))

    annotations = patched(hook, pod(2, {"atoll.dev/policy": "Preferred", "mine": "x"}))["metadata"]["annotations"]

    assert annotations["atoll.dev/policy"] == "Preferred"
    assert annotations["atoll.dev/ruled"] == "training/all: scope=NUMANode,Socket,Node"
    assert annotations["mine"] == "x"


def test_a_second_call_changes_nothing_and_a_copy_of_a_pod_is_ruled_anew() -> None:
    hook = webhook(PolicySeen(policy("training", restricted("all"))))
    once = patched(hook, pod(2))

    assert "patch" not in said(hook.mutate(review(once)).body)
    assert patched(webhook(), once) == pod(2, {})
    other = PolicyRule("soft", settings=Settings(policy=Policy.PREFERRED))
    copied = patched(webhook(PolicySeen(policy("other", other))), once)["metadata"]["annotations"]
    assert copied["atoll.dev/policy"] == "Preferred"
    assert copied["atoll.dev/ruled"] == "other/soft: policy=Preferred;scope=NUMANode,Socket,Node"


def test_without_a_policy_nothing_is_filled_in() -> None:
    assert patched(webhook(), pod()) == pod()


def test_a_pod_that_names_no_scheduler_gets_the_one_that_asks() -> None:
    hook = webhook(scheduler="atoll-scheduler")

    assert patched(hook, pod())["spec"]["schedulerName"] == "atoll-scheduler"
    assert patched(hook, pod(schedulerName="default-scheduler"))["spec"]["schedulerName"] == "atoll-scheduler"
    assert patched(hook, pod(schedulerName="volcano"))["spec"]["schedulerName"] == "volcano"
    assert "schedulerName" not in patched(hook, pod(nodeName="n1"))["spec"]
    assert validated(hook, pod(schedulerName="volcano"))[1] == [
        'atoll: schedulerName "volcano" binds this pod without Atoll; atoll-scheduler is the one that asks'
    ]


def delivered(delivery: Delivery) -> PolicySeen:
    return PolicySeen(policy("p", PolicyRule("r", settings=Settings(delivery=delivery))))


@pytest.mark.parametrize(
    ("delivery", "gate", "scheduler"),
    [
        (Delivery.EXTENDER, [], "atoll-scheduler"),
        (Delivery.WAITING_ROOM, [{"name": "atoll.dev/waiting"}], "atoll-scheduler"),
        (Delivery.GATE, [{"name": "atoll.dev/placement"}], None),
    ],
)
def test_a_pod_waits_as_its_policy_says_and_who_is_sent_to_his_node_keeps_his_scheduler(
    delivery: Delivery, gate: list[Json], scheduler: str | None
):
    hook = webhook(delivered(delivery), scheduler="atoll-scheduler")

    spec = patched(hook, pod())["spec"]

    assert (spec.get("schedulingGates", []), spec.get("schedulerName")) == (gate, scheduler)


def test_a_size_without_a_gang_is_warned_of():
    _, warnings = validated(webhook(), pod(2, {"atoll.dev/gang-size": "2"}))

    assert [each for each in warnings if "placed alone" in each]
    group = pod(2, {"atoll.dev/gang-size": "2", "scheduling.x-k8s.io/pod-group": "job"})
    assert not [each for each in validated(webhook(), group)[1] if "placed alone" in each]


def test_a_pod_that_names_its_node_is_warned_that_it_goes_past_atoll():
    _, warnings = validated(webhook(delivered(Delivery.GATE)), pod(nodeName="n1"))

    assert [each for each in warnings if "goes past Atoll" in each]


def test_who_waits_to_be_sent_is_warned_where_nobody_may_bind_him_then():
    hook = webhook(delivered(Delivery.GATE), scheduler="atoll-scheduler")

    assert not [each for each in validated(hook, pod())[1] if "must bind it" in each]
    assert [each for each in validated(hook, pod(schedulerName="foo"))[1] if "must bind it" in each]


def test_a_refusal_stands_alone():
    refused, warnings = validated(
        webhook(scheduler="atoll-scheduler"), pod(2, {"atoll.dev/policy": "x"}, schedulerName="foo")
    )

    assert refused.startswith("InvalidRequest")
    assert warnings == []


def test_who_would_wait_for_a_patch_that_nobody_sends_is_warned():
    _, warnings = validated(webhook(delivered(Delivery.GATE)), pod())

    assert [each for each in warnings if "`atoll serve --gate`" in each]


def test_a_gate_comes_beside_those_of_others_and_never_twice():
    hook = webhook(delivered(Delivery.GATE))
    kueue = {"name": "kueue.x-k8s.io/admission"}

    once = patched(hook, pod(schedulingGates=[kueue]))

    assert once["spec"]["schedulingGates"] == [kueue, {"name": "atoll.dev/placement"}]
    assert patched(hook, once) == once


def test_nobody_is_gated_who_names_his_node_asks_for_no_gpu_or_where_no_pool_is_enforced():
    hook, shadow = webhook(delivered(Delivery.GATE)), webhook(delivered(Delivery.GATE), config=SHADOW)

    assert "schedulingGates" not in patched(hook, pod(nodeName="n1"))["spec"]
    assert "schedulingGates" not in patched(hook, pod(0))["spec"]
    assert "schedulingGates" not in patched(shadow, pod())["spec"]


def test_a_pod_without_gpus_is_left_alone_whatever_it_says() -> None:
    hook = webhook(scheduler="atoll-scheduler", missing="nodes")
    plain = pod(0, {"atoll.dev/polcy": "x"})

    assert patched(hook, plain) == plain
    assert validated(hook, plain) == ("", [])


def test_what_an_earlier_rule_wrote_yields_to_what_is_fixed_now_and_what_a_pod_wrote_does_not() -> None:
    fixed = PolicyRule("all", settings=Settings(policy=Policy.RESTRICTED), may_override=frozenset({Setting.SCOPE}))
    hook = webhook(PolicySeen(policy("strict", fixed)))

    assert validated(
        hook, pod(2, {"atoll.dev/policy": "Preferred", "atoll.dev/ruled": "old/all: policy=Preferred"})
    ) == ("", [])
    for ruled in ("old/all: scope=Node", "old/all: policy=Restricted", "policy", "old/all: policy", "=;=", ": ;"):
        refused = validated(hook, pod(2, {"atoll.dev/policy": "Preferred", "atoll.dev/ruled": ruled}))[0]
        assert "PlacementPolicy strict, rule all fixes it to Restricted" in refused


def test_an_edited_copy_of_a_pod_says_what_its_editor_says() -> None:
    hook = webhook(PolicySeen(policy("soft", PolicyRule("all", settings=Settings(policy=Policy.PREFERRED)))))
    copy = patched(hook, pod(4))
    copy["metadata"]["annotations"]["atoll.dev/policy"] = "Restricted"

    again = patched(hook, copy)["metadata"]["annotations"]

    assert again["atoll.dev/policy"] == "Restricted"
    copy["metadata"]["annotations"]["atoll.dev/policy"] = "Restrictedd"
    assert "did you mean Restricted?" in validated(hook, copy)[0]


def test_where_containers_are_judged_each_by_its_size_no_policy_is_said_of_the_pod() -> None:
    hook = webhook(PolicySeen(policy("each", PolicyRule("all", settings=Settings(per_container=True)))))

    annotations = patched(hook, pod(4))["metadata"]["annotations"]

    assert annotations["atoll.dev/per-container"] == "true"
    assert "atoll.dev/policy" not in annotations


def test_where_no_pool_is_enforced_nothing_is_changed() -> None:
    hook = webhook(PolicySeen(policy("training", restricted("all"))), scheduler="atoll-scheduler", config=SHADOW)

    assert patched(hook, pod(4)) == pod(4)


def test_a_pod_that_asks_for_no_gpu_by_name_is_left_alone() -> None:
    none = pod(1)
    none["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "0"}}

    assert patched(webhook(scheduler="atoll-scheduler"), none) == none


def test_of_a_namespace_that_is_not_known_wrong_words_are_refused_and_nothing_is_filled_in() -> None:
    hook = webhook(PolicySeen(policy("training", restricted("all"))))
    review_ = json.loads(review(pod(2, {"atoll.dev/polcy": "x"})))
    review_["request"]["namespace"] = "new"
    body = json.dumps(review_).encode()

    assert "did you mean atoll.dev/policy?" in said(hook.validate(body).body)["status"]["message"]
    review_["request"]["object"] = pod(
        2, {"atoll.dev/policy": "Restricted", "atoll.dev/ruled": "a/b: policy=Restricted"}
    )
    assert "patch" not in said(hook.mutate(json.dumps(review_).encode()).body)


def test_very_many_annotations_take_no_time() -> None:
    many = {f"aoll.dex{n}/k{n}": "x" for n in range(60_000)}

    started = time.monotonic()
    validated(webhook(), pod(annotations=many))

    assert time.monotonic() - started < 5


# What is refused and warned of.


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"atoll.dev/policy": "Strict"}, "atoll.dev/policy: found"),
        ({"atoll.dev/polcy": "Restricted"}, "did you mean atoll.dev/policy?"),
        ({"atoll.dev/scopes": "Node"}, "did you mean atoll.dev/scope?"),
        ({"atoll.dev/colour": "red"}, "there are atoll.dev/policy, atoll.dev/scope"),
        ({"atoll.dev/service-class": "gold"}, "legal are shared, latency, batch"),
    ],
)
def test_a_wrong_word_is_refused_where_a_pool_enforces_and_warned_of_where_none_does(
    annotations: dict[str, str], why: str
) -> None:
    refused, _ = validated(webhook(), pod(annotations=annotations))
    told, warnings = validated(webhook(config=SHADOW), pod(annotations=annotations))

    assert refused.startswith("InvalidRequest: ")
    assert why in refused
    assert told == ""
    assert why in warnings[0]


def test_a_domain_that_is_nearly_ours_is_warned_of() -> None:
    for key in ("atol.dev/policy", "atoll.io/scope", "atoll.dev.io/polcy"):
        refused, warnings = validated(webhook(), pod(annotations={key: "Restricted"}))
        assert refused == ""
        assert "says nothing to Atoll; did you mean atoll.dev/" in warnings[0]
    for key in ("example.com/policy", "atoll.dev", "app", "atol.dev/colour"):
        assert validated(webhook(), pod(annotations={key: "x"})) == ("", [])


def test_what_no_node_can_ever_serve_is_warned_of_with_what_would_do() -> None:
    refused, (warning,) = validated(webhook(), pod(6, {"atoll.dev/scope": "NUMANode"}))

    assert refused == ""
    assert warning == (
        "atoll: no node can ever give 6 GPUs of one NUMANode; 4 GPUs would fit there, 6 GPUs fit scope Node"
    )
    assert "no node can ever give 16 GPUs" in validated(webhook(), pod(16))[1][0]
    assert validated(webhook(), pod(6)) == ("", [])


def test_a_cluster_without_known_nodes_says_nothing_of_sizes() -> None:
    assert validated(Webhook(Service(Stage(ML).service), GPUS, ""), pod(64)) == ("", [])


# Workloads.


def template(gpus: int, annotations: dict[str, str] | None = None) -> Json:
    made = pod(gpus, annotations)
    return {"metadata": {"annotations": annotations or {}}, "spec": made["spec"]}


WORKLOADS: dict[str, Json] = {
    "Deployment": {"spec": {"template": template(6, {"atoll.dev/scope": "NUMANode"})}},
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": template(6, {"atoll.dev/scope": "NUMANode"})}}}},
    "JobSet": {
        "spec": {
            "replicatedJobs": [
                {"name": "w", "template": {"spec": {"template": template(6, {"atoll.dev/scope": "NUMANode"})}}}
            ]
        }
    },
    "LeaderWorkerSet": {
        "spec": {"leaderWorkerTemplate": {"workerTemplate": template(6, {"atoll.dev/scope": "NUMANode"})}}
    },
    "PyTorchJob": {
        "spec": {"pytorchReplicaSpecs": {"Worker": {"template": template(6, {"atoll.dev/scope": "NUMANode"})}}}
    },
    "RayCluster": {"spec": {"workerGroupSpecs": [{"template": template(6, {"atoll.dev/scope": "NUMANode"})}]}},
    "Job": {"spec": {"tasks": [{"name": "t", "template": template(6, {"atoll.dev/scope": "NUMANode"})}]}},
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_is_warned_of_what_its_pods_would_be_told_and_left_as_it_is(kind: str) -> None:
    found = {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w"}, **WORKLOADS[kind]}

    refused, (warning,) = validated(webhook(), found)

    assert refused == ""
    assert "template: no node can ever give 6 GPUs of one NUMANode" in warning.replace("Template", "template")


def test_a_workload_whose_pods_will_be_refused_is_told_so_and_not_refused() -> None:
    found = {"kind": "Deployment", "spec": {"template": template(2, {"atoll.dev/policy": "strict"})}}

    refused, (warning,) = validated(webhook(), found)

    assert refused == ""
    assert "its pods will be refused: InvalidRequest: atoll.dev/policy" in warning


def test_a_template_with_nulls_and_numbers_is_read_like_any_other() -> None:
    found: Json = {"kind": "Deployment", "spec": {"template": template(6, {"atoll.dev/scope": "NUMANode"})}}
    found["spec"]["template"]["metadata"]["creationTimestamp"] = None
    found["spec"]["template"]["spec"] |= {"nodeName": None, "schedulerName": None}
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 0.5

    assert "no node can ever give 6 GPUs" in validated(webhook(), found)[1][0]


def test_templates_are_looked_for_in_bounds() -> None:
    deep: Json = {"spec": {"template": template(1)}}
    for _ in range(40):
        deep = {"more": deep}
    assert list(templates_in(deep)) == []
    assert len(list(templates_in({"all": [{"template": template(1)} for _ in range(1000)]}))) == 32
    assert list(templates_in({"spec": {"containers": []}})) == []


# Bodies that are none.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"u"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}',
        review(pod()).replace(b'"containers": [', b'"containers": [7, '),
        review(pod()).replace(b'"4"', b'"four"'),
        review(pod() | {"metadata": ["p"]}),
        review(pod() | {"metadata": {"annotations": {"atoll.dev/policy": 4}}}),
        review(pod() | {"spec": None}),
    ],
)
@pytest.mark.parametrize("verb", ["mutate", "validate"])
def test_a_body_that_is_no_review_of_a_pod_is_refused_in_one_line(verb: str, body: bytes) -> None:
    with pytest.raises(BadReview) as refused:
        getattr(webhook(), verb)(body)

    assert "\n" not in str(refused.value)


def test_a_review_without_an_object_is_allowed() -> None:
    assert said(webhook().validate(review(None)).body)["allowed"]
    assert said(webhook().mutate(review(None)).body)["allowed"]


def test_a_service_that_knows_nothing_yet_answers_nothing_of_pods_with_gpus() -> None:
    hook = webhook(missing="not listed yet: nodes")

    for verb in (hook.mutate, hook.validate):
        with pytest.raises(NotNow, match="NotReady: not listed yet: nodes"):
            verb(review(pod()))


def test_untrusted_words_come_back_printable_and_bounded() -> None:
    refused, _ = validated(webhook(), pod(annotations={"atoll.dev/policy": "\x1b[31m" + "A" * 5000}))
    assert refused.isprintable()
    assert len(refused) < 500
    many = {f"atoll.dev/{n}" + "x" * 300: "x" for n in range(500)}
    _, warnings = validated(webhook(config=SHADOW), pod(annotations=many))
    assert len(warnings) <= 12
    assert all(len(each) <= 256 for each in warnings)
