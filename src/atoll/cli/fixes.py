"""What would make a waiting pod fit, as lines with the command that does it, and as data."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from atoll.cli.counted import gpus_text
from atoll.core.fixes import Add, Admit, Fix, Loosen, Move, Remedy, Shrink, Widen
from atoll.core.kube_facts import Rule
from atoll.core.ledger import Lost, Owner

Document = dict[str, Any]


def fix_lines(fixes: tuple[Fix, ...], pod: str) -> Iterator[Text]:
    """The cheapest first, each with the command that does it. Args: pod: namespace/name, "" = it is not there yet."""
    yield Text(f"  {_cheapest(fixes)}", style="bold")
    for fix in fixes:
        if not isinstance(fix, Remedy):
            yield Text(f"  or: {_told(fix)}")
        if command := command_of(fix, pod):
            yield Text(f"    $ {command}", style="dim")


def ends_text(remedy: Remedy) -> str:
    names = [owner.name for owner in remedy.owners]
    return " and ".join(names) + (" ends" if len(names) == 1 else " end")


def command_of(fix: Fix, pod: str) -> str:
    """The command that carries it out; "" where it is more than one, or pod is none that could be changed."""
    namespace, _, name = pod.partition("/")
    match fix:
        case Remedy(owners=owners) if pod and len({owner.namespace for owner in owners}) == 1:
            return f"kubectl delete pod -n {owners[0].namespace} {' '.join(owner.name for owner in owners)}"
        case Admit(node=node, rule=Rule.CORDON):
            return f"kubectl uncordon {node}"
        case Widen(scope=scope) if pod:
            return f"kubectl annotate pod -n {namespace} {name} atoll.dev/scope={scope} --overwrite"
        case Loosen() if pod:
            return f"kubectl annotate pod -n {namespace} {name} atoll.dev/policy=Preferred --overwrite"
        case Move(owner=owner) if pod:
            return f"kubectl delete pod -n {owner.namespace} {owner.name}"
        case _:
            return ""


def fix_document(fix: Fix, pod: str) -> Document:
    """Args: pod: see `fix_lines`."""
    return {**_change(fix), "command": command_of(fix, pod) or None}


def _change(fix: Fix) -> Document:
    match fix:
        case Remedy(node, owners, gpus):
            return {"kind": "EndPods", "node": node, "pods": [_owner(owner) for owner in owners], "gpus": gpus}
        case Admit(node, rule, why):
            return {"kind": "AdmitPod", "node": node, "rule": str(rule), "why": why}
        case Widen(scope, node):
            return {"kind": "WidenScope", "node": node, "scope": str(scope)}
        case Loosen(node, lost):
            loses = {"scope": str(lost.scope), "worstLink": lost.worst_link} if lost else None
            return {"kind": "PreferOnly", "node": node, "lost": loses}
        case Shrink(gpus, node):
            return {"kind": "AskForFewer", "node": node, "gpus": gpus}
        case Move(owner, gpus, node, to):
            return {"kind": "MovePod", "node": node, "pod": _owner(owner), "gpus": gpus, "to": to}
        case Add(like, gpus):
            return {"kind": "AddNode", "like": like, "gpus": gpus}


def _cheapest(fixes: tuple[Fix, ...]) -> str:
    for fix in fixes:
        if isinstance(fix, Remedy):
            return f"cheapest: it runs on {fix.node} once {ends_text(fix)} ({gpus_text(fix.gpus)})"
    return "no pod's end would help"


def _told(fix: Fix) -> str:
    match fix:
        case Admit(node, _, why):
            return f"GPUs are there for it on {node} now, but for this: {why}"
        case Widen(scope, node):
            return f"with scope {scope} it runs on {node} now"
        case Loosen(node, None):
            return f"as a preference (Preferred) it runs on {node} now"
        case Loosen(node, Lost(scope, worst_link)):
            return f"as a preference (Preferred) it runs on {node} now, within one {scope}, worst link {worst_link}"
        case Shrink(gpus, node):
            return f"with {gpus_text(gpus)} it runs on {node} now"
        case Move(owner, gpus, node, to):
            return f"it runs on {node} once {owner.name} ({gpus_text(gpus)}) has moved to {_other(to, node)}"
        case Add(like, gpus):
            return f"it runs on one more node like {like} ({gpus_text(gpus)})"
        case _:
            return ""


def _other(to: str, node: str) -> str:
    return "another place there" if to == node else to


def _owner(owner: Owner) -> Document:
    return {"namespace": owner.namespace, "name": owner.name}
