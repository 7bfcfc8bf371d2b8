"""Known defects of exactly the versions that were found. The list is data with sources; this matches versions."""

from collections.abc import Iterable
from dataclasses import dataclass

from atoll.core.audit.picture import Component, Role
from atoll.core.audit.versions import Version, parse_version, within

_VENDOR = "nvidia-"
_CALENDAR_YEAR = 20
"""NVIDIA's DRA driver counted by year and month until 25.12; 0.4.0 came after it."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One published defect or limit.

    Attributes:
        identifier: stable, e.g. "k8s-device-plugin-2038".
        role, component: what has it; component "" = any of the role. "nvidia-" before a name may be left out.
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


@dataclass(frozen=True, slots=True)
class Match:
    """A defect and a component that has it.

    Attributes:
        certain: False where the version found is too coarse to tell, e.g. "1.29" for a fix in 1.29.4.
        vendor_build: the version carries a vendor's suffix, whose build may have been patched.
    """

    defect: Defect
    component: Component
    certain: bool = True
    vendor_build: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """What the list says of the components found.

    Attributes:
        found: most severe first, then by identifier and component.
        unknown: components of which the list tells defects, and whose version nobody could read.
    """

    found: tuple[Match, ...]
    unknown: tuple[Component, ...]


def matching(defects: Iterable[Defect], components: Iterable[Component]) -> Matching:
    """Which of the defects these components have.

    A defect without bounds is in every version, read or not. Any other matches no version that could not be read: the
    component is listed as unknown instead.
    """
    known = tuple(defects)
    found: list[Match] = []
    unknown: list[Component] = []
    for component in components:
        version = _comparable(component)
        mine = [defect for defect in known if _concerns(defect, component)]
        verdicts = [(defect, within(version, defect.since, defect.before)) for defect in mine]
        found += [
            Match(defect, component, verdict is True, bool(version and version.vendor))
            for defect, verdict in verdicts
            if verdict or (verdict is None and version is not None)
        ]
        if version is None and any(verdict is None for _, verdict in verdicts):
            unknown.append(component)
    return Matching(tuple(sorted(found, key=_rank)), tuple(unknown))


SEVERITIES = ("critical", "warning", "info")


def _rank(match: Match) -> tuple[int, bool, str, str, str]:
    defect, component = match.defect, match.component
    severity = SEVERITIES.index(defect.severity) if defect.severity in SEVERITIES else len(SEVERITIES)
    return severity, not match.certain, defect.identifier, component.name, component.version


def _concerns(defect: Defect, component: Component) -> bool:
    name = component.name.lower().removeprefix(_VENDOR)
    return defect.role == component.role and defect.component.lower().removeprefix(_VENDOR) in {"", name}


def _comparable(component: Component) -> Version | None:
    """The version in the order in which its releases came, which is not always the order of its numbers."""
    version = parse_version(component.version)
    if version and component.role is Role.DRA_DRIVER and version.release[0] >= _CALENDAR_YEAR:
        return Version((0, 3, 0), version.stage, version.vendor)
    return version
