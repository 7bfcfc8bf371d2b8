"""What went out is counted by effect and outcome, and logged under the same keys."""

import asyncio
from collections.abc import AsyncIterator

from structlog.testing import capture_logs

from atoll.core.effects import ApiEffect, PostBinding, Report, SetPlaced, WriteLedger
from atoll.core.events import BindingAccepted, BindingRefused, LedgerConflict, Outcome, PodGone, WatchEvent
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import Scope
from atoll.servers.metrics import Metrics
from atoll.servers.witness import Witness

GRANT = Grant(
    owner=Owner("Pod", "ml", "train-7", "u1"),
    state=State.BINDING,
    count=2,
    containers=(ContainerGrant("main", (Part("GPU-b"), Part("GPU-a"))),),
    policy=Policy.RESTRICTED,
    scopes_asked=(Scope.NUMA_NODE,),
    scope_bound=Scope.NUMA_NODE,
)


class OneAnswer:
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    async def perform(self, _: ApiEffect) -> Outcome:
        return self.outcome

    async def watch(self) -> AsyncIterator[WatchEvent]:
        for event in ():
            yield event


def performed(effect: ApiEffect, outcome: Outcome) -> tuple[str, list[dict[str, object]]]:
    metrics = Metrics()
    with capture_logs() as logs:
        assert asyncio.run(Witness(OneAnswer(outcome), metrics).perform(effect)) is outcome
    return metrics.text().decode(), [dict(line) for line in logs]


def test_a_binding_is_logged_with_what_was_granted() -> None:
    text, logs = performed(PostBinding("n1", GRANT), BindingAccepted("u1", "n1"))

    assert 'atoll_api_effects_total{effect="PostBinding",outcome="BindingAccepted"} 1.0' in text
    assert logs == [
        {
            "event": "bound",
            "log_level": "info",
            "pod": "ml/train-7",
            "uid": "u1",
            "node": "n1",
            "gpus": ["GPU-a", "GPU-b"],
            "count": 2,
            "scope": "NUMANode",
            "degraded": False,
        }
    ]


def test_a_refused_binding_is_logged_with_the_api_servers_words() -> None:
    _, logs = performed(PostBinding("n1", GRANT), BindingRefused("u1", "n1", "409 Conflict: already assigned"))

    assert [(line["event"], line["why"]) for line in logs] == [("BindingRefused", "409 Conflict: already assigned")]


def test_a_conflict_is_counted() -> None:
    text, _ = performed(WriteLedger(LedgerRecord("n1")), LedgerConflict("n1"))

    assert 'atoll_api_effects_total{effect="WriteLedger",outcome="LedgerConflict"} 1.0' in text


def test_a_condition_is_logged_by_pod() -> None:
    _, logs = performed(SetPlaced("u1", "ml", "train-7", False, "Fragmented", "…"), PodGone("u1"))

    assert (logs[0]["event"], logs[0]["pod"], logs[0]["outcome"]) == ("SetPlaced", "ml/train-7", "PodGone")


def test_a_report_is_counted_by_kind_and_logged() -> None:
    metrics = Metrics()
    with capture_logs() as logs:
        Witness(OneAnswer(PodGone("x")), metrics).heard(Report("ledger_unreadable", node="n1", detail="v 9"))

    assert 'atoll_reports_total{what="ledger_unreadable"} 1.0' in metrics.text().decode()
    assert (logs[0]["event"], logs[0]["node"], logs[0]["why"]) == ("ledger_unreadable", "n1", "v 9")
