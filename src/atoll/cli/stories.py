"""What holds for a pod and what becomes of it, as lines for a terminal and as data that scripts may rely on."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from atoll.cli.explanations import explanation_document, explanation_lines, gpus_text
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.verdict import Placement, Rejection
from atoll.services.study import Change, Story

Document = dict[str, Any]


def story_lines(story: Story) -> Iterator[Text]:
    """The whole story of one pod."""
    name = name_of(story)
    if story.request is None:
        yield Text(f"{name} asks for no GPU; Atoll has no say in it")
        return
    yield Text(f"{name} {asked_text(story)}", style="bold")
    yield from _ruling_lines(story)
    yield Text()
    match story.decision:
        case Rejection() if story.explanation is not None and not story.pod.node:
            yield from explanation_lines(name, story.explanation)
            if isinstance(story.request, GpuRequest) and story.request.patient:
                yield Text(f"  it takes what there is {story.request.degrade_after_s} s after it was created")
        case _:
            yield Text(outcome_text(story), style="bold")
            yield from _uuid_lines(story)


def change_lines(changes: Iterable[Change]) -> Iterator[Text]:
    """Pods that would be decided otherwise, two lines each."""
    for change in changes:
        yield Text(name_of(change.before), style="bold")
        for word, story in (("now", change.before), ("then", change.after)):
            yield Text(f"  {word:<5} {asked_text(story)} (by {story.ruling}); {outcome_text(story)}")
        if change.before.pod.node:
            yield Text("        it runs, and keeps what it has")


def name_of(story: Story) -> str:
    return f"{story.pod.namespace}/{story.pod.name}"


def asked_text(story: Story) -> str:
    request = story.request
    if not isinstance(request, GpuRequest):
        return "says what does not hold"
    scopes = f"partition {request.partition}" if request.partition else f"scope {','.join(request.scopes)}"
    words = [f"wants {gpus_text(request.gpus)}", str(request.promised), scopes]
    if request.per_container:
        words.append("judged per container")
    if request.service_class:
        words.append(f"class {request.service_class}")
    if request.degrade_after_s:
        words.append(f"degrades after {request.degrade_after_s} s")
    return ", ".join(words)


def outcome_text(story: Story) -> str:
    """What becomes of it, in one line."""
    match story.request, story.decision:
        case InvalidRequest(message, code), _ if story.pod.node:
            return f"it runs on {story.pod.node}; asked for now, it would be refused: {code}: {message}"
        case InvalidRequest(message, code, enforced=False), _:
            return f"no pool is enforced, so it passes; where one is: {code}: {message}"
        case InvalidRequest(message, code), _:
            return f"{code}: {message}"
        case _, Placement() as placed if not story.pod.node:
            degraded = ", degraded" if placed.fit.degraded else ""
            return f"it fits on {placed.node}, {', '.join(placed.domains) or 'by count only'}{degraded}"
        case _, Rejection(code) if not story.pod.node:
            return f"it waits: {code}"
        case _, decision:
            where = f"it runs on {story.pod.node}"
            if isinstance(decision, Rejection):
                return f"{where}; asked for now, it would wait: {decision.code}"
            degraded = ", degraded" if story.grant and story.grant.degraded else ""
            domains = f", {', '.join(story.grant.domains)}" if story.grant and story.grant.domains else ""
            return where + domains + degraded


def story_document(story: Story) -> Document:
    request = story.request
    return {
        "apiVersion": "atoll.dev/v1alpha1",
        "kind": "Explanation",
        "pod": name_of(story),
        "asks": asked_document(request) if isinstance(request, GpuRequest) else None,
        "ruling": ruling_document(story),
        "outcome": outcome_document(story),
        "explanation": explanation_document(story.pod.name, story.explanation) if story.explanation else None,
    }


def change_document(change: Change) -> Document:
    sides = (("now", change.before), ("then", change.after))
    return {
        "pod": name_of(change.before),
        "running": bool(change.before.pod.node),
        **{
            word: {
                "asks": asked_document(story.request) if isinstance(story.request, GpuRequest) else None,
                "ruling": ruling_document(story),
                "outcome": outcome_document(story),
            }
            for word, story in sides
        },
    }


def asked_document(request: GpuRequest) -> Document:
    return {
        "gpus": request.gpus,
        "policy": str(request.promised),
        "scope": [str(scope) for scope in request.scopes],
        "partition": request.partition,
        "perContainer": request.per_container,
        "serviceClass": str(request.service_class) if request.service_class else None,
        "degradeAfterSeconds": request.degrade_after_s or None,
    }


def ruling_document(story: Story) -> Document:
    ruling = story.ruling
    shadow = {"policy": ruling.shadow[0], "rule": ruling.shadow[1]} if ruling.shadow else None
    return {
        "policy": ruling.policy or None,
        "rule": ruling.rule or None,
        "shadow": shadow,
        "passedOver": [
            {"policy": each.policy, "rule": each.rule, "why": each.unmet} for each in story.considered if each.unmet
        ],
    }


def outcome_document(story: Story) -> Document:
    decision = story.decision
    node = story.pod.node or (decision.node if isinstance(decision, Placement) else None)
    uuids = story.grant.uuids if story.grant else _uuids(decision)
    code = None
    if isinstance(story.request, InvalidRequest):
        code = str(story.request.code)
    elif isinstance(decision, Rejection):
        code = str(decision.code)
    degraded = story.grant.degraded if story.grant else isinstance(decision, Placement) and decision.fit.degraded
    return {
        "running": bool(story.pod.node),
        "node": node,
        "uuids": sorted(uuids),
        "degraded": degraded,
        "code": code,
        "message": outcome_text(story),
    }


def _ruling_lines(story: Story) -> Iterator[Text]:
    ruling = story.ruling
    yield Text(f"  by {ruling}" if ruling.policy else "  by what is built in: no PlacementPolicy is for it")
    if ruling.shadow:
        yield Text(f"  in shadow: PlacementPolicy {ruling.shadow[0]}, rule {ruling.shadow[1]} would hold instead")
    for each in story.considered:
        if each.unmet:
            yield Text(f"  passed over: PlacementPolicy {each.policy}, rule {each.rule}: {each.unmet}", style="dim")


def _uuid_lines(story: Story) -> Iterator[Text]:
    uuids = story.grant.uuids if story.grant else _uuids(story.decision)
    yield from (Text(f"  {uuid}") for uuid in sorted(uuids))


def _uuids(decision: Placement | Rejection | None) -> list[str]:
    if not isinstance(decision, Placement):
        return []
    return [part.uuid for container in decision.containers for part in container.parts]
