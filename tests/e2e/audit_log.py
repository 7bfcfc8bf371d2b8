"""Who asked the API server for what, and what printed roles allow: both as the same small values, to be compared.

Roles are read from the manifests as they are printed, so a verb that is added to one is expected in the log at once.
What a kubelet asks about its callers (which of its own paths they may get) counts like a request of theirs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.realkube.api import Json


@dataclass(frozen=True, order=True, slots=True)
class Use:
    """Args: what: "pods/status", "gpunodes.atoll.dev", or a path that is no resource."""

    user: str
    what: str
    verb: str


@dataclass(frozen=True, slots=True)
class Asked:
    use: Use
    refused: str
    """Why it was refused by a role; "" when it was not."""


def asked(log: Path) -> Iterator[Asked]:
    """Every request of the log; a last line that is still being written is left out."""
    for line in log.read_text().rpartition("\n")[0].splitlines():
        event = json.loads(line)
        code = event.get("responseStatus", {}).get("code")
        yield Asked(_use(event), event["requestURI"] if code == 403 else "")
        review = event.get("responseObject") or {}
        if review.get("kind") == "SubjectAccessReview" and "resourceAttributes" in review["spec"]:
            told = review["spec"]["resourceAttributes"]
            use = Use(review["spec"].get("user", ""), _named(told, "group"), told["verb"])
            yield Asked(use, "" if review["status"].get("allowed") else f"a kubelet asked: {told}")


def allowed(manifests: Iterable[Json]) -> Mapping[Use, set[str]]:
    """Each use that the roles of the manifests give to the subjects of their bindings, with the names of the roles."""
    objects = list(manifests)
    rules = {(each["kind"], each["metadata"]["name"]): each["rules"] for each in objects if "rules" in each}
    found: dict[Use, set[str]] = {}
    for binding in (each for each in objects if "roleRef" in each):
        role = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        for subject in binding["subjects"]:
            for what, verb in _whats(rules[role]):
                found.setdefault(Use(_user(subject), what, verb), set()).add(role[1])
    return found


def objects_of(*texts: str) -> list[Json]:
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def table(uses: Mapping[Use, set[str]]) -> str:
    return "\n".join(
        f"{', '.join(sorted(roles)):24} {use.verb:8} {use.what:40} {use.user}" for use, roles in sorted(uses.items())
    )


def _use(event: Json) -> Use:
    reference = event.get("objectRef")
    what = _named(reference, "apiGroup") if reference else event["requestURI"].partition("?")[0]
    return Use(event["user"].get("username", ""), what, event["verb"])


def _named(reference: Json, group: str) -> str:
    parts = [reference.get("resource", ""), reference.get("subresource")]
    return "/".join(filter(None, parts)) + (f".{reference[group]}" if reference.get(group) else "")


def _whats(rules: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        names = [
            f"{resource}.{group}" if group else resource
            for group in rule.get("apiGroups", ())
            for resource in rule.get("resources", ())
        ]
        for what in [*names, *rule.get("nonResourceURLs", ())]:
            yield from ((what, verb) for verb in rule["verbs"])


def _user(subject: Json) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])
