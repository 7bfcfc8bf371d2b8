"""The demo in a terminal: nodes as tiles, who holds what, what was claimed, and why a pod waits. Lines are values."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap

from rich.text import Text

from atoll.cli.demo.scene import NodeScene, PodScene, Scene
from atoll.cli.demo.script import Case, Judged, Played
from atoll.cli.tiles import FREE, WIDTH, Island, Lettering, Tile, draw
from atoll.core.explain import Blocker, Explanation, IslandReason, NodeReason, Remedy
from atoll.core.ledger import Grant

INDENT = "   "


def headline(number: int, case: Case) -> Text:
    return Text(f"{number}  {case.title}", style="bold")


def act_lines(played: Played, letters: Lettering) -> Iterator[Text]:
    """An act: what was done, the cluster afterwards, the explanation where one is wanted, and the claims."""
    steps = "; ".join(map(str, played.act.steps))
    for line in wrap(steps, WIDTH, initial_indent=f"{INDENT}$ ", subsequent_indent=f"{INDENT}  "):
        yield Text(line, style="dim")
    yield from scene_lines(played.scene, letters)
    if played.explanation is not None:
        yield from _indented(explanation_lines(played.act.why, played.explanation))
    yield from (_judged(judged) for judged in played.judged)
    yield Text()


def scene_lines(scene: Scene, letters: Lettering) -> Iterator[Text]:
    """Every node with its owners, then the pods that wait."""
    given = letters.assign(pod.name for pod in scene.pods)
    for node in scene.nodes:
        yield from _indented(_node(node, given))
    for pod in scene.pods:
        if not pod.node:
            yield from _indented(_waiting(pod, f"{given[pod.name]} "))


def pod_lines(pods: Iterable[PodScene]) -> Iterator[Text]:
    """Where each pod runs, or why it waits."""
    for pod in pods:
        if pod.grant is None:
            yield from _waiting(pod)
        else:
            yield Text(f"{pod.name} runs on {pod.node}: {_grant(pod.grant)}")


def explanation_lines(pod: str, explanation: Explanation) -> Iterator[Text]:
    """Per node and island: what is free, who is in the way, and whose end would let the pod run there."""
    yield Text(f"why does {pod} wait? It wants {_gpus(explanation.asked)}: {explanation.code}", style="bold")
    for node in explanation.nodes:
        yield Text(f"  {node.node}: {node.refusal.code}" + (f"; {node.refusal.note}" if node.refusal.note else ""))
        rows = [_island_row(island) for island in node.islands]
        widths = [max(len(row[n]) for row in rows) for n in range(2)] if rows else []
        for name, free, rest in rows:
            yield Text(f"    {name:<{widths[0]}}  {free:<{widths[1]}}  {rest}")
        if unplaced := _unplaced(node):
            yield Text(f"    {unplaced}")
    if explanation.more:
        yield Text(f"  and {explanation.more} more nodes")
    yield Text(f"  {_cheapest(explanation.cheapest)}", style="bold")


def _node(node: NodeScene, letters: Mapping[str, str]) -> Iterator[Text]:
    yield Text(f"{node.name} ({node.machine}, {_gpus(sum(len(island.gpus) for island in node.islands))})")
    yield from draw(
        Island(
            island.name,
            tuple(Tile(gpu.index, letters.get(gpu.owner, FREE)) for gpu in island.gpus),
            f"{island.free} of {len(island.gpus)} free",
        )
        for island in node.islands
    )
    for grant in sorted(node.grants, key=lambda grant: letters[grant.pod]):
        yield Text(f"{letters[grant.pod]} {grant.pod}: {_grant(grant.grant)}")


def _grant(grant: Grant) -> str:
    where = ", ".join(grant.domains) or "by count only"
    text = f"{_gpus(grant.count)} in {where}, {grant.policy}"
    if grant.degraded:
        worst = f", worst link {grant.lost.worst_link}" if grant.lost and grant.lost.worst_link else ""
        text += f", degraded: no {grant.scope_bound or 'domain'} had {grant.count} free{worst}"
    return text


def _waiting(pod: PodScene, letter: str = "") -> Iterator[Text]:
    first, *more = pod.message.split("\n")
    yield Text(f"{letter}{pod.name} waits for {_gpus(pod.gpus)}: {first}", style="yellow")
    yield from (Text(f"{letter and '  '}  {line}", style="yellow") for line in more)


def _judged(judged: Judged) -> Text:
    if judged.holds:
        return Text(f"{INDENT}ok    {judged.text}", style="green")
    return Text(f"{INDENT}FAIL  {judged.text}; found: {judged.found}", style="bold red")


def _island_row(island: IslandReason) -> tuple[str, str, str]:
    held = ", ".join(f"{_name(blocker)} ({blocker.gpus})" for blocker in island.blockers)
    words = [f"held by {held}"] if held else []
    if island.out:
        words.append(f"{island.out} out of service")
    words.append(f"free once {_ends(island.remedy)}" if island.remedy else "no pod's end would help")
    return island.name, f"{island.free} of {island.size} free", "; ".join(words)


def _unplaced(node: NodeReason) -> str:
    held = ", ".join(f"{_name(blocker)} ({blocker.gpus})" for blocker in node.unplaced)
    return f"held without known UUIDs by {held}" if held else ""


def _cheapest(remedy: Remedy | None) -> str:
    if remedy is None:
        return "no pod's end would help"
    return f"cheapest: it runs on {remedy.node} once {_ends(remedy)} ({_gpus(remedy.gpus)})"


def _ends(remedy: Remedy) -> str:
    names = [owner.name for owner in remedy.owners]
    return " and ".join(names) + (" ends" if len(names) == 1 else " end")


def _name(blocker: Blocker) -> str:
    return blocker.owner.name


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _indented(lines: Iterable[Text]) -> Iterator[Text]:
    return (Text(INDENT) + line for line in lines)
