"""Known defects of exactly the versions that were found. The list is data with sources; this matches versions."""

from dataclasses import dataclass

from atoll.core.audit.picture import Role


@dataclass(frozen=True, slots=True)
class Defect:
    """One published defect or limit.

    Attributes:
        identifier: stable, e.g. "k8s-device-plugin-2038".
        role, component: what has it; component "" = any of the role.
        since, before: versions from `since` on and below `before`; "" = open at that end.
        severity: "critical", "warning" or "info".
        title, effect, fix: sentences for a person. `source`: where it is published.
    """

    identifier: str
    role: Role
    component: str
    since: str
    before: str
    severity: str
    title: str
    effect: str
    fix: str
    source: str
