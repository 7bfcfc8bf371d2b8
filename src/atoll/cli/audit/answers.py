"""The machines and their software as sections of the page: topology, versions, abilities, and what was not seen."""

import re
from collections.abc import Iterable, Mapping, Sequence

from atoll.cli.audit.blocks import (
    ROWS_MAX,
    Doc,
    chips,
    count,
    facts,
    folded,
    rest,
    section,
    severity,
    short,
    table,
)
from atoll.cli.audit.markup import Content, Markup, el, join
from atoll.cli.audit.pictures import pictures

CARDS_MAX = 24
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d{1,9})")


def topology(document: Doc) -> Markup:
    nodes = list(document.get("nodes", ()))
    told: Content = pictures(nodes) if nodes else el("p", "No node with GPUs was seen.", class_="empty")
    return section("topology", "Topology", told, lead="One box per island, one tile per GPU.", number=1)


def versions(document: Doc) -> Markup:
    components = [
        (
            el("code", component.get("name", "")),
            el("code", component["version"]) if component.get("version") else el("em", "unknown"),
            str(component.get("role", "")),
            _nodes(component.get("nodes", ())),
            join(
                _settings(component.get("settings") or {}), el("span", str(component.get("source", "")), class_="quiet")
            ),
        )
        for component in document.get("components", ())
    ]
    defects = [_defect(found) for found in document.get("defects", ())]
    return section(
        "versions",
        "Versions and their known defects",
        table(
            "Components",
            ("Component", "Version", "Role", "Nodes", "Settings, and where seen"),
            components,
            most=ROWS_MAX,
            more="components",
        )
        if components
        else el("p", "No component of the GPU stack was seen.", class_="empty"),
        join(
            el("h3", "Known defects of exactly these versions"),
            table(
                "Known defects",
                ("Defect", "Version", "What it does", "What helps"),
                defects,
                most=ROWS_MAX,
                more="defects",
            ),
        )
        if defects
        else el("p", "None of the known defects is in these versions.", class_="empty"),
        number=2,
    )


def _defect(found: Doc) -> Sequence[Content]:
    defect = found.get("defect") or {}
    since, before = defect.get("since") or "", defect.get("before") or ""
    span = " · ".join(
        part for part in (f"since {since}" if since else "", f"before {before}" if before else "no fix known") if part
    )
    return (
        join(severity(str(defect.get("severity", "info"))), el("span", str(defect.get("title", "")), class_="what")),
        join(
            el("code", str(found.get("component", "")), class_="exact"),
            el("code", str(found.get("version") or "version unknown"), class_="exact block"),
            el("span", span, class_="quiet block"),
            _nodes(found.get("nodes", ())),
        ),
        str(defect.get("effect", "")),
        join(str(defect.get("fix", "")), " ", _source(str(defect.get("source", "")))),
    )


def _source(source: str) -> Markup | None:
    """A link for a person to follow. Only web addresses become links; the page itself requests none."""
    issue = _ISSUE.fullmatch(source)
    target = f"https://github.com/{issue[1]}/issues/{issue[2]}" if issue else source
    if not target.startswith("https://"):
        return el("span", source, class_="quiet") if source else None
    shown = source if issue else target.removeprefix("https://").split("/", 1)[0]
    return el("a", shown, href=target, rel="noreferrer noopener", class_="source")


def abilities(document: Doc) -> Markup:
    given = list(document.get("abilities", ()))
    cards = [
        el(
            "article",
            el("h3", str(ability.get("subject", ""))),
            _list("can", "✓", "can", ability.get("can", ())),
            _list("cannot", "✗", "cannot", ability.get("cannot", ())),
            chips(ability.get("nodes", ()), "nodes"),
            class_="ability",
        )
        for ability in given[:CARDS_MAX]
    ]
    return section(
        "abilities",
        "What hands out GPUs here, and what it can promise",
        el("div", cards, class_="abilities")
        if cards
        else el("p", "Nothing that hands out GPUs was seen.", class_="empty"),
        rest(len(given) - CARDS_MAX, "ways"),
        number=3,
    )


def _list(kind: str, sign: str, word: str, texts: Iterable[str]) -> Markup | None:
    shown = [
        el(
            "li",
            el("span", sign, aria_hidden="true", class_="sign"),
            el("span", f"{word}: ", class_="hidden"),
            short(str(text)),
        )
        for text in texts
    ]
    return el("ul", shown, class_=kind) if shown else None


def unseen(rows: Iterable[Doc], caption: str) -> Markup:
    """What could not be seen, as a table."""
    shown = [
        (
            el("code", str(one.get("what", ""))),
            short(str(one.get("why", ""))),
            el("code", one["remedy"]) if one.get("remedy") else None,
        )
        for one in rows
    ]
    return table(caption, ("What", "Why", "What would show it"), shown, most=ROWS_MAX, more="entries")


def _settings(settings: Mapping[str, object]) -> Markup | None:
    return facts((name, el("code", short(str(value), 120))) for name, value in settings.items())


def _nodes(names: Sequence[str]) -> Content:
    """Names of nodes where they are few; their number where they are many; "all" where there is none."""
    if not names:
        return "all"
    return chips(names) if len(names) <= 3 else folded(count(len(names), "node"), chips(names))
