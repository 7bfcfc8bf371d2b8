"""Ways in which a saved dump goes wrong on its way: copied, cut, wrapped, edited, re-encoded, mixed up.

Each mutation takes text and a random source and gives text. Harmless ones are as frequent as harmful ones, so that a
good part of the mutants still parses and the deep paths of the readers are reached too.
"""

import random
import re
from collections.abc import Callable

WORDS = (
    "X", "PIX", "NODE", "SYS", "SOC", "NV12", "NV999", "N/A", "-1", "0", "1", "0-31", "31-0", "0,2", "GPU0", "GPU7",
    "NIC0", "GPU", "Node:", "===", "0x1", "9" * 30, "9" * 5000, "65536", "²", "٣", "0000:17:00.0", "10000:ff:1f.7",
    "pci0000:16", "{", "[", "---", "&a", "*a", "!t", "|", "#", "->", "/", "a/b", '"', "\x1b[4m",
)  # fmt: skip
CHARACTERS = "\t \r\x00\x1b[4m|-,:;/.='\"\\{}[]<>&#0123456789GPUXNVaxé\x85\u2028\u00a0\ufeff\ud800²٣"
_WORD = re.compile(r"\S+")

Mutation = Callable[[str, random.Random], str]


def _lines(change: Callable[[list[str], random.Random], list[str]]) -> Mutation:
    def mutate(text: str, rng: random.Random) -> str:
        lines = text.split("\n")
        return "\n".join(change(lines, rng)) if len(lines) > 1 else text

    return mutate


def _swap(lines: list[str], rng: random.Random) -> list[str]:
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return lines


def _drop(lines: list[str], rng: random.Random) -> list[str]:
    del lines[rng.randrange(len(lines))]
    return lines


def _repeat(lines: list[str], rng: random.Random) -> list[str]:
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return lines


def _wrap(lines: list[str], rng: random.Random) -> list[str]:
    n = rng.randrange(len(lines))
    cut = rng.randrange(len(lines[n]) + 1)
    return [*lines[:n], lines[n][:cut], lines[n][cut:], *lines[n + 1 :]]


def _join(lines: list[str], rng: random.Random) -> list[str]:
    n = rng.randrange(len(lines) - 1)
    return [*lines[:n], lines[n] + lines[n + 1], *lines[n + 2 :]]


def _blank(lines: list[str], rng: random.Random) -> list[str]:
    lines.insert(rng.randrange(len(lines) + 1), " " * rng.randrange(3))
    return lines


def _indent(lines: list[str], rng: random.Random) -> list[str]:
    prefix = rng.choice(["    ", "\t", "> ", "  "])
    return [prefix + line for line in lines]


def _trail(lines: list[str], rng: random.Random) -> list[str]:
    return [line + " " * rng.randrange(4) for line in lines]


def _truncate(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _replace_word(text: str, rng: random.Random) -> str:
    found = list(_WORD.finditer(text))
    if not found:
        return text
    place = rng.choice(found)
    word = rng.choice(found)[0] if rng.random() < 0.5 else rng.choice(WORDS)
    return text[: place.start()] + word + text[place.end() :]


def _repeat_piece(text: str, rng: random.Random) -> str:
    """A part that stands there twice, or so often that a bound is met."""
    start = rng.randrange(len(text) + 1)
    end = min(start + rng.randrange(1, 80), len(text))
    return text[:end] + text[start:end] * (rng.choice((20, 200)) if rng.random() < 0.02 else 1) + text[end:]


def _insert(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(CHARACTERS) + text[place:]


def _delete(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + text[place + rng.randrange(1, 4) :]


def _spaces(text: str, rng: random.Random) -> str:
    return text.replace("\t", " " * rng.randrange(1, 9))


def _tabs(text: str, _: random.Random) -> str:
    return re.sub(r" {2,}", "\t", text)


def _carriage_returns(text: str, _: random.Random) -> str:
    return text.replace("\n", "\r\n")


def _underline(text: str, _: random.Random) -> str:
    head, newline, rest = text.partition("\n")
    return f"\x1b[4m{head}\x1b[0m{newline}{rest}"


def _prompt(text: str, _: random.Random) -> str:
    return "$ nvidia-smi topo -m\n" + text


def _trailing_noise(text: str, rng: random.Random) -> str:
    return text + "\n" * rng.randrange(4) + rng.choice(["", "$ ", "Done.", "```"])


HARMFUL: tuple[Mutation, ...] = (
    _lines(_swap), _lines(_drop), _lines(_repeat), _lines(_wrap), _lines(_join),
    _truncate, _replace_word, _repeat_piece, _insert, _delete,
)  # fmt: skip
HARMLESS: tuple[Mutation, ...] = (
    _lines(_blank), _lines(_indent), _lines(_trail), _spaces, _tabs, _carriage_returns, _underline, _prompt,
    _trailing_noise,
)  # fmt: skip


def mutant(text: str, rng: random.Random, most: int = 4) -> str:
    """Between one and `most` mutations; every second mutant gets harmless ones only."""
    kinds = HARMLESS if rng.random() < 0.5 else HARMLESS + HARMFUL
    for _ in range(rng.randrange(1, most + 1)):
        text = rng.choice(kinds)(text, rng)
    return text
