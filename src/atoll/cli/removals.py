"""A plan of removal, as lines for a terminal and as data that scripts may rely on."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.text import Text

from atoll.cli.counted import gpus_text
from atoll.core.removal import Command, Gates, PodLeft, Step

SHOWN = 10
"""Pods, nodes and commands of a step that are printed before the rest is counted."""
Document = dict[str, Any]


def removal_lines(steps: Sequence[Step], gates: Gates, now: datetime, *, whole: bool) -> Iterator[Text]:
    """Args: whole: whether nothing is left out."""
    if not steps:
        yield Text("nothing of Atoll is left on this cluster")
        return
    most = None if whole else SHOWN
    for number, step in enumerate(steps, 1):
        yield Text(f"{number}. {step.title}", style="bold")
        yield from (Text(f"   {note}") for note in step.notes)
        yield from (Text(f"   by hand: {each}") for each in step.by_hand)
        yield from _some([_pod_text(pod, now) for pod in step.pods], most, "pods")
        yield from _some(list(step.nodes), most, "nodes")
        yield from _some([f"$ {command_text(each)}" for each in step.commands], most, "commands")
    if not whole and any(len(each) > SHOWN for step in steps for each in (step.pods, step.nodes, step.commands)):
        yield Text(f"all of it: atoll uninstall --plan --gates {gates} -o wide", style="dim")


def removal_document(steps: Iterable[Step], gates: Gates) -> Document:
    return {
        "apiVersion": "atoll.dev/v1alpha1",
        "kind": "Removal",
        "gates": str(gates),
        "steps": [
            {
                "step": str(step.name),
                "title": step.title,
                "notes": list(step.notes),
                "byHand": list(step.by_hand),
                "commands": [command_text(each) for each in step.commands],
                "pods": [_pod_document(pod) for pod in step.pods],
                "nodes": list(step.nodes),
            }
            for step in steps
        ],
    }


def command_text(command: Command) -> str:
    """As a shell takes it."""
    return shlex.join(command)


def _some(lines: Sequence[str], most: int | None, what: str) -> Iterator[Text]:
    yield from (Text(f"     {line}") for line in lines[:most])
    if most is not None and len(lines) > most:
        yield Text(f"     and {len(lines) - most} more {what}")


def _pod_text(pod: PodLeft, now: datetime) -> str:
    words = [f"{pod.namespace}/{pod.name}"]
    if pod.gpus:
        words.append(f"{gpus_text(pod.gpus)}{', Restricted' if pod.restricted else ''}")
    if pod.node:
        words.append(f"on {pod.node}")
    elif pod.sent:
        words.append(f"sent to {pod.sent}")
    if pod.gates:
        words.append(f"behind {', '.join(pod.gates)}")
    if not pod.node:
        words.append(f"for {age_text(pod.since, now)}")
    if pod.owner:
        words.append(f"of {pod.owner}")
    why = pod.why.partition("\n")[0]
    return ", ".join(words) + (f": {why}" if why else "")


def _pod_document(pod: PodLeft) -> Document:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "since": pod.since or None,
        "gpus": pod.gpus,
        "gates": list(pod.gates),
        "schedulerName": pod.scheduler,
        "node": pod.node or None,
        "sentTo": pod.sent or None,
        "restricted": pod.restricted,
        "granted": pod.granted,
        "owner": pod.owner or None,
        "why": pod.why or None,
    }


def age_text(since: str, now: datetime) -> str:
    """How long ago a moment of the API was, in its largest whole unit."""
    try:
        lasted = max(now - datetime.fromisoformat(since), timedelta())
    except ValueError:
        return "an unknown time"
    seconds = int(lasted.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
