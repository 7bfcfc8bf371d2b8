"""Who holds what and what it costs, as sections of the page: assignments, fragments, incidents."""

from collections.abc import Sequence

from atoll.cli.audit.blocks import (
    ROWS_MAX,
    Doc,
    bar,
    chips,
    count,
    facts,
    folded,
    lines,
    moment,
    rest,
    section,
    short,
    table,
)
from atoll.cli.audit.markup import Content, Markup, el, join
from atoll.cli.audit.pictures import HUES, letter


def assignments(document: Doc) -> Markup:
    held = [
        (node, position, holder)
        for node in document.get("nodes", ())
        for position, holder in enumerate(node.get("holders", ()))
    ]
    held.sort(key=lambda row: (not row[2].get("split"), str(row[0].get("name")), row[1]))
    rows = [_assignment(node, position, holder) for node, position, holder in held[:ROWS_MAX]]
    told: Content = (
        join(
            table(
                "Who holds which GPUs",
                ("Pod", "Node", "GPUs", "Placement", "Since, and where read"),
                rows,
                most=ROWS_MAX,
                more="pods",
            ),
            rest(len(held) - ROWS_MAX, "pods"),
        )
        if rows
        else el("p", "No pod is known to hold a GPU.", class_="empty")
    )
    return section("assignments", "Who holds which GPUs", told, lead="Split pods first.", number=4)


def _assignment(node: Doc, position: int, holder: Doc) -> Sequence[Content]:
    gpus = node.get("gpus", ())
    mine = [gpus[place] for place in holder.get("gpus", ()) if 0 <= place < len(gpus)]
    indices = ", ".join(str(gpu.get("index")) for gpu in mine)
    uuids = [el("li", el("code", gpu.get("uuid") or "UUID unknown")) for gpu in mine]
    split = bool(holder.get("split"))
    reach = f"within {holder['spans']}" if holder.get("spans") else None
    link = f"worst link {holder['worstLink']}" if holder.get("worstLink") else None
    return (
        join(
            el("span", letter(position), class_=f"swatch held h{position % HUES}", aria_hidden="true"),
            el("code", str(holder.get("pod", ""))),
            el("span", str(holder["controller"]), class_="quiet block") if holder.get("controller") else None,
        ),
        el("code", str(node.get("name", ""))),
        folded(f"{count(holder.get('count'), 'GPU')}: {indices}", el("ul", uuids, class_="uuids"))
        if mine
        else f"{count(holder.get('count'), 'GPU')}, which is not known",
        join(
            el("span", "split", class_="badge critical") if split else None,
            el("span", " · ".join(part for part in (reach, link) if part), class_="block"),
            lines(holder.get("incidents", ()), most=3),
        ),
        join(moment(str(holder.get("since") or "")), el("span", str(holder.get("source", "")), class_="quiet block")),
    )


def fragments(document: Doc) -> Markup:
    sizes = list(document.get("sizes", ()))
    rows = [_size(size) for size in sizes]
    return section(
        "fragments",
        "Fragments: what a request would still get",
        table(
            "Requests by size",
            ("Request", "Intact slots now", "Would go to", "Enough free, none intact", "Refused"),
            rows,
            most=ROWS_MAX,
            more="sizes",
        )
        if rows
        else el("p", "No size could be judged.", class_="empty"),
        _stock(document),
        lead="A slot is room for one whole request inside a domain. Free GPUs that make no slot are fragments.",
        number=5,
    )


def _stock(document: Doc) -> Markup | None:
    """The same requests without Atoll; left out where nothing can be told of any node."""
    sizes = list(document.get("stock", ()))
    if not any(size.get(word) for size in sizes for word in ("whole", "split", "fails")):
        return None
    rows = [
        (
            el("span", count(size.get("gpus", 0), "GPU"), class_="size"),
            count(size.get("whole"), "node"),
            join(
                el("span", count(size.get("split"), "node"), class_="broken" if size.get("split") else None),
                el("span", "beside a fit:", class_="quiet block") if size.get("avoidable") else None,
                chips(size.get("avoidable", ()), "nodes"),
            ),
            count(size.get("fails"), "node"),
            count(size.get("unknown"), "node"),
        )
        for size in sizes
    ]
    heads = ("Request", "Always whole", "May be split", "Fails after binding", "Cannot be told")
    return join(
        el("h3", "The same requests without Atoll"),
        table("The same requests without Atoll", heads, rows, most=ROWS_MAX, more="sizes"),
    )


def _size(size: Doc) -> Sequence[Content]:
    slots, empty = size.get("slots") or 0, size.get("slotsEmpty") or 0
    broken = list(size.get("enoughButBroken", ()))
    gpus = size.get("gpus", 0)
    refused = dict(size.get("refused") or {})
    return (
        el("span", count(gpus, "GPU"), class_="size"),
        join(
            bar(
                [("intact", slots), ("lost", max(0, empty - slots))],
                f"{slots} of {empty} slots of {gpus} GPUs are intact",
            ),
            el("span", f"{slots:,} of {empty:,} if nothing ran", class_="quiet"),
        ),
        join(el("code", size["best"]), " ", el("span", f"of {count(size.get('fits'), 'node')}", class_="quiet"))
        if size.get("best")
        else ("nowhere now" if size.get("fits") is not None else "unknown now"),
        join(
            el("span", f"{count(len(broken), 'node')}: {gpus} free, none intact", class_="broken"),
            chips(broken, "nodes"),
        )
        if broken
        else "none",
        facts((code, f"{number:,}" if isinstance(number, int) else str(number)) for code, number in refused.items()),
    )


def incidents(document: Doc) -> Markup:
    rows = [
        (
            join(el("code", str(one.get("reason", ""))), el("span", f"× {one.get('count', 0):,}", class_="times")),
            el("code", str(one.get("where", ""))),
            join(moment(str(one.get("first") or "")), " to ", moment(str(one.get("last") or "")))
            if one.get("first")
            else None,
            join(
                short(str(one.get("message", ""))),
                el("span", f"e.g. {one['example']}", class_="quiet block") if one.get("example") else None,
            ),
        )
        for one in document.get("incidents", ())
    ]
    beside = [
        (
            el("code", str(holder.get("pod", ""))),
            el("code", str(node.get("name", ""))),
            lines(holder.get("incidents", ())),
        )
        for node in document.get("nodes", ())
        for holder in node.get("holders", ())
        if holder.get("incidents")
    ]
    metrics = list(document.get("metrics", ()))
    return section(
        "incidents",
        "Failed pods, events and metrics",
        table("Failed pods and events", ("Reason", "Where", "When", "What was said"), rows, most=ROWS_MAX, more="kinds")
        if rows
        else el("p", "No failed GPU pod and no event about GPUs was seen.", class_="empty"),
        join(
            el("h3", "Beside the placements"),
            table(
                "Events and metrics beside the placements",
                ("Pod", "Node", "Beside it"),
                beside,
                most=ROWS_MAX,
                more="pods",
            ),
        )
        if beside
        else None,
        join(el("h3", "Metrics"), lines(metrics, most=40)) if metrics else None,
        number=6,
    )
