"""The demo in a terminal: nodes as tiles, who holds what, what was claimed, and why a pod waits. Lines are values."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap

from rich.text import Text

from atoll.cli.counted import gpus_text
from atoll.cli.demo.scene import NodeScene, PodScene, Scene
from atoll.cli.demo.script import Case, Judged, Played
from atoll.cli.explanations import explanation_lines
from atoll.cli.tiles import FREE, WIDTH, Island, Lettering, Tile, draw
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


def _node(node: NodeScene, letters: Mapping[str, str]) -> Iterator[Text]:
    yield Text(f"{node.name} ({node.machine}, {gpus_text(sum(len(island.gpus) for island in node.islands))})")
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
    text = f"{gpus_text(grant.count)} in {where}, {grant.policy}"
    if grant.degraded:
        worst = f", worst link {grant.lost.worst_link}" if grant.lost and grant.lost.worst_link else ""
        text += f", degraded: no {grant.scope_bound or 'domain'} had {grant.count} free{worst}"
    return text


def _waiting(pod: PodScene, letter: str = "") -> Iterator[Text]:
    first, *more = pod.message.split("\n")
    yield Text(f"{letter}{pod.name} waits for {gpus_text(pod.gpus)}: {first}", style="yellow")
    yield from (Text(f"{letter and '  '}  {line}", style="yellow") for line in more)


def _judged(judged: Judged) -> Text:
    if judged.holds:
        return Text(f"{INDENT}ok    {judged.text}", style="green")
    return Text(f"{INDENT}FAIL  {judged.text}; found: {judged.found}", style="bold red")


def _indented(lines: Iterable[Text]) -> Iterator[Text]:
    return (Text(INDENT) + line for line in lines)
