"""Ledgers that say what owners really got, where pods have changed places on a commanded node, or candidates are left.

Whoever writes a ledger anyway puts it right; the leader does so for its own sake, too.
"""

from atoll.core.effects import Effect, Report
from atoll.core.ledger import fault_of
from atoll.services.ledgers import Draft
from atoll.services.mirror import Mirror


class Corrections:
    def __init__(self, mirror: Mirror, outbox: list[Effect]) -> None:
        self._mirror, self._outbox = mirror, outbox
        self.leading = False

    def contribute(self, draft: Draft) -> Draft:
        view, record = self._mirror.fleet.get(draft.record.node), draft.record
        wanted = view.corrections if view else ()
        if not wanted or any(record.of(grant.owner.uid) is None for grant in wanted):
            return draft
        moved = [grant.owner for grant in wanted if (old := record.of(grant.owner.uid)) and old.uuids != grant.uuids]
        for grant in wanted:
            record = record.with_grant(grant)
        if fault_of(record.grants):
            return draft  # a pod that is gone still has them there; its grant goes first
        if self.leading and moved:
            detail = ", ".join(f"{owner.namespace}/{owner.name}" for owner in moved)
            self._outbox.append(Report("corrected", node=record.node, detail=detail))
        return Draft(record, draft.urgent or self.leading)
