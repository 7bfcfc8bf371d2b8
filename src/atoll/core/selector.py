"""Label selectors, as Kubernetes reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from atoll.core.errors import printable, shortened

VALUES_TOLD_MAX, TEXT_MAX = 5, 160


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As kubectl takes it, printable, and cut where it is long."""
        values = ",".join(self.values[:VALUES_TOLD_MAX]) + (",…" if len(self.values) > VALUES_TOLD_MAX else "")
        match self.operator:
            case "In" if len(self.values) == 1:
                text = f"{self.key}={values}"
            case "In" | "NotIn":
                text = f"{self.key} {self.operator.lower()} ({values})"
            case "Exists":
                text = self.key
            case "DoesNotExist":
                text = f"!{self.key}"
            case _:
                text = f"{self.key} {self.operator}"
        return printable(shortened(text, TEXT_MAX))


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
