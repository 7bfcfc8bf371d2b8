"""Kubernetes quantities as whole numbers: summed up exactly first, and only then rounded up, as kube-scheduler does.

The finest quantity is a billionth, so sums are kept in billionths.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

from atoll.adapters.kube.wire import Quantities
from atoll.core.errors import quoted
from atoll.core.kube_facts import CPU, Amounts

UNIT = 10**9
"""Billionths in one."""
_LARGEST = 2**63 - 1
_QUANTITY = re.compile(
    r"\+?(?P<whole>[0-9]{0,40})(?:\.(?P<part>[0-9]{0,40}))?(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?",
    re.ASCII,
)
_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

Totals = dict[str, int]
"""Billionths by resource."""


@lru_cache(maxsize=16_384)
def billionths(text: str | int) -> int:
    """A quantity that is not negative, rounded up to billionths.

    Raises:
        ValueError: it is none.
    """
    found = _QUANTITY.fullmatch(str(text))
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"{quoted(str(text))} is no quantity")
    part, suffix = found["part"] or "", found["suffix"] or ""
    digits = int((found["whole"] or "") + part)
    if suffix in _POWERS_OF_TWO:
        scaled, below = digits * UNIT << _POWERS_OF_TWO[suffix], len(part)
    else:
        power = _POWERS_OF_TEN[suffix] if suffix in _POWERS_OF_TEN else int(suffix[1:])
        scaled, below = digits * UNIT * _power_of_ten(power), len(part) + max(-power, 0)
    return min(-(-scaled // _power_of_ten(below)), _LARGEST * UNIT)


def _power_of_ten(exponent: int) -> int:
    """1 for what is negative."""
    return int(10 ** max(exponent, 0))


def totals(quantities: Quantities | None) -> Totals:
    return {intern(name): billionths(text) for name, text in quantities.items()} if quantities else {}


def added(to: Totals, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0) + amount


def raised(to: Totals, others: Iterable[Mapping[str, int]]) -> None:
    """To the largest of each resource."""
    for other in others:
        for name, amount in other.items():
            if amount > to.get(name, -1):
                to[name] = amount


def amounts(summed: Mapping[str, int]) -> Amounts:
    """Thousandths of cpu and whole units of the rest, rounded up; without what kube-scheduler does not count."""
    return _shared(
        tuple(
            (name, -(-amount // (UNIT // 1000 if name == CPU else UNIT)))
            for name, amount in sorted(summed.items())
            if _counts(name)
        )
    )


def _counts(name: str) -> bool:
    return name in _NATIVE or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


_NATIVE = frozenset({CPU, "memory", "ephemeral-storage", "pods"})


@lru_cache(maxsize=16_384)
def _shared(summed: Amounts) -> Amounts:
    """Pods come in series that ask for the same."""
    return summed
