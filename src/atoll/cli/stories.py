"""What holds for a pod and what becomes of it, as lines for a terminal and as data that scripts may rely on."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from atoll.cli.counted import gpus_text
from atoll.cli.explanations import explanation_document, explanation_lines
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
    yield from (Text(f"  {said}") for said in _standing(story))
    yield Text()
    match story.decision:
        case Rejection() if story.explanation is not None and not story.pod.node:
            yield from explanation_lines(name, story.explanation, there=story.there)
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
        case _, _ if not story.there:
            return f"it names node {story.pod.node}, so Atoll is not asked, and cannot tell which GPUs it gets"
        case _, _ if story.grant is None:
            return f"it runs on {story.pod.node}, past Atoll: no ledger names it, so nobody knows which GPUs it has"
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
        "standing": standing_document(story),
        "outcome": outcome_document(story),
        "explanation": _why(story),
    }


def _why(story: Story) -> Document | None:
    return explanation_document(name_of(story), story.explanation, there=story.there) if story.explanation else None


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
    uuids = _held(story)
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
    yield from (Text(f"  {uuid}") for uuid in sorted(_held(story)))


def _held(story: Story) -> Iterable[str]:
    """UUIDs of what is recorded for it, or what it would get; nothing where nobody knows."""
    if story.grant is not None:
        return story.grant.uuids
    return [] if story.pod.node else _uuids(story.decision)


def _standing(story: Story) -> Iterator[str]:
    """How it stands with a pod that is there and has no node yet: what holds it, and what it was told."""
    pod = story.pod
    if not story.there or pod.node:
        return
    if pod.gates:
        yield f"waits behind {' and '.join(pod.gates)}"
    if pod.gang is not None:
        size = f", {pod.gang.size} pods at once" if pod.gang.size else ""
        yield f"is placed with its gang {pod.gang.name}{size}"
    if sent := _sent_to(story):
        said = f", which says: {pod.unschedulable}" if pod.unschedulable else ", which has not bound it yet"
        yield f"was sent to node {sent}, to be bound by {pod.scheduler}{said}"
    if pod.placed is not None:
        yield f"is told: {pod.placed[0]}: {pod.placed[1].partition(chr(10))[0]}"


def _sent_to(story: Story) -> str:
    sent = story.grant is not None and story.grant.pins and not story.pod.gated
    return story.pod.pinned if sent else ""


def standing_document(story: Story) -> Document | None:
    pod = story.pod
    if not story.there or pod.node:
        return None
    return {
        "gates": list(pod.gates),
        "gang": {"name": pod.gang.name, "size": pod.gang.size or None} if pod.gang else None,
        "sentTo": _sent_to(story) or None,
        "told": {"reason": pod.placed[0], "message": pod.placed[1]} if pod.placed else None,
        "unschedulable": pod.unschedulable or None,
    }


def _uuids(decision: Placement | Rejection | None) -> list[str]:
    if not isinstance(decision, Placement):
        return []
    return [part.uuid for container in decision.containers for part in container.parts]
