"""Events as an audit takes them: how often, and when, in whichever group of the API and however odd their times."""

from typing import Any

import pytest

from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.kube.survey.gather import Survey
from atoll.adapters.kube.survey.moments import moment
from atoll.core.audit.picture import AuditEvent
from tests.adapters.survey_objects import event

Json = dict[str, Any]
REJECTED = "TopologyAffinityError"


def events(*objects: Any) -> tuple[AuditEvent, ...]:
    survey = Survey()
    for each in objects:
        survey.add(each)
    found = survey.picture("folder", "2026-01-02T00:00:00Z")
    assert found.blind == ()
    return found.events


def rejected(name: str = "e", **fields: Any) -> Json:
    return event(name, REJECTED, "Resources cannot be allocated", about="gone", **fields)


def newer(**fields: Any) -> Json:
    """As events.k8s.io/v1 writes it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "team", "uid": "uid-e"},
        "regarding": {"kind": "Pod", "namespace": "team", "name": "gone"},
        "reason": REJECTED,
        "note": "Resources cannot be allocated",
        **fields,
    }


COUNTED = {
    "count": rejected(count=7),
    "a quoted count": rejected(count="7"),
    "a series": rejected(series={"count": 7, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
    "a series beside a first count": rejected(count=1, series={"count": 7}),
    "a count beside an empty series": rejected(count=7, series={"count": None}),
    "a deprecated count": newer(deprecatedCount=7),
    "a series of the newer group": newer(deprecatedCount=1, series={"count": 7}),
    "a count beside no series": newer(deprecatedCount=7, series=None),
}


@pytest.mark.parametrize("told", COUNTED.values(), ids=COUNTED.keys())
def test_an_event_that_happened_seven_times_counts_seven(told: Json):
    assert [(each.reason, each.count) for each in events(told)] == [(REJECTED, 7)]


@pytest.mark.parametrize(
    ("told", "count"), [(None, 1), (0, 1), (-3, 1), ("many", 1), ([], 1), (1.5, 1), (10**30, 1), (2**40, 2**31 - 1)]
)
def test_an_event_without_a_real_count_happened_once(told: Any, count: int):
    assert [each.count for each in events(rejected(count=told))] == [count]


def test_both_groups_tell_of_one_event_once_and_the_higher_count_is_the_later():
    for given in ((rejected(count=7), newer(deprecatedCount=3)), (newer(deprecatedCount=3), rejected(count=7))):
        assert [each.count for each in events(*given)] == [7]


def test_events_without_a_name_are_told_apart_by_what_they_say():
    nameless = [{**rejected(), "metadata": {}, "message": f"GPU {n} is lost"} for n in range(3)]

    assert len(events(*nameless)) == 3


def test_times_are_those_of_the_first_and_of_the_last():
    told = newer(
        eventTime="2026-01-01T00:00:00.123456Z",
        series={"count": 7, "lastObservedTime": "2026-01-01T03:00:00.5+02:00"},
    )

    ((first, last),) = ((each.first, each.last) for each in events(told))

    assert (first, last) == ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")


@pytest.mark.parametrize(
    "odd",
    ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "0001-01-01T00:00:00Z",
     "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:60Z", "²026-01-01T00:00:00Z", "9" * 5000, None, 5, [], {}],
)  # fmt: skip
def test_what_is_no_time_is_dropped_and_the_next_best_is_taken(odd: Any):
    (without,) = events(rejected(firstTimestamp=odd, lastTimestamp=odd))
    (beside,) = events(rejected(firstTimestamp=odd, lastTimestamp=odd, eventTime="2026-01-01T00:00:00Z"))

    assert (without.first, without.last) == ("", "")
    assert (beside.first, beside.last) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")


def test_events_of_the_future_stay_and_all_sort_by_time_in_whatever_zone():
    times = ["2026-01-01T02:00:00+02:00", "2099-01-01T00:00:00Z", "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:01Z", ""]

    found = events(*(rejected(f"e{n}", lastTimestamp=told) for n, told in enumerate(times)))

    assert [each.last for each in found] == [
        "2099-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", ""
    ]  # fmt: skip


def test_times_of_yaml_without_quotes_are_times():
    body = (
        "kind: Event\nmetadata: {name: e, namespace: team}\nreason: Xid\nlastTimestamp: 2026-01-01T00:00:00Z\n"
        "involvedObject: {kind: Node, name: n1}\ncount: 7\n"
    )

    (found,) = events(*(each.value for each in documents(decode(DumpFile("f", body.encode())))))

    assert (found.count, found.last) == (7, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "told", ["2026-01-01t00:00:00z", "2026-01-01 01:00:00+01:00", "2026-01-01T00:00:00.999999999Z"]
)
def test_one_moment_has_one_form(told: str):
    assert moment(told) == "2026-01-01T00:00:00Z"
