"""The list of known defects, from the files that ship with the package. One file per role, named like the role.

The files are ours, so a mistake in one is a bug: it is told with the file and the entry.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import yaml

from atoll.core.audit.defects import SEVERITIES, Defect
from atoll.core.audit.picture import Role
from atoll.core.audit.versions import parse_version, within

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FOLDER = files("atoll") / "defects"
_SUFFIX = ".yaml"
_NEEDED = ("id", "severity", "title", "effect", "fix", "source")
_BOUNDS = ("since", "before")
_KEYS = {*_NEEDED, *_BOUNDS, "component"}


@cache
def known_defects() -> tuple[Defect, ...]:
    """All of them, by role and identifier. Read once.

    Raises:
        ValueError: a file is malformed, or an identifier occurs twice.
    """
    found = [
        defect
        for file in sorted(_FOLDER.iterdir(), key=lambda entry: entry.name)
        if file.name.endswith(_SUFFIX)
        for defect in defects_in(file)
    ]
    names = [defect.identifier for defect in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"defects: these identifiers occur twice: {', '.join(twice)}")
    return tuple(found)


def defects_in(file: Traversable) -> tuple[Defect, ...]:
    """The defects of one file.

    Raises:
        ValueError: it is malformed; the message names the file and the entry.
    """
    try:
        content = yaml.load(file.read_bytes(), Loader=_LOADER)  # noqa: S506 (a safe loader, the fast one where there is one)
    except yaml.YAMLError as error:
        raise ValueError(f"{file.name}: {error}") from None
    if not isinstance(content, Mapping) or set(content) != {"role", "defects"}:
        raise ValueError(f"{file.name}: expected the keys role and defects")
    if f"{content['role']}{_SUFFIX}" != file.name or content["role"] not in list(Role):
        raise ValueError(f"{file.name}: expected a role that names the file, found {content['role']!r}")
    if not isinstance(content["defects"], list):
        raise ValueError(f"{file.name}: expected a list of defects")
    role = Role(content["role"])
    return tuple(_defect(f"{file.name}, entry {n}", role, entry) for n, entry in enumerate(content["defects"], start=1))


def _defect(place: str, role: Role, entry: object) -> Defect:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{place}: expected a mapping")
    place = f"{place} ({entry.get('id', 'without id')})"
    unknown = sorted(str(key) for key in set(entry) - _KEYS)
    if unknown:
        raise ValueError(f"{place}: unknown keys: {', '.join(unknown)}")
    for key, value in entry.items():
        # A bare 1.30 is the number 1.3 in YAML, so a version must be quoted.
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{place}: {key} must be a text, found {value!r}")
    missing = [key for key in _NEEDED if key not in entry]
    if missing:
        raise ValueError(f"{place}: {', '.join(missing)} missing")
    if entry["severity"] not in SEVERITIES:
        raise ValueError(f"{place}: severity must be one of {', '.join(SEVERITIES)}, found {entry['severity']!r}")
    since, before = (entry.get(bound, "") for bound in _BOUNDS)
    for bound in filter(None, (since, before)):
        if parse_version(bound) is None:
            raise ValueError(f"{place}: {bound!r} is no version")
    if since and before and not within(parse_version(since), since, before):
        raise ValueError(f"{place}: no version lies between {since} and {before}")
    return Defect(
        identifier=entry["id"],
        role=role,
        component=entry.get("component", ""),
        since=since,
        before=before,
        severity=entry["severity"],
        title=entry["title"],
        effect=entry["effect"],
        fix=entry["fix"],
        source=entry["source"],
    )
