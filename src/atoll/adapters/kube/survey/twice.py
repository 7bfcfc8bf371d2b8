"""Objects that files hold twice: copies of one object taken at different times, and two objects with one identity."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.moments import moment
from atoll.core.audit.picture import AuditPod, Blind

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

VERSION_DIGITS_MAX = 20
NAMED_MAX = 4

Age = tuple[int | None, str]
"""Resource version and time of creation."""


class Latest(Generic[K, T]):
    """Of several copies of one object the newest is kept, and the first where nothing tells which is newer.

    Attributes:
        kept: the copies that count. differing: names of objects whose copies say different things.
    """

    def __init__(self) -> None:
        self.kept: dict[K, T] = {}
        self.differing: dict[str, None] = {}
        self._ages: dict[K, Age] = {}

    def add(self, key: K, name: str, value: T, metadata: wire.Meta) -> bool:
        """Returns whether this copy is the one that is kept now."""
        known, age = self.kept.get(key), _age(metadata)
        if known is not None:
            if known == value:
                return False
            self.differing[name] = None
            if not _is_newer(age, self._ages[key]):
                return False
        self.kept[key], self._ages[key] = value, age
        return True


def differing(kind: str, names: Iterable[str]) -> Iterator[Blind]:
    """One note for all of a kind: two dumps of one cluster may differ in every pod."""
    listed = tuple(names)
    if listed:
        few = ", ".join(listed[:NAMED_MAX]) + (f" and {len(listed) - NAMED_MAX} more" if listed[NAMED_MAX:] else "")
        verb = "is" if len(listed) == 1 else "are"
        yield Blind(
            f"{kind} {few}"[:400],
            f"{verb} there twice with other facts: the newer counts, or the first where nothing tells which is newer",
            "Give files of one time.",
        )


def sharing(pods: Iterable[AuditPod]) -> Iterator[Blind]:
    """Pods with one UID, which Kubernetes gives once."""
    names: dict[str, list[str]] = {}
    for pod in pods:
        if pod.uid:
            names.setdefault(pod.uid, []).append(f"{pod.namespace}/{pod.name}")
    for uid, listed in names.items():
        if len(listed) > 1:
            yield Blind(
                f"Pods {', '.join(listed[:NAMED_MAX])}"[:400],
                f"share the UID {uid[:80]}, which Kubernetes gives once: each is kept, and what was recorded by UID "
                "may be of either",
                "Give the pods as the API server prints them.",
            )


def _age(metadata: wire.Meta) -> Age:
    text = metadata.resource_version
    counted = text.isascii() and text.isdigit() and len(text) <= VERSION_DIGITS_MAX
    return int(text) if counted else None, moment(metadata.creation_timestamp)


def _is_newer(one: Age, other: Age) -> bool:
    if one[0] is not None and other[0] is not None and one[0] != other[0]:
        return one[0] > other[0]
    return bool(other[1]) and one[1] > other[1]
