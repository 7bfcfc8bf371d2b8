"""Sets of GPUs as the indexes of the corpus write them: value -> members, and closures of pairs."""

from collections.abc import Iterable, Mapping
from typing import Any

Groups = list[list[int]]


def facts(expected: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an answer that are facts: sentences and notes explain, they are not asserted."""
    return {
        key: facts(value) if isinstance(value, dict) else value
        for key, value in expected.items()
        if not key.endswith(("note", "_note"))
    }


def by_value(pairs: Iterable[tuple[int | None, object]]) -> dict[str, list[int | None]] | None:
    """Value as text -> members; None where no value is known."""
    found: dict[str, list[int | None]] = {}
    for member, value in pairs:
        if value is not None:
            found.setdefault(str(value), []).append(member)
    return found or None


def closure(index: list[int | None], joined: Iterable[tuple[int, int]]) -> list[list[int | None]]:
    """Connected sets of two or more, sorted."""
    group = list(range(len(index)))
    for a, b in joined:
        group = [group[a] if owner == group[b] else owner for owner in group]
    sets = [[index[n] for n in range(len(index)) if group[n] == owner] for owner in sorted(set(group))]
    return sorted((members for members in sets if len(members) > 1), key=str)


def sorted_sets(value: Any) -> Any:
    """Groups are sets: their order in an index is the author's."""
    if isinstance(value, dict):
        return {key: sorted_sets(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(inner, list) for inner in value):
        return sorted(map(sorted, value), key=str)
    return value
