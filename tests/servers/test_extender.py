"""The wire of the extender, byte for byte, and every body that is not what kube-scheduler sends."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.core.facts import PodFacts
from atoll.core.fleet import FilterAnswer
from atoll.servers.extender import BadCall, Extender, NotReady, Reply
from tests.samples import examples
from tests.servers.calls import ToldScheduling, bind_body, filter_body, go_json, pod_json

RESOURCES = ("nvidia.com/gpu",)


def extender(scheduling: ToldScheduling | None = None) -> Extender:
    return Extender(scheduling or ToldScheduling(), RESOURCES)


def bind(body: bytes, scheduling: ToldScheduling | None = None) -> Reply:
    return asyncio.run(extender(scheduling).bind(body))


def error_of(reply: Reply) -> str:
    answer = json.loads(reply.body)
    assert list(answer) == ["Error"]
    assert reply.outcome == "error"
    return answer["Error"]


class Answering(ToldScheduling):
    def __init__(self, answer: FilterAnswer) -> None:
        super().__init__()
        self.answer = answer

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer:
        self.asked.append((pod, list(names)))
        return self.answer


def test_filter_answers_in_the_schedulers_own_keys() -> None:
    reply = extender().filter(filter_body(["n1", "n2", "n3"]))

    assert reply.body == (
        b'{"NodeNames":["n1","n3"],"FailedNodes":{"n2":"Fragmented: 4 free, 2+2"},'
        b'"FailedAndUnresolvableNodes":{},"Error":""}'
    )
    assert (reply.outcome, reply.refused) == ("passed", (("Fragmented: 4 free, 2+2", 1),))


def test_nodes_that_no_eviction_helps_are_told_apart() -> None:
    failed = [
        ("Fragmented: 4 free", ["a"]),
        ("NoDomainLargeEnough: largest is 2", ["b", "c"]),
        ("InvalidRequest: scope", ["d"]),
        ("InsufficientGPUs: 1 free", ["e", "f"]),
    ]

    reply = extender(Answering(FilterAnswer(passed=[], failed=failed))).filter(
        filter_body(["a", "b", "c", "d", "e", "f"])
    )

    assert json.loads(reply.body) == {
        "NodeNames": [],
        "FailedNodes": {"a": failed[0][0], "e": failed[3][0], "f": failed[3][0]},
        "FailedAndUnresolvableNodes": {"b": failed[1][0], "c": failed[1][0], "d": failed[2][0]},
        "Error": "",
    }
    assert reply.outcome == "refused"


def test_a_reason_is_escaped() -> None:
    answer = FilterAnswer(passed=[], failed=[('Fragmented: "x"\n\\', ["n1", "n2"])])

    reply = extender(Answering(answer)).filter(filter_body(["n1", "n2"]))

    assert json.loads(reply.body)["FailedNodes"] == {"n1": 'Fragmented: "x"\n\\', "n2": 'Fragmented: "x"\n\\'}


def test_the_pod_of_the_body_is_what_is_asked_about() -> None:
    scheduling = ToldScheduling()

    extender(scheduling).filter(filter_body(["n1"], pod_json(4, {"atoll.dev/policy": "Restricted", "team": "x"})))

    pod, names = scheduling.asked[0]
    assert (pod.namespace, pod.name, pod.version, names) == ("ml", "train-7", "4711", ["n1"])
    assert [(ask.name, ask.gpus) for ask in pod.ask.containers] == [("main", 4)]
    assert dict(pod.ask.annotations) == {"atoll.dev/policy": "Restricted"}


def test_a_forged_allocation_in_the_body_says_nothing() -> None:
    honest, forged = ToldScheduling(), ToldScheduling()
    allocation = json.dumps({"v": 1, "node": "n1", "containers": {"main": ["GPU-1", "GPU-2"]}, "uuidsKnown": True})

    plain = extender(honest).filter(filter_body(["n1", "n2"]))
    lied = extender(forged).filter(filter_body(["n1", "n2"], pod_json(4, {"atoll.dev/allocation": allocation})))

    assert plain.body == lied.body
    assert honest.asked == forged.asked


def test_a_pod_without_gpus_passes_untouched_even_before_atoll_is_ready() -> None:
    scheduling = ToldScheduling()
    scheduling.reason = "pods are not listed yet"

    reply = extender(scheduling).filter(filter_body(["n2", "n1"], pod_json(0)))

    assert json.loads(reply.body) == {
        "NodeNames": ["n2", "n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert reply.outcome == "untouched"
    assert scheduling.asked == []


def test_a_gpu_pod_is_refused_as_a_whole_before_atoll_is_ready() -> None:
    scheduling = ToldScheduling()
    scheduling.reason = "pods are not listed yet"

    assert error_of(extender(scheduling).filter(filter_body(["n1"]))) == "atoll: NotReady: pods are not listed yet"
    assert error_of(bind(bind_body(), scheduling)) == "atoll: NotReady: pods are not listed yet"
    assert scheduling.asked == []


def test_no_names_are_no_nodes() -> None:
    assert json.loads(extender().filter(filter_body([])).body)["NodeNames"] == []


def test_names_that_need_escapes_come_back_as_they_came() -> None:
    names = ['quo"te', "back\\slash", "line\nfeed", "ünï", "n5"]

    answer = json.loads(extender().filter(filter_body(names)).body)

    assert answer["NodeNames"] == [names[0], names[2], names[4]]
    assert set(answer["FailedNodes"]) == {names[1], names[3]}


def test_an_annotation_with_escapes_does_not_cost_the_names_their_short_way() -> None:
    pod = pod_json(4, {"kubectl.kubernetes.io/last-applied-configuration": '{"a":"b\\n"}'})

    answer = json.loads(extender().filter(filter_body(["n1", "n2"], pod)).body)

    assert answer["NodeNames"] == ["n1"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it begins with nothing"),
        (b"{", "Input data was truncated"),
        (b"not json", 'it begins with "not json"'),
        (b"\xff\xfe\x00", "is not what kube-scheduler sends"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"{}", "missing required field `Pod`"),
        (b'{"Pod":null,"NodeNames":[]}', "$.Pod"),
        (b'{"Pod":{},"NodeNames":[]}', "missing required field `metadata`"),
        (filter_body([1, 2]), "Expected `str`, got `int` - at `$.NodeNames[0]`"),  # type: ignore[list-item]
        (filter_body(None), "has neither NodeNames nor Nodes"),
        (filter_body(["n1"], pod_json("four")), "'four' is not a whole number of GPUs"),
        (filter_body(["n1"], pod_json("-1")), "is not a whole number of GPUs"),
        (b'{"Pod":' + b"[" * 100_000, "is not what kube-scheduler sends"),
    ],
)
def test_a_body_that_is_no_filter_call_is_answered_by_one_clear_error(body: bytes, says: str) -> None:
    scheduling = ToldScheduling()

    error = error_of(extender(scheduling).filter(body))

    assert error.startswith("atoll: ")
    assert says in error
    assert "\n" not in error
    assert len(error) < 500
    assert scheduling.asked == []


def test_whole_nodes_are_answered_by_the_name_of_the_setting() -> None:
    body = go_json({"Pod": pod_json(), "Nodes": {"items": [{"metadata": {"name": "n1"}}]}, "NodeNames": None})

    assert "set nodeCacheCapable: true for Atoll's extender" in error_of(extender().filter(body))


def test_bind_asks_for_the_pod_by_uid_and_answers_with_an_empty_error() -> None:
    scheduling = ToldScheduling()

    reply = bind(bind_body(), scheduling)

    assert (reply.body, reply.outcome) == (b'{"Error":""}', "bound")
    assert scheduling.asked == [("0e1d", "ml", "train-7", "n1")]


def test_a_refused_bind_says_why() -> None:
    scheduling = ToldScheduling()
    scheduling.bind_says = "Fragmented: taken meanwhile"

    reply = bind(bind_body(), scheduling)

    assert (reply.body, reply.outcome) == (b'{"Error":"atoll: Fragmented: taken meanwhile"}', "refused")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it begins with nothing"),
        (b"{}", "missing required field `PodName`"),
        (go_json({"PodName": "p", "PodNamespace": "n", "PodUID": 7, "Node": "x"}), "$.PodUID"),
        (go_json({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": ""}), "has an empty Node"),
        (
            go_json({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "x" * 300}),
            "Node that no object can have",
        ),
        (
            go_json({"PodName": "p\n", "PodNamespace": "n", "PodUID": "u", "Node": "x"}),
            "PodName that no object can have",
        ),
    ],
)
def test_a_body_that_is_no_bind_call_is_answered_by_one_clear_error(body: bytes, says: str) -> None:
    scheduling = ToldScheduling()

    assert says in error_of(bind(body, scheduling))
    assert scheduling.asked == []


def preempt_body(pod: dict[str, Any] | None = None) -> bytes:
    victims = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}, "n2": {"Pods": None, "NumPDBViolations": 0}}
    return go_json({"Pod": pod or pod_json(), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})


def test_preempt_keeps_the_nodes_where_evicting_helps_with_all_that_must_go() -> None:
    scheduling = ToldScheduling()
    scheduling.keeps = {"n1": ("a", "b")}

    reply = extender(scheduling).preempt(preempt_body())

    assert reply.body == (b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":1}}}')
    assert scheduling.asked[0][1] == {"n1": ("a",), "n2": ()}


def test_a_veto_is_an_answer_without_nodes() -> None:
    reply = extender().preempt(preempt_body())

    assert (reply.body, reply.outcome) == (b'{"NodeNameToMetaVictims":{}}', "vetoed")


def test_preemption_for_a_pod_without_gpus_is_none_of_our_business() -> None:
    reply = extender().preempt(preempt_body(pod_json(0)))

    assert json.loads(reply.body)["NodeNameToMetaVictims"]["n1"] == {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}


def test_preempt_has_no_place_for_an_error_and_raises_one_for_the_status() -> None:
    waiting = ToldScheduling()
    waiting.reason = "nodes are not listed yet"

    with pytest.raises(NotReady, match="NotReady: nodes are not listed yet"):
        extender(waiting).preempt(preempt_body())
    with pytest.raises(BadCall, match="missing required field `Pod`"):
        extender().preempt(b"{}")
    with pytest.raises(BadCall, match="nodeCacheCapable"):
        extender().preempt(go_json({"Pod": pod_json(), "NodeNameToVictims": {"n1": {"Pods": []}}}))
    with pytest.raises(BadCall, match="NodeNameToMetaVictims is missing"):
        extender().preempt(go_json({"Pod": pod_json()}))


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """A good body with a slice of it cut out, repeated or overwritten."""

    def damage(start: int, length: int, filling: bytes) -> bytes:
        return good[:start] + filling + good[start + length :]

    size = len(good)
    return st.builds(damage, st.integers(0, size), st.integers(0, size), st.binary(max_size=40))


GOOD = (filter_body(["n1", "n2"], pod_json(4, {"a": "\\"})), bind_body(), preempt_body())


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(st.binary(max_size=200), *map(damaged, GOOD)))
def test_no_bytes_whatever_make_the_extender_fail(body: bytes) -> None:
    served = extender()

    assert "Error" in json.loads(served.filter(body).body)
    assert "Error" in json.loads(asyncio.run(served.bind(body)).body)
    with contextlib.suppress(BadCall, NotReady):
        assert "NodeNameToMetaVictims" in json.loads(served.preempt(body).body)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "Pod": ANY_JSON | st.just(pod_json()),
            "Nodes": ANY_JSON,
            "NodeNames": ANY_JSON | st.lists(st.text(max_size=10), max_size=6),
            "NodeNameToMetaVictims": ANY_JSON,
            "Node": ANY_JSON,
            "PodName": ANY_JSON,
            "PodNamespace": ANY_JSON,
            "PodUID": ANY_JSON,
        },
    )
)
def test_no_json_whatever_makes_the_extender_fail(call: dict[str, Any]) -> None:
    test_no_bytes_whatever_make_the_extender_fail.hypothesis.inner_test(json.dumps(call).encode())
