"""The audit as one HTML file that needs nothing else: no script, no font, no picture and no request to anywhere.

It is made of the document that `-o json` prints, and adds nothing to it. However large the cluster is, the page stays
bounded: nodes that look alike are drawn once, and what is beyond a bound is counted.
"""

from importlib.resources import files
from string import Template

from atoll.cli.audit import answers, occupancy
from atoll.cli.audit.blocks import (
    ANSWER_SIGNS,
    Doc,
    chips,
    count,
    folded,
    lines,
    moment,
    rest,
    section,
    severity,
    short,
)
from atoll.cli.audit.markup import Markup, clean, el, join
from atoll.cli.audit.pictures import fleet_bar

FINDINGS_MAX = 50
COMMANDS_WORD = "Command"
SECTIONS = {
    "topology": answers.topology,
    "versions": answers.versions,
    "abilities": answers.abilities,
    "assignments": occupancy.assignments,
    "fragments": occupancy.fragments,
    "incidents": occupancy.incidents,
}
"""The six points in the order of the document."""
_FOLDER = files("atoll.cli.audit")

MARK = Markup(
    '<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">'
    '<path d="M16 4a12 12 0 1 0 11 7" fill="none" stroke="currentColor" stroke-width="4" stroke-linecap="round"/>'
    '<circle cx="16" cy="16" r="3.5" fill="currentColor"/></svg>'
)


def page_of(document: Doc) -> str:
    """The whole file."""
    origin = clean(str(document.get("origin") or "this cluster"))
    body = join(
        _header(document, origin),
        el("main", _findings(document), [make(document) for make in SECTIONS.values()], _blind(document)),
        _footer(),
    )
    return Template((_FOLDER / "report.html").read_text(encoding="utf-8")).substitute(
        title=el("x", f"GPU audit of {origin}")[len("<x>") : -len("</x>")],
        style=(_FOLDER / "report.css").read_text(encoding="utf-8"),
        body=body,
    )


def _header(document: Doc, origin: str) -> Markup:
    totals = document.get("totals") or {}
    taken = moment(str(document.get("taken") or ""))
    return el(
        "header",
        el("p", MARK, " Atoll · GPU audit", class_="brand"),
        el("h1", origin),
        el(
            "p",
            ["As of ", taken, ". "] if taken else None,
            "Read only: nothing was installed or changed.",
            class_="lead",
        ),
        el("p", _verdict(document), class_="verdict"),
        _numbers(totals),
        fleet_bar(document.get("nodes", ())),
        _points(document),
    )


def _verdict(document: Doc) -> str:
    """One sentence for who reads no further."""
    totals = document.get("totals") or {}
    words = [str(finding.get("severity", "")) for finding in document.get("findings", ())]
    critical, warning = words.count("critical"), words.count("warning")
    split = totals.get("splitPods") or 0
    parts = [f"{count(critical, 'critical finding')} and {count(warning, 'warning')}."]
    starved = [
        (len(size["enoughButBroken"]), size) for size in document.get("sizes", ()) if size.get("enoughButBroken")
    ]
    if starved:
        nodes, size = max(starved, key=lambda pair: pair[0])
        verb, gpus = ("has" if nodes == 1 else "have"), count(size.get("gpus"), "GPU")
        parts.insert(0, f"{count(nodes, 'node')} {verb} {gpus} free, but no intact island for them.")
    if split:
        verb, each = ("is", "it") if split == 1 else ("are", "each of them")
        parts.insert(0, f"{count(split, 'pod')} {verb} split over islands although one island could hold {each}.")
    return " ".join(parts)


def _numbers(totals: Doc) -> Markup:
    free = totals.get("free")
    cells = [
        ("Nodes with GPUs", _number(totals.get("nodes")), ""),
        ("GPUs", _number(totals.get("gpus")), ""),
        ("Free now", "?" if free is None else _number(free), ""),
        ("Pods with GPUs", _number(totals.get("pods")), ""),
        ("Split pods", _number(totals.get("splitPods")), "bad" if totals.get("splitPods") else ""),
        ("Waiting pods", _number(totals.get("waitingPods")), "bad" if totals.get("waitingPods") else ""),
    ]
    return el(
        "dl",
        [el("div", el("dt", name), el("dd", value), class_=kind or None) for name, value, kind in cells],
        class_="numbers",
    )


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _points(document: Doc) -> Markup | None:
    """The six points, each with a link to its section and whether it could be answered."""
    shown = []
    for place, point in enumerate(document.get("points", ())):
        answer = str(point.get("answer", ""))
        target = tuple(SECTIONS)[place] if place < len(SECTIONS) else "blind"
        shown.append(
            el(
                "li",
                el(
                    "a",
                    el("span", ANSWER_SIGNS.get(answer, "–"), class_="sign", aria_hidden="true"),
                    el("span", str(point.get("name", "")), class_="name"),
                    el("span", answer, class_="answer"),
                    el("span", short(str(point["why"])), class_="why") if point.get("why") else None,
                    href=f"#{target}",
                ),
                class_=answer.replace(" ", "-") if answer in ANSWER_SIGNS else None,
            )
        )
    return el("nav", el("ol", shown), class_="points", aria_label="The six points") if shown else None


def _findings(document: Doc) -> Markup:
    findings = list(document.get("findings", ()))
    if not findings:
        return section(
            "findings", "Findings", el("p", "Nothing was found that a person should act on.", class_="empty")
        )
    return section(
        "findings",
        "Findings",
        el("ol", [_finding(finding) for finding in findings[:FINDINGS_MAX]], class_="findings"),
        rest(len(findings) - FINDINGS_MAX, "findings"),
        lead="Ranked: what fails or breaks a promise first, then what wastes capacity, then what is good to know.",
    )


def _finding(finding: Doc) -> Markup:
    word = str(finding.get("severity", "info"))
    command = str(finding.get("command") or "")
    pods = list(finding.get("pods", ()))
    return el(
        "li",
        el("h3", severity(word), " ", str(finding.get("title", ""))),
        el("p", str(finding["effect"])) if finding.get("effect") else None,
        lines(finding.get("evidence", ()), most=6),
        el("p", el("strong", "Fix: "), str(finding["fix"]), class_="fix") if finding.get("fix") else None,
        el("pre", el("code", command), tabindex=0, aria_label=COMMANDS_WORD) if command else None,
        el(
            "div",
            chips(finding.get("nodes", ()), "nodes"),
            folded(count(len(pods), "pod"), chips(pods, "pods")) if pods else None,
            el("code", str(finding.get("code", "")), class_="code"),
            class_="meta",
        ),
        class_=f"finding {word if word in {'critical', 'warning', 'info'} else 'info'}",
    )


def _blind(document: Doc) -> Markup:
    unseen = list(document.get("blind", ()))
    surprising = [one for one in unseen if not one.get("expected")]
    ordinary = [one for one in unseen if one.get("expected")]
    if not unseen:
        told: Markup = el("p", "Everything that was looked for could be read.", class_="empty")
    else:
        told = join(
            answers.unseen(surprising, "Not seen, and it would have mattered") if surprising else None,
            folded(f"{count(len(ordinary), 'thing')} that need not be there", answers.unseen(ordinary, "Not installed"))
            if ordinary
            else None,
        )
    return section("blind", "What could not be seen", told, lead="The audit went on without these.")


def _footer() -> Markup:
    return el(
        "footer",
        el(
            "p",
            "An island is the set of GPUs that share the named domain. It is intact when all are sound and free.",
        ),
        el("p", "Made by atoll audit. The same report for programs: atoll audit -o json."),
    )
