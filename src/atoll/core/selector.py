"""Label selectors, as Kubernetes reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case _:
                return f"{self.key} {self.operator}"


def unmet(terms: Iterable[Requirement], labels: Mapping[str, str]) -> Requirement | None:
    """The first term that the labels do not meet; None when they meet all."""
    return next((term for term in terms if not meets(term, labels)), None)


def meets(term: Requirement, labels: Mapping[str, str]) -> bool:
    """NotIn also holds where the key is absent."""
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return labels.get(term.key) not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
        case _:
            # An operator that nobody knows selects nothing: a switch that is not understood must not be thrown.
            return False
