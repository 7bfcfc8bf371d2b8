"""The audit for a terminal: findings first, then the six points, the worst nodes drawn as tiles.

A report of thousands of nodes stays one that a person reads: the nodes with findings are drawn, the rest are counted.
"""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from atoll.cli.tiles import FREE, OUT, UNSURE, WIDTH, Island, Lettering, Tile, draw, plain
from atoll.core.audit.report import Answer, AuditedNode, Finding, GpuState, HolderView, Prospect, Report, Severity
from atoll.core.errors import printable
from atoll.core.sentences import some_of

FINDINGS_MAX, NODES_DRAWN, LINES_MAX, EVIDENCE_MAX = 20, 6, 12, 4
STYLE = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_MARK = {GpuState.FREE: FREE, GpuState.OUT: OUT, GpuState.UNKNOWN: UNSURE, GpuState.HELD: "*"}
_SIGN = {Answer.YES: "yes", Answer.PARTLY: "partly", Answer.NO: "no"}


def print_report(report: Report, console: Console, *, wide: bool) -> None:
    """Print the report; `wide` draws every node and lists every finding."""
    printer = _Printer(console, wide=wide)
    printer.headline(report)
    printer.findings(report.findings)
    printer.nodes(report)
    printer.sizes(report)
    printer.stock(report)
    printer.rest(report)
    printer.points(report)


class _Printer:
    """One console, one width, one way to write a line."""

    def __init__(self, console: Console, *, wide: bool) -> None:
        self._console = console
        self._wide = wide

    def _line(self, text: str | Text = "", style: str = "") -> None:
        line = Text(text, style) if isinstance(text, str) else text
        line.plain = printable(line.plain)  # a name or a message with line breaks makes no line of the report
        self._console.print(plain(line, self._console.encoding), soft_wrap=True, highlight=False)

    def _title(self, text: str) -> None:
        self._line()
        self._line(text, "bold")

    def _some(self, entries: Sequence[str], most: int = LINES_MAX) -> None:
        shown = entries if self._wide else entries[:most]
        for entry in shown:
            self._line(f"  {entry}")
        if len(entries) > len(shown):
            self._line(f"  and {len(entries) - len(shown)} more (-o wide)", "dim")

    def headline(self, report: Report) -> None:
        totals = report.totals
        free = "free GPUs unknown" if totals.free is None else f"{totals.free} free"
        self._line(Text(f"Audit of {report.origin}", "bold") + Text(f" · {report.taken}", "dim"))
        pods = f" · {counted(totals.pods, 'pod')} with GPUs" if totals.pods else ""
        split = f", {totals.split_pods} split over islands" if totals.split_pods else ""
        waits = f", {totals.waiting_pods} waiting" if totals.waiting_pods else ""
        gpus = f"{counted(totals.nodes, 'node')} · {counted(totals.gpus, 'GPU')}, {free}"
        self._line(f"{gpus}{pods}{split}{waits}")

    def findings(self, findings: Sequence[Finding]) -> None:
        self._title("Findings, the most consequential first")
        shown = findings if self._wide else findings[:FINDINGS_MAX]
        for number, finding in enumerate(shown, 1):
            self._finding(number, finding)
        if len(findings) > len(shown):
            self._line(f"and {len(findings) - len(shown)} more (-o wide)", "dim")

    def _finding(self, number: int, finding: Finding) -> None:
        head = Text(f"{number:>2} {finding.severity:<8} ", STYLE[finding.severity]) + Text(finding.title, "bold")
        self._line(head)
        indent = " " * 12
        evidence = finding.evidence if self._wide else finding.evidence[:EVIDENCE_MAX]
        for line in evidence:
            self._line(f"{indent}· {line}")
        if len(finding.evidence) > len(evidence):
            self._line(f"{indent}· and {len(finding.evidence) - len(evidence)} more", "dim")
        if finding.effect:
            self._line(f"{indent}{finding.effect}", "dim")
        if finding.fix:
            self._line(f"{indent}fix: {finding.fix}")
        if finding.command:
            self._line(f"{indent}$ {finding.command}", "green")

    def nodes(self, report: Report) -> None:
        nodes = report.nodes
        if not nodes:
            return
        drawn = nodes if self._wide else worst(report, nodes)[:NODES_DRAWN]
        self._title("Nodes" if len(drawn) == len(nodes) else f"Nodes, {len(drawn)} of {len(nodes)} shown")
        for node in drawn:
            self._node(node)

    def _node(self, node: AuditedNode) -> None:
        facts = dict(node.facts)
        free = "" if node.free is None or not node.count else f"{node.free} of {node.count} free"
        about = (node.model, f"driver {facts['driver']}" if "driver" in facts else "", free)
        self._line(Text(node.name, "bold cyan") + Text("".join(f" · {word}" for word in about if word)))
        letters = Lettering().assign(holder.pod for holder in node.holders if holder.gpus)
        for line in draw(_islands(node, letters), min(WIDTH, self._console.width)):
            self._line(line)
        for holder in node.holders:
            letter = letters.get(holder.pod, " ")
            told = [counted(holder.count, "GPU"), _where(holder), holder.source]
            told += [f"since {holder.since}" if holder.since else "", *holder.incidents]
            split = Text("  SPLIT", "bold red") if holder.split else Text()
            self._line(Text(f"  {letter} {holder.pod}: {', '.join(word for word in told if word)}") + split)
        if self._wide:
            self._details(node)
        for word in (*(f"unknown {each}" for each in node.unknown), *node.disagreements, *node.remarks)[:LINES_MAX]:
            self._line(f"  {word}", "magenta")
        self._line()

    def _details(self, node: AuditedNode) -> None:
        """By UUID and by scope: what the picture above leaves out."""
        self._some([f"GPU {gpu.index:>2} {gpu.uuid or 'UUID unknown'}" for gpu in node.gpus])
        self._some([f"{scope:<11} {sets}" for scope, sets in node.domains])
        self._some([f"links       {node.links}"] if node.links else [])
        self._some([f"{name}: {value}" for name, value in node.facts])
        self._some([f"without Atoll, a pod of {prospect_in_words(each)}" for each in node.stock.prospects])
        self._some([f"without Atoll, nobody can tell what is handed out: {gate}" for gate in node.stock.gates])
        self._some([f"from {source.format} ({source.file})" for source in node.sources])

    def sizes(self, report: Report) -> None:
        if not report.sizes:
            return
        self._title("What a Restricted pod would get from Atoll now")
        rows = [("GPUs", "whole now", "if empty", "nodes that fit", "Atoll takes", "enough free, none intact")]
        for size in report.sizes:
            broken = some_of(size.enough_but_broken)
            known = size.fits is not None
            now = (str(size.slots), str(size.fits), size.best or "-", broken or "-") if known else ("?", "?", "?", "?")
            rows.append((str(size.gpus), now[0], str(size.slots_empty), *now[1:]))
        for line in columns(rows):
            self._line(f"  {line}")

    def stock(self, report: Report) -> None:
        """Only where something can be told: the gates are in the document and with -o wide."""
        if not any(size.whole or size.split or size.fails for size in report.stock):
            return
        self._title("What such a pod would get without Atoll now, on how many nodes")
        head = ("GPUs", "always whole", "may be split", "fails after binding", "cannot be told", "split beside a fit")
        rows: list[tuple[str, ...]] = [head]
        for size in report.stock:
            counts = (size.gpus, size.whole, size.split, size.fails, size.unknown)
            rows.append((*map(str, counts), some_of(size.avoidable) or "-"))
        for line in columns(rows):
            self._line(f"  {line}")

    def rest(self, report: Report) -> None:
        """Versions, abilities, incidents and what was not seen; a point without anything to say is left out."""
        incidents = [
            f"{each.count} × {each.reason} · {each.where}" + (f" · {each.message}" if each.message else "")
            for each in report.incidents
        ]
        versions = [
            f"{each.name} {each.version or '?'}"
            + ("" if each.role == each.name else f" ({each.role})")
            + (f" · {some_of(each.nodes)}" if each.nodes else "")
            for each in report.components
        ]
        blind = [
            f"{each.what}: {each.why}" + (f" · {each.remedy}" if each.remedy else "")
            for each in sorted(report.blind, key=lambda each: each.expected)  # what is ordinary comes last
        ]
        self._section("Incidents", incidents)
        self._section("Metrics beside no placement", report.metrics)
        self._section("Versions", versions)
        if any(ability.subject and ability.nodes for ability in report.abilities) and report.components:
            self._title("What hands out GPUs here, and what it can promise")
            for ability in report.abilities[: None if self._wide else NODES_DRAWN]:
                self._line(f"  {ability.subject} · {some_of(ability.nodes)}", "bold")
                for sign, words in (("+", ability.can), ("-", ability.cannot)):
                    for word in words:
                        self._line(f"    {sign} {word}")
        self._section("Not seen", blind)

    def _section(self, title: str, entries: Sequence[str]) -> None:
        if entries:
            self._title(title)
            self._some(entries)

    def points(self, report: Report) -> None:
        self._title("Answered")
        for point in report.points:
            self._line(f"  {point.name:<12} {_SIGN[point.answer]:<7} {point.why}".rstrip())


def worst(report: Report, nodes: Iterable[AuditedNode]) -> list[AuditedNode]:
    """The nodes in the order in which findings name them, then the rest by name."""
    order: dict[str, int] = {}
    for finding in report.findings:
        for name in finding.nodes:
            order.setdefault(name, len(order))
    return sorted(nodes, key=lambda node: (order.get(node.name, len(order)), node.name))


def prospect_in_words(prospect: Prospect) -> str:
    """ "4: one of 3 sets, 1 of them split; may fail (TopologyAffinityError)"."""
    sets = f"one of {prospect.sets} sets" if prospect.sets > 1 else "always the same set"
    split = f", {'' if prospect.sets == 1 else f'{prospect.split} of them '}split" if prospect.split else ", whole"
    fails = [
        word
        for word, so in (("TopologyAffinityError", prospect.rejects), ("UnexpectedAdmissionError", prospect.fails))
        if so
    ]
    if not prospect.sets:
        return f"{prospect.gpus}: {' or '.join(fails)}"
    may = f"; may fail ({', '.join(fails)})" if fails else ""
    by = "the plugin is asked" if prospect.asks else "the plugin is not asked"
    return f"{prospect.gpus}: {sets}{split}{may}; {by}"


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines of equal columns."""
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _where(holder: HolderView) -> str:
    """Of several GPUs the narrowest domain that holds them; of one that would say nothing."""
    if not holder.gpus:
        return "which ones is not told"
    if len(holder.gpus) == 1:
        return ""
    return f"within one {holder.spans}" + (f", worst link {holder.worst_link}" if holder.worst_link else "")


def _islands(node: AuditedNode, letters: Mapping[str, str]) -> list[Island]:
    islands = []
    for island in node.islands:
        tiles = []
        for position in island.gpus:
            gpu = node.gpus[position]
            held = "" if gpu.holder is None else letters.get(node.holders[gpu.holder].pod, "*")
            tiles.append(Tile(gpu.index, held or _MARK[gpu.state]))
        foot = "" if island.free is None else f"{island.free} of {len(island.gpus)} free"
        islands.append(Island(island.name + ("" if island.sure else " ?"), tuple(tiles), foot))
    return islands
