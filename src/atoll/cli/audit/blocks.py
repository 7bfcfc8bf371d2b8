"""The pieces that every section of the page is made of: sections, tables, chips, bounded lists, badges, bars."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from atoll.cli.audit.markup import Content, Markup, el, join

Doc: TypeAlias = Mapping[str, Any]
"""A part of the audit's document, as `-o json` prints it."""

ROWS_MAX = 200
CHIPS_MAX = 12
TEXT_MAX = 600
SEVERITY_SIGNS = {"critical": "▲", "warning": "◆", "info": "●"}
ANSWER_SIGNS = {"answered": "✓", "partly": "◐", "not answerable": "–"}


def section(name: str, title: str, *content: Content, lead: str = "", number: int | None = None) -> Markup:
    """A section with its heading and a sentence below it."""
    return el(
        "section",
        el("h2", el("span", number, class_="number") if number else None, title, id=f"{name}-title"),
        el("p", lead, class_="lead") if lead else None,
        *content,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Content]], *, most: int, more: str) -> Markup:
    """A table that scrolls inside itself where it is too wide. The first cell of a row is its head.

    Args:
        most: rows shown. more: what the others are, e.g. "pods", for the line that counts them.
    """
    given = list(rows)
    body = [
        el("tr", el("th", row[0], scope="row"), [el("td", cell) for cell in row[1:]], class_="row")
        for row in given[:most]
    ]
    return join(
        el(
            "div",
            el(
                "table",
                el("caption", caption, class_="quiet-caption"),
                el("thead", el("tr", [el("th", head, scope="col") for head in heads])),
                el("tbody", body),
            ),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label=caption,
        ),
        rest(len(given) - most, more),
    )


def rest(count: int, what: str) -> Markup | None:
    """The line that counts what is not shown."""
    if count <= 0:
        return None
    return el("p", f"{count:,} more {what} are not shown here; atoll audit -o json lists all of them.", class_="more")


def chips(names: Iterable[str], what: str = "") -> Markup | None:
    """Names side by side, the first few of them; the others can be opened up to a bound, and are counted."""
    given = [str(name) for name in names]
    if not given:
        return None
    shown = [el("li", el("code", name)) for name in given[:CHIPS_MAX]]
    if len(given) > CHIPS_MAX:
        shown.append(el("li", f"and {len(given) - CHIPS_MAX:,} more {what}".rstrip(), class_="and"))
    return el("ul", shown, class_="chips")


def severity(word: str) -> Markup:
    """A badge that tells severity by sign, word and colour."""
    sign = SEVERITY_SIGNS.get(word, "●")
    return el("span", el("span", sign, aria_hidden="true"), " ", word, class_=f"badge {_known(word, SEVERITY_SIGNS)}")


def bar(parts: Sequence[tuple[str, int]], label: str) -> Markup:
    """A stacked bar. Parts are (kind, count), where the kind is a class of the style sheet."""
    total = sum(count for _, count in parts) or 1
    return el(
        "div",
        [el("span", class_=f"part {kind}", style=f"flex-grow:{count / total:.4f}") for kind, count in parts if count],
        class_="bar",
        role="img",
        aria_label=label,
    )


def facts(pairs: Iterable[tuple[str, Content]]) -> Markup | None:
    """Names and values below each other."""
    rows = [el("div", el("dt", name), el("dd", value)) for name, value in pairs]
    return el("dl", rows, class_="facts") if rows else None


def folded(summary: Content, *content: Content) -> Markup:
    """Content that opens on demand, and that a print shows open."""
    return el("details", el("summary", summary), *content)


def lines(texts: Iterable[str], most: int = 8, render: Callable[[str], Content] = str) -> Markup | None:
    """Sentences as a list; those beyond the bound are counted."""
    given = list(texts)
    if not given:
        return None
    shown = [el("li", render(short(text))) for text in given[:most]]
    if len(given) > most:
        shown.append(el("li", f"and {len(given) - most:,} more", class_="and"))
    return el("ul", shown, class_="lines")


def short(text: str, most: int = TEXT_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def moment(text: str) -> Markup | None:
    """A time of RFC 3339, readable."""
    if not text:
        return None
    shown = text[:16].replace("T", " ") + (" UTC" if text.endswith("Z") else "")
    return el("time", shown, datetime=text, title=text)


def count(number: int | None, one: str, many: str = "") -> str:
    """ "1 node", "5,000 nodes"; an unknown number is a question mark."""
    if number is None:
        return f"? {many or one + 's'}"
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _known(word: str, words: Iterable[str]) -> str:
    return word if word in words else "info"
