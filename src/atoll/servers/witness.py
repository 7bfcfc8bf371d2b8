"""What goes out to the Kubernetes API and how it went, counted and logged under the same keys everywhere.

pod   namespace/name         uid   the pod's UID         node
gpus  UUIDs of a grant       why   the API server's words, or ours
"""

from collections.abc import AsyncIterator

import structlog

from atoll.core.effects import ApiEffect, KeepRegistration, PostBinding, ReadLedger, Report, TellPolicy, WriteLedger
from atoll.core.events import BindingAccepted, BindingRefused, BindingUnknown, Heard, Outcome
from atoll.core.ledger import Grant
from atoll.ports import ClusterApi
from atoll.servers.metrics import Metrics

_log = structlog.get_logger("atoll")


class Witness:
    """A `ClusterApi` that reports on another one, and the ear for what the service itself has to report."""

    def __init__(self, inner: ClusterApi, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def perform(self, effect: ApiEffect) -> Outcome:
        outcome = await self._inner.perform(effect)
        self._metrics.performed(type(effect).__name__, type(outcome).__name__)
        if isinstance(effect, PostBinding):
            _log_binding(effect, outcome)
        elif isinstance(effect, KeepRegistration):
            pass  # done again and again; what fails is reported
        elif isinstance(effect, TellPolicy):
            problems = list(effect.status.problems)
            _log.info("TellPolicy", policy=effect.name, problems=problems, outcome=type(outcome).__name__)
        elif not isinstance(effect, WriteLedger | ReadLedger):
            _log.info(type(effect).__name__, pod=f"{effect.namespace}/{effect.name}", outcome=type(outcome).__name__)
        return outcome

    def watch(self) -> AsyncIterator[Heard]:
        return self._inner.watch()

    def heard(self, report: Report) -> None:
        self._metrics.reported(report.what)
        _log.warning(report.what, node=report.node, uid=report.pod, why=report.detail)


def _log_binding(effect: PostBinding, outcome: Outcome) -> None:
    grant = effect.grant
    pod = f"{grant.owner.namespace}/{grant.owner.name}"
    match outcome:
        case BindingAccepted():
            _log.info("bound", pod=pod, uid=grant.owner.uid, node=effect.node, **_granted(grant))
        case BindingRefused(_, _, why) | BindingUnknown(_, _, why):
            _log.warning(type(outcome).__name__, pod=pod, uid=grant.owner.uid, node=effect.node, why=why)


def _granted(grant: Grant) -> dict[str, object]:
    scope = str(grant.scope_bound) if grant.scope_bound else None
    return {"gpus": sorted(grant.uuids), "count": grant.count, "scope": scope, "degraded": grant.degraded}
