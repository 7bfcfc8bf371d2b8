"""How NVIDIA's device plugin prefers among replicas of shared GPUs, slices of MIG, and GPUs under WSL.

It takes one device after the other: `distributed` from the GPU of which the fewest replicas are taken, `packed` from
that of which the most are; then from the GPU picked least by this very call. What is equal then comes in the order of a
Go map, so that the answer is a set of possible ones.

Source: NVIDIA/k8s-device-plugin v0.20.0, internal/rm/allocate.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class SharedPolicy(StrEnum):
    DISTRIBUTED = "distributed"
    PACKED = "packed"


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """The replicas of one GPU. Attributes: count: all of them. free: those that may be given."""

    count: int
    free: int


def preferred_replicas(
    gpus: Mapping[str, SharedGpu], size: int, policy: SharedPolicy = SharedPolicy.DISTRIBUTED
) -> frozenset[tuple[tuple[str, int], ...]]:
    """Every possible answer as ((GPU, replicas of it), ...) by name; none where too few are free.

    Args:
        gpus: by UUID. size: replicas asked for.
    """
    if size <= 0 or sum(gpu.free for gpu in gpus.values()) < size:
        return frozenset()
    answers: set[tuple[tuple[str, int], ...]] = {()}
    for _ in range(size):
        answers = {_with_one_more(answer, name) for answer in answers for name in _next(gpus, dict(answer), policy)}
    return frozenset(answers)


def _next(gpus: Mapping[str, SharedGpu], picked: Mapping[str, int], policy: SharedPolicy) -> list[str]:
    """The GPUs of which the next replica may be one."""
    sign = 1 if policy is SharedPolicy.DISTRIBUTED else -1
    ranks = {
        name: (sign * (gpu.count - gpu.free + picked.get(name, 0)), picked.get(name, 0))
        for name, gpu in gpus.items()
        if gpu.free > picked.get(name, 0)
    }
    first = min(ranks.values())
    return [name for name, rank in ranks.items() if rank == first]


def _with_one_more(answer: tuple[tuple[str, int], ...], name: str) -> tuple[tuple[str, int], ...]:
    counts = dict(answer)
    counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts.items()))
