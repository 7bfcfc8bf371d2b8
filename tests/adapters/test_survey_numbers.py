"""Numbers of GPUs in Nodes and pods: what Kubernetes allows is counted, all else is told and never guessed."""

from typing import Any

import pytest

from atoll.adapters.kube.survey.gather import Survey
from atoll.adapters.kube.survey.resources import whole
from atoll.core.audit.picture import Picture
from tests.adapters.survey_objects import node, pod

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
NO_NUMBERS = ["-4", "abc", "", "0x8", "1.5", "500m", "1e-1", "4 GPUs", "٤", ".", "1" * 5000, "9E", "1e99", "NaN",
              -4, 1.5, True, None, [], {}, 10**5000, float("inf")]  # fmt: skip


def picture(*objects: Any) -> Picture:
    survey = Survey()
    for each in objects:
        survey.add(each)
    return survey.picture("folder", "2026-01-02T00:00:00Z")


def asking(name: str, **resources: Any) -> Json:
    return pod(name, 0, "n1", spec={"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]})


def offering(name: str, capacity: Any, allocatable: Any = "8") -> Json:
    made = node(name)
    made["status"] |= {"capacity": {GPU: capacity}, "allocatable": {GPU: allocatable}}
    return made


def told(found: Picture) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in found.blind]


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), (8, 8), ("1k", 1000), ("1e3", 1000), ("2000m", 2), ("1.0", 1), (4.0, 4), ("0.5k", 500), ("+4", 4),
     ("1Ki", 1024), ("0", 0), ("9999999999", 9_999_999_999)],
)  # fmt: skip
def test_whole_quantities_are_counted_in_every_form(text: object, count: int):
    assert whole(text) == count


@pytest.mark.parametrize("odd", NO_NUMBERS, ids=lambda odd: repr(odd)[:12] if odd != 10**5000 else "huge")
def test_a_pod_that_asks_for_no_number_is_named_with_what_was_found(odd: Any):
    found = picture(asking("bad", limits={GPU: odd}), pod("good", 1, "n1"))

    assert [each.name for each in found.pods] == ["good"]
    ((what, why),) = told(found)
    assert what == "Pod team/bad"
    assert why.startswith(f"unreadable: container main: {GPU} is ")


def test_what_was_found_is_shown_as_it_stood():
    found = picture(asking("a", requests={GPU: "-4"}), asking("b", limits={GPU: None}))

    assert [why.partition(" is ")[2] for _, why in told(found)] == [
        '"-4", which is no number of devices', "null, which is no number of devices"
    ]  # fmt: skip


def test_a_pod_is_told_once_of_what_its_requests_and_limits_say_alike():
    assert len(told(picture(asking("bad", limits={GPU: "abc"}, requests={GPU: "abc"})))[0][1].split(";")) == 1


def test_containers_that_can_be_read_count_beside_one_that_cannot():
    made = asking("p", limits={GPU: "abc"})
    made["spec"]["containers"].append({"name": "second", "resources": {"limits": {GPU: "2"}}})

    found = picture(made)

    assert [(each.gpus, each.by_container) for each in found.pods] == [(2, (("second", 2),))]
    assert len(found.blind) == 1


def test_more_gpus_than_any_node_has_are_still_what_the_pod_asks():
    found = picture(node("n1"), pod("much", 9_999_999_999, "n1"))

    assert [(each.name, each.gpus) for each in found.pods] == [("much", 9_999_999_999)]
    assert found.blind == ()


@pytest.mark.parametrize("odd", ["cpu", "memory", "example.com/fpga"])
def test_numbers_of_other_resources_are_nobodys_concern(odd: str):
    assert picture(asking("p", limits={odd: "many"})).blind == ()


@pytest.mark.parametrize("odd", ["-3", "eight", "", "1.5", None, [8]])
def test_a_node_that_offers_no_number_stays_with_an_unknown_number(odd: Any):
    found = picture(offering("n1", odd), node("n2"))

    first, second = found.nodes
    assert (first.name, first.capacity, first.allocatable, first.uncounted) == ("n1", None, 8, (GPU,))
    assert (second.capacity, second.uncounted) == (8, ())
    ((what, why),) = told(found)
    assert what == "Node n1"
    assert why.startswith(f"unreadable: capacity {GPU} is ")


def test_a_sum_with_an_unknown_part_is_unknown():
    made = offering("n1", "eight", "eight")
    for part in ("capacity", "allocatable"):
        made["status"][part]["amd.com/gpu"] = "4"

    (found,) = picture(made).nodes

    assert (found.capacity, found.allocatable, found.resources) == (None, None, (("amd.com/gpu", 4),))
