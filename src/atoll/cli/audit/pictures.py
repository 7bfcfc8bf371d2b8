"""A node as a picture: one box per island, one tile per GPU, one letter per holder. Equal nodes are drawn once.

A tile tells its state by sign and border as well as by colour. The letters of the holders are explained below the
islands; the box of an island carries its whole content as a sentence for who cannot see it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from atoll.cli.audit.blocks import Doc, bar, chips, count, facts, folded, lines, rest
from atoll.cli.audit.markup import Markup, el, join
from atoll.cli.tiles import LETTERS

GROUPS_MAX = 40
HOLDERS_MAX = 16
HUES = 8
ROW = 4
"""Tiles of an island that stand beside those of another."""
SIGNS = {"free": "", "out": "×", "unknown": "?", "held": "•"}
STATES = ("held", "free", "out", "unknown")
STATE_WORDS = {"held": "held", "free": "free", "out": "broken or split", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one picture shows. `weight` orders groups: what needs attention comes first."""

    nodes: tuple[Doc, ...]
    weight: tuple[int, ...]

    @property
    def first(self) -> Doc:
        return self.nodes[0]


def groups_of(nodes: Iterable[Doc]) -> list[Group]:
    """Nodes by what their picture shows: those with split holders, broken GPUs and doubts first, then the largest."""
    alike: dict[Any, list[Doc]] = {}
    for node in nodes:
        alike.setdefault(_look(node), []).append(node)
    groups = [Group(tuple(members), _weight(members)) for members in alike.values()]
    return sorted(groups, key=lambda group: (group.weight, str(group.first.get("name", ""))))


def pictures(nodes: Sequence[Doc]) -> Markup:
    """All nodes, as far as the bound goes."""
    groups = groups_of(nodes)
    hidden = sum(len(group.nodes) for group in groups[GROUPS_MAX:])
    return join(
        legend(),
        el("div", [_card(group) for group in groups[:GROUPS_MAX]], class_="nodes"),
        rest(hidden, "nodes"),
    )


def legend() -> Markup:
    """What the tiles mean."""
    held = el("li", el("span", "A", class_="swatch held h0", aria_hidden="true"), "held by a pod")
    others = [
        el("li", el("span", SIGNS[state], class_=f"swatch {state}", aria_hidden="true"), STATE_WORDS[state])
        for state in STATES[1:]
    ]
    return el("ul", held, others, class_="legend", aria_label="What the tiles mean")


def fleet_bar(nodes: Sequence[Doc]) -> Markup | None:
    """All GPUs by state."""
    states = [gpu.get("state", "unknown") for node in nodes for gpu in node.get("gpus", ())]
    if not states:
        return None
    counts = [(state, states.count(state)) for state in STATES]
    words = ", ".join(f"{number:,} {STATE_WORDS[state]}" for state, number in counts if number)
    keys = [
        el("li", el("span", class_=f"dot {state}", aria_hidden="true"), f"{number:,} {STATE_WORDS[state]}")
        for state, number in counts
        if number
    ]
    return el("div", bar(counts, f"GPUs: {words}"), el("ul", keys, class_="keys", aria_hidden="true"), class_="fleet")


def _card(group: Group) -> Markup:
    node = group.first
    holders = node.get("holders", ())
    others = [str(other.get("name", "")) for other in group.nodes[1:]]
    alike = f"and {count(len(others), 'node that looks', 'nodes that look')} the same" if others else None
    return el(
        "article",
        el("h3", el("code", node.get("name", "")), el("span", alike, class_="alike") if alike else None),
        el("p", _summary(node), class_="model"),
        el("div", [_island(node, island) for island in _islands(node)], class_="islands"),
        _holders(holders, len(others)),
        _slots(node),
        el("p", node["links"], class_="links") if node.get("links") else None,
        folded(f"{count(len(others), 'other node')}", chips(others)) if others else None,
        _doubts(node),
        class_="node",
    )


def _summary(node: Doc) -> str:
    gpus, free = node.get("count", 0), node.get("free")
    said = "free GPUs unknown" if free is None or not gpus else f"{free} of {gpus} free"
    hidden = node.get("hidden") or 0
    unplaced = f", {hidden} taken nobody knows where" if hidden else ""
    return " · ".join(part for part in (str(node.get("model") or "model unknown"), said + unplaced) if part)


def _islands(node: Doc) -> list[Doc]:
    """The boxes to draw. GPUs of which nobody knows the island stand in one box together."""
    everything = range(len(node.get("gpus", ())))
    known, alone = [], []
    for island in node.get("islands", ()):
        members = list(island.get("gpus", ()))
        if len(members) == 1 and not island.get("sure", True):
            alone += members
        else:
            known.append(island)
    drawn = {position for island in known for position in island.get("gpus", ())}
    left = sorted({*alone, *everything} - drawn)
    if left:
        scope = str(node.get("islandsBy") or "island")
        known.append({"name": f"{scope} unknown", "gpus": left, "free": None, "sure": False})
    return known


def _island(node: Doc, island: Doc) -> Markup:
    gpus = node.get("gpus", ())
    members = [gpus[position] for position in island.get("gpus", ()) if 0 <= position < len(gpus)]
    states = [gpu.get("state") for gpu in members]
    doubtful = island.get("free") is None or "unknown" in states
    whole = bool(members) and states.count("free") == len(members)
    foot = "intact" if whole else "free unknown" if doubtful else f"{island['free']} of {len(members)} free"
    sure = bool(island.get("sure", True))
    name = str(island.get("name", ""))
    told = "; ".join(f"GPU {gpu.get('index')} {_told(gpu)}" for gpu in members)
    kinds = {"unsure": not sure, "whole": whole and sure, "wide": len(members) > ROW}
    return el(
        "figure",
        el("figcaption", el("span", name), el("span", foot if sure else "not sure", class_="foot")),
        el("div", [_tile(gpu) for gpu in members], class_="tiles", role="img", aria_label=f"{name}: {told}"),
        class_=" ".join(["island", *(kind for kind, so in kinds.items() if so)]),
    )


def _tile(gpu: Doc) -> Markup:
    state = str(gpu.get("state", "unknown"))
    state = state if state in SIGNS else "unknown"
    holder = gpu.get("holder")
    sign = letter(holder) if state == "held" and holder is not None else SIGNS[state]
    hue = f" h{holder % HUES}" if state == "held" and holder is not None else ""
    return el(
        "span",
        el("span", gpu.get("index"), class_="index"),
        el("span", sign, class_="sign"),
        class_=f"tile {state}{hue}",
        aria_hidden="true",
    )


def _told(gpu: Doc) -> str:
    holder = gpu.get("holder")
    if gpu.get("state") == "held" and holder is not None:
        return f"held by {letter(holder)}"
    return STATE_WORDS.get(str(gpu.get("state")), "unknown")


def letter(position: int) -> str:
    """The letter of a node's holder; "*" beyond the alphabet."""
    return LETTERS[position] if 0 <= position < len(LETTERS) else "*"


def _holders(holders: Sequence[Doc], alike: int) -> Markup | None:
    if not holders:
        return None
    shown = [
        el(
            "li",
            el("span", letter(position), class_=f"swatch held h{position % HUES}"),
            el("span", el("code", holder.get("pod", "")), " ", el("span", _placed(holder), class_="quiet")),
            el("span", "split", class_="badge critical") if holder.get("split") else None,
        )
        for position, holder in enumerate(holders[:HOLDERS_MAX])
    ]
    more = len(holders) - HOLDERS_MAX
    if more > 0:
        shown.append(el("li", f"and {more:,} more holders", class_="and"))
    note = (
        el(
            "p",
            f"The pods of the {count(alike, 'other node')} are under ",
            el("a", "who holds which GPUs", href="#assignments"),
            ".",
            class_="quiet",
        )
        if alike
        else None
    )
    return join(el("ul", shown, class_="holders"), note)


def _placed(holder: Doc) -> str:
    parts = [count(holder.get("count"), "GPU")]
    if holder.get("spans"):
        parts.append(f"within {holder['spans']}")
    if holder.get("worstLink"):
        parts.append(f"worst link {holder['worstLink']}")
    return " · ".join(parts)


def _slots(node: Doc) -> Markup | None:
    """Per size, how many requests would still get a whole island; the sizes for which there are GPUs but no island."""
    cells = []
    for slot in node.get("slots", ()):
        now, empty, size = slot.get("now"), slot.get("empty", 0), slot.get("gpus", 0)
        if not empty:
            continue  # no island is that large
        starved = bool(slot.get("broken"))
        word = "?" if now is None else str(now)
        label = f"{size}-GPU slots: {word} of {empty} intact"
        label += f"; {node.get('free')} free, none intact" if starved else ""
        cells.append(
            el(
                "li",
                el("span", f"×{size}", class_="size"),
                el("span", f"{word}/{empty}", class_="left"),
                class_=f"slot{' starved' if starved else ''}{' gone' if now == 0 and not starved else ''}",
                title=label,
                aria_label=label,
            )
        )
    return el("ul", cells, class_="slots", aria_label="Intact slots by size, now and if empty") if cells else None


def _doubts(node: Doc) -> Markup | None:
    domains = dict(node.get("domains") or {})
    known = dict(node.get("facts") or {})
    sources = [f"{source.get('format', '')}: {source.get('file', '')}" for source in node.get("sources", ())]
    parts = [
        facts((name, str(value)) for name, value in [*known.items(), *domains.items()]),
        _told_by("Unknown", node.get("unknown", ())),
        _told_by("Sources disagree", node.get("disagreements", ())),
        _told_by("Oddities", node.get("remarks", ())),
        _told_by("Read from", sources),
    ]
    if not any(parts):
        return None
    number = len(node.get("unknown", ())) + len(node.get("disagreements", ()))
    return folded("Facts and sources" + (f" · {count(number, 'doubt')}" if number else ""), *parts)


def _told_by(title: str, texts: Iterable[str]) -> Markup | None:
    listed = lines(texts)
    return join(el("h4", title), listed) if listed else None


def _look(node: Doc) -> tuple[Any, ...]:
    """What a picture shows of a node, without the names of its pods."""
    return (
        node.get("model"),
        node.get("links"),
        node.get("free"),
        node.get("hidden"),
        tuple((gpu.get("index"), gpu.get("state"), gpu.get("holder")) for gpu in node.get("gpus", ())),
        tuple((one.get("name"), tuple(one.get("gpus", ())), one.get("sure")) for one in node.get("islands", ())),
        tuple((one.get("count"), one.get("split"), one.get("spans")) for one in node.get("holders", ())),
        tuple((one.get("gpus"), one.get("now"), one.get("empty"), one.get("broken")) for one in node.get("slots", ())),
        len(node.get("unknown", ())),
        len(node.get("disagreements", ())),
    )


def _weight(nodes: Sequence[Doc]) -> tuple[int, ...]:
    node = nodes[0]
    states = [gpu.get("state") for gpu in node.get("gpus", ())]
    return (
        -sum(bool(holder.get("split")) for holder in node.get("holders", ())),
        -sum(bool(slot.get("broken")) for slot in node.get("slots", ())),
        -states.count("out"),
        -len(node.get("disagreements", ())) - len(node.get("unknown", ())),
        -len(nodes),
    )
