"""Versions as components print them, and whether one lies in a range. Never a guess: what is undecided is None.

    v1.29.3-eks-a18cd3a   v1.30.1+k3s1   v1.28.9-gke.1289000   535.161.08   v0.20.0-ubi9   v1.37.0-beta.0
    nvcr.io/nvidia/k8s-device-plugin:v0.17.1@sha256:32e1…   1.17.8-1

A version of one or two numbers ("535", "1.29") stands for every version that begins with it, so it may lie partly in
a range. A suffix that names no pre-release is the vendor's: its build may carry fixes of later versions.
"""

import re
from dataclasses import dataclass

LENGTH_MAX = 300
_VERSION = re.compile(
    r"[vV]?(?P<release>[0-9]{1,9}(?:\.[0-9]{1,9}){0,4})"
    r"(?:(?P<glue>[-.~_]?)(?P<stage>alpha|beta|rc|dev|pre)[-.]?(?P<number>[0-9]{1,9})?)?"
    r"(?P<rest>(?:[-+~_.][0-9A-Za-z.+~_-]*)?)"
)
_STAGES = {"dev": 0, "alpha": 1, "beta": 2, "pre": 3, "rc": 4}
_RELEASED = (9, 0)

_NUMBERS = 3
"""How many numbers name one release."""
_ENDLESS = 10**10
_BUILD_NUMBER = 9999
"""A tag that is one number above this is a date or a build, no version."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version that could be read.

    Attributes:
        release: its numbers. stage: of a pre-release, in order; releases come last.
        vendor: what follows, e.g. "-eks-a18cd3a" or "+k3s1"; "" for a plain version.
    """

    release: tuple[int, ...]
    stage: tuple[int, int] = _RELEASED
    vendor: str = ""


def parse_version(text: str) -> Version | None:
    """The version in a tag, an image reference or a version string; None where there is none, e.g. "latest"."""
    shown = text.strip()[:LENGTH_MAX].split("@", 1)[0].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    found = _VERSION.fullmatch(shown)
    if found is None:
        return None
    release = tuple(int(part) for part in found["release"].split("."))
    if len(release) == 1 and release[0] > _BUILD_NUMBER:
        return None
    stage = (_STAGES[found["stage"]], int(found["number"] or 0)) if found["stage"] else _RELEASED
    return Version(release, stage, found["rest"])


def within(version: Version | None, since: str, before: str) -> bool | None:
    """Whether a version is at least `since` and below `before`; "" is open at that end. None = undecided.

    Raises:
        ValueError: a bound is no version.
    """
    above = _at_least(version, since) if since else True
    reached = _at_least(version, before) if before else False
    if above is False or reached is True:
        return False
    return True if above and reached is False else None


def _at_least(version: Version | None, bound: str) -> bool | None:
    """Whether every version that this one may be is at least the bound; None where only some are."""
    limit = parse_version(bound)
    if limit is None:
        raise ValueError(f"{bound!r} is no version")
    if version is None:
        return None
    width = max(len(version.release), len(limit.release), _NUMBERS)
    least = _key(version, width, 0)
    a_line = len(version.release) < _NUMBERS and version.stage == _RELEASED
    most = _key(version, width, _ENDLESS) if a_line else least
    target = _key(limit, width, 0)
    if least >= target:
        return True
    return False if most < target else None


def _key(version: Version, width: int, filler: int) -> tuple[tuple[int, ...], tuple[int, int]]:
    return version.release + (filler,) * (width - len(version.release)), version.stage
