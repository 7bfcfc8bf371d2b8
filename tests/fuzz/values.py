"""Ways in which an object goes wrong: a field is missing, of another type, twice, too deep, or of another meaning.

The parsed value is changed, and written again as JSON or YAML-like JSON, so that most mutants reach the readers.
"""

import json
import marshal
from random import Random
from typing import Any

from tests.fuzz.mutations import mutant

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 65_535, 65_536, 1 << 31, 1 << 53, (1 << 63) + 1, 10**30, 0.5, 1e300, -0.0,
    "", " ", "0", "-1", "1", "01", "²", "٣", "9" * 20, "9" * 5000, "0-3", "3-0", "0-65535", "N/A", "true", "x" * 5000,
    "GPU-", "GPU-aaaaaaaa-0000-1111-2222-aaaaaaaaaaaa", "0000:17:00.0", "pci0000:16", "é\u2028", "\ud800", "{", "[]",
    '[{"id": 1}]', "a:b,c;d", "null", "80Gi", "1e99", "0x", "Node", "List", "gpu", "mig",
)  # fmt: skip
COLLECTIONS: tuple[Any, ...] = ([], {}, [[]], [{}], {"": None}, [None], [1, "a", None], {"a": {"b": []}}, {"0": 0})
HOW_MANY, HOW_DEEP = (3, 40, 300), (2, 70, 400, 3000)
GENTLE, TEXT_TOO = 0.4, 0.1


def _copy(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))  # the fastest for plain values


def object_mutant(seed: Any, rng: Random) -> bytes:
    """A few changes of the value, as JSON; some also go through the mutations of text."""
    return text_of_changed(seed, rng).encode(errors="surrogatepass")


def text_of_changed(seed: Any, rng: Random) -> str:
    value = _copy(seed)
    if rng.random() < GENTLE:
        for _ in range(rng.randrange(1, 4)):
            _vary(value, rng)
    else:
        for _ in range(rng.choice((1, 1, 2, 3))):
            value = _changed(value, rng)
    text = json.dumps(value, indent=rng.choice((None, None, 1)), ensure_ascii=rng.random() < 0.5)
    depth = rng.choice(HOW_DEEP) if rng.random() < 0.01 else 0
    if depth:
        at = max(text.find(":", rng.randrange(len(text))), 0)
        text = text[: at + 1] + "[" * depth + "]" * depth + "," + text[at + 1 :]
    return mutant(text, rng) if rng.random() < TEXT_TOO else text


def _vary(value: Any, rng: Random) -> None:
    """A change that another release or writer would make: a new field, another order, another number."""
    owner, key = rng.choice(list(_places(value)) or [({"": 0}, "")])
    match rng.randrange(3):
        case 0 if isinstance(owner, dict):
            owner["added"] = _copy(rng.choice((*SCALARS, *COLLECTIONS)))
        case 1:
            keys = list(owner) if isinstance(owner, dict) else []
            rng.shuffle(keys)
            for name in keys:
                owner[name] = owner.pop(name)
        case _ if isinstance(owner[key], int) and not isinstance(owner[key], bool):
            owner[key] = rng.choice((owner[key] + 1, 0, 1, 2, 7))


def _changed(value: Any, rng: Random) -> Any:
    places = list(_places(value))
    if not places:
        return _copy(rng.choice(COLLECTIONS))
    owner, key = rng.choice(places)
    old = owner[key]
    match rng.randrange(9):
        case 0 | 1:
            owner[key] = _copy(rng.choice(SCALARS))
        case 2:
            owner[key] = _copy(rng.choice(COLLECTIONS))
        case 3:
            del owner[key]
        case 4:
            owner[key] = _text_changed(old, rng) if isinstance(old, str) else rng.choice((str(old), [old], {"a": old}))
        case 5:
            other, name = rng.choice(places)
            owner[key] = _copy(other[name]) if key in _keys(owner) and name in _keys(other) else old
        case 6:
            _repeat(owner, key, rng)
        case 7 if isinstance(owner, dict):
            owner[_text_changed(key, rng)] = owner.pop(key)
        case _:
            _add(owner, rng)
    return value


def _places(value: Any) -> Any:
    """Every (collection, key) in the value."""
    waiting = [value]
    while waiting:
        owner = waiting.pop()
        if isinstance(owner, (dict, list)):
            for key in _keys(owner):
                yield owner, key
                waiting.append(owner[key])


def _keys(owner: Any) -> Any:
    return list(owner) if isinstance(owner, dict) else range(len(owner))


def _text_changed(text: str, rng: Random) -> str:
    """Another spelling; a text that is JSON again is changed as a value now and then."""
    if text[:1] in {"{", "["} and rng.random() < 0.7:
        try:
            inner = json.loads(text)
        except ValueError:
            return mutant(text, rng)
        if isinstance(inner, (dict, list)) and inner:
            return json.dumps(_changed(inner, rng))
    at = rng.randrange(len(text) + 1)
    match rng.randrange(5):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + rng.choice(" ,:;-/.=0aZ\n\t\u0663") + text[at:]
        case 2:
            return text.swapcase()
        case 3:
            return text * rng.choice((2, 3))
        case _:
            return text[:at] + text[at + 1 :]


def _repeat(owner: Any, key: Any, rng: Random) -> None:
    """The same entry again, a few times or so often that a bound is met."""
    times = rng.choice(HOW_MANY) if rng.random() < 0.1 else 1
    if isinstance(owner, list):
        owner[key:key] = [_copy(owner[key]) for _ in range(times)]
    else:
        owner |= {f"{key}{number}": _copy(owner[key]) for number in range(times)}


def _add(owner: Any, rng: Random) -> None:
    new = _copy(rng.choice((*SCALARS, *COLLECTIONS)))
    if isinstance(owner, list):
        owner.append(new)
    else:
        owner[rng.choice(("", "a", "0", "kind", "apiVersion", "items", "metadata", "nvidia.com/gpu"))] = new
