"""From signs to findings: what one node or pod shows becomes one ranked finding per kind of problem.

A kind that shows on one node is told in that node's own words; on several, it is told once with the nodes as evidence.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from atoll.core.audit.kinds import KINDS, Kind
from atoll.core.audit.report import Finding, Severity
from atoll.core.audit.vendors import Vendor, command_for

EVIDENCE_MAX = 12


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing seen.

    Attributes:
        kind: a code of `KINDS`. detail: what was seen, a clause that follows the node's name.
        where: node, file, controller, or "" for the cluster; `node` tells whether it is a node.
        weight: GPUs concerned. severity, effect, fix, command: where they differ from the kind's.
        vendor: whose commands help there. apart: signs of one kind that differ in this are findings of their own.
    """

    kind: str
    detail: str
    where: str = ""
    pods: tuple[str, ...] = ()
    weight: int = 1
    severity: Severity | None = None
    effect: str = ""
    fix: str = ""
    command: str = ""
    node: bool = True
    apart: str = ""
    vendor: Vendor = Vendor.NVIDIA


_RANK = {kind.code: rank for rank, kind in enumerate(KINDS)}
_SEVERITY = {severity: rank for rank, severity in enumerate(Severity)}


def findings_of(signs: Iterable[Sign]) -> tuple[Finding, ...]:
    """One finding per kind and severity, ranked: severity, then consequence, then GPUs concerned."""
    groups: dict[tuple[str, Severity, str], list[Sign]] = {}
    for sign in signs:
        severity = sign.severity or KINDS[_RANK[sign.kind]].severity
        groups.setdefault((sign.kind, severity, sign.apart), []).append(sign)
    found = [_finding(KINDS[_RANK[code]], severity, members) for (code, severity, _), members in groups.items()]
    return tuple(sorted(found, key=lambda each: (_SEVERITY[each.severity], _RANK[each.code], -each.weight, each.title)))


def _finding(kind: Kind, severity: Severity, signs: list[Sign]) -> Finding:
    signs = sorted(signs, key=lambda sign: (-sign.weight, sign.where, sign.detail))
    places = tuple(dict.fromkeys(sign.where for sign in signs if sign.where))
    first = signs[0]
    told = tuple(dict.fromkeys(_sentence(sign) for sign in signs))
    if first.apart and len(told) > 1:
        title = kind.many.format(n=len(told), of=first.apart)
        told = evidence = tuple(dict.fromkeys(sign.detail for sign in signs))
    elif len(places) > 1:
        title, evidence = kind.many.format(n=len(places)), told
    elif not first.where and len(told) > 1:
        title, evidence = kind.many.format(n=len(told)), told
    else:
        title, evidence = told[0], told[1:]
        title += f" (and {len(evidence)} more)" if evidence else ""
    beyond = len(evidence) - EVIDENCE_MAX
    return Finding(
        code=kind.code,
        severity=severity,
        title=title,
        evidence=(
            *evidence[:EVIDENCE_MAX],
            *((f"and {beyond} more",) if beyond > 0 else ()),
        ),
        effect=(first.effect if len(signs) == 1 else "") or kind.effect,
        fix=(first.fix if len(told) == 1 else "") or kind.fix or first.fix,
        command=first.command or command_for(first.vendor, kind.command),
        nodes=tuple(dict.fromkeys(sign.where for sign in signs if sign.where and sign.node)),
        pods=tuple(dict.fromkeys(pod for sign in signs for pod in sign.pods)),
        weight=sum(sign.weight for sign in signs),
    )


def _sentence(sign: Sign) -> str:
    if sign.where:
        return f"{sign.where}: {sign.detail}"
    first = sign.detail.partition(" ")[0]
    return sign.detail[:1].upper() + sign.detail[1:] if first.isalpha() else sign.detail  # names keep their spelling
