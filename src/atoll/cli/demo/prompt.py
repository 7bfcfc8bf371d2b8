"""`atoll demo --keep`: pods from a prompt or a file on a cluster that stays.

One command a line; empty lines and lines that begin with # are skipped. A wrong line is answered with one line that
says what was found and what is legal, and changes nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rich.text import Text

from atoll.cli.demo.cluster import Playground
from atoll.cli.demo.drawing import pod_lines, scene_lines
from atoll.cli.demo.scene import scene_of
from atoll.cli.explanations import explanation_lines
from atoll.cli.tiles import Lettering
from atoll.core.errors import quoted

PROMPT = "atoll> "
GPUS_MAX = 64
PODS_MAX = 200
LINE_MAX = 500
SHOWN_MAX = 120
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
HELP = (
    "run NAME GPUS [policy=Restricted|Preferred] [scope=SCOPE,...]   a pod that asks for GPUs",
    "delete NAME                                                     its GPUs become free",
    "show                                                            nodes, islands, owners, waiting pods",
    "why NAME                                                        why it waits and what would help",
    "help, quit",
)
NODES = (("h1", "hgx-h100"), ("l1", "l40s-2x4"))


class WrongLine(Exception):
    """A line that cannot be carried out; its text is the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Lines to print. `wrong`: the line was not carried out. `end`: no more lines are wanted."""

    lines: tuple[Text, ...] = ()
    wrong: bool = False
    end: bool = False


class Conversation:
    """Answers lines about a cluster of two nodes of eight GPUs."""

    def __init__(self) -> None:
        self.playground = Playground()
        for node, machine in NODES:
            self.playground.add_node(node, machine)
        self._letters = Lettering()
        self._verbs: dict[str, Callable[[list[str]], Iterable[Text]]] = {
            "run": self._run,
            "delete": self._delete,
            "show": self._show,
            "why": self._why,
            "help": self._help,
        }

    def answer(self, line: str) -> Answer:
        words = line.split()
        if not words or words[0].startswith("#"):
            return Answer()
        if words == ["quit"]:
            return Answer(end=True)
        try:
            if len(line) > LINE_MAX:
                raise WrongLine(f"found a line of {len(line)} characters, at most {LINE_MAX} are read")
            if words[0] not in self._verbs:
                raise WrongLine(f"found {quoted(words[0])}; legal are {', '.join(self._verbs)}, quit")
            return Answer(tuple(self._verbs[words[0]](words[1:])))
        except WrongLine as wrong:
            return Answer((Text(f"error: {wrong}", style="red"),), wrong=True)

    def _run(self, words: list[str]) -> Iterator[Text]:
        if len(words) < 2:
            raise WrongLine("run wants NAME GPUS [policy=...] [scope=...], e.g. run train 4")
        name, gpus = _name(words[0]), words[1]
        if not (gpus.isascii() and gpus.isdigit() and len(gpus) <= len(str(GPUS_MAX)) and 1 <= int(gpus) <= GPUS_MAX):
            raise WrongLine(f"GPUS: found {quoted(gpus)}; legal is a number from 1 to {GPUS_MAX}")
        if len(self.playground.cluster.pods) >= PODS_MAX:
            raise WrongLine(f"there are {PODS_MAX} pods already; delete some")
        options = _options(words[2:])
        if wrong := self.playground.run(name, int(gpus), options.get("policy"), options.get("scope")):
            raise WrongLine(wrong)
        scene = scene_of(self.playground)
        yield from pod_lines(pod for pod in scene.pods if pod.name == name)

    def _delete(self, words: list[str]) -> Iterator[Text]:
        name = _only_name("delete", words)
        waited = {pod.name for pod in scene_of(self.playground).pods if not pod.node}
        if wrong := self.playground.delete(name):
            raise WrongLine(wrong)
        yield Text(f"{name} is gone")
        yield from pod_lines(pod for pod in scene_of(self.playground).pods if pod.name in waited and pod.node)

    def _show(self, words: list[str]) -> Iterator[Text]:
        if words:
            raise WrongLine(f"show wants nothing more, found {quoted(words[0])}")
        return scene_lines(scene_of(self.playground), self._letters)

    def _why(self, words: list[str]) -> Iterator[Text]:
        name = _only_name("why", words)
        pod = scene_of(self.playground).pod(name)
        if pod is None:
            raise WrongLine(f"there is no pod {name}")
        explanation = self.playground.explain(name)
        if explanation is not None:
            yield from explanation_lines(name, explanation)
        else:
            yield from pod_lines([pod])

    def _help(self, _: list[str]) -> Iterator[Text]:
        return (Text(line) for line in HELP)


def printable(line: str) -> str:
    """An untrusted line for the terminal: bounded, and without anything that moves the cursor."""
    shown = "".join(char if char.isprintable() else "?" for char in line[:SHOWN_MAX])
    return shown if len(line) <= SHOWN_MAX else shown + "..."


def _name(word: str) -> str:
    if not NAME.fullmatch(word):
        raise WrongLine(f"NAME: found {quoted(word)}; legal are a-z, 0-9 and - inside, at most 63 characters")
    return word


def _only_name(verb: str, words: list[str]) -> str:
    if len(words) != 1:
        raise WrongLine(f"{verb} wants NAME and nothing more, e.g. {verb} train")
    return _name(words[0])


def _options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in ("policy", "scope"):
            raise WrongLine(f"found {quoted(word)}; legal are policy=..., scope=...")
        if key in options:
            raise WrongLine(f"{key} is given twice")
        options[key] = value
    return options
