"""Topology hints: from which NUMA nodes a resource could come, and where it would best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """Attributes: numa: NUMA nodes as a bitmask, None = from anywhere."""

    numa: int | None
    preferred: bool


ResourceHints = Sequence[Hint] | None
"""None = the resource does not care; none at all = it cannot be had."""

ProviderHints = Mapping[str, ResourceHints] | None
"""What one hint provider (devices, CPUs, memory) says, by resource."""
