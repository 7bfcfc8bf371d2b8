"""`ports.ProbeApi` over a node that exists only here: it gives the lowest GPUs that are free."""

from dataclasses import dataclass, field

from atoll.core.probe import Listed, Make, NotMade, Phase, ProbePod, Remove


@dataclass
class FakeProbeApi:
    """Attributes: refuses: every pod, with these words."""

    uuids: tuple[str, ...] = tuple(f"GPU-{n}" for n in range(8))
    refuses: str = ""
    pods: dict[str, ProbePod] = field(default_factory=dict)

    async def list(self) -> Listed:
        return Listed(tuple(self.pods.values()))

    async def make(self, effect: Make) -> NotMade | None:
        if self.refuses or effect.name in self.pods:
            return NotMade(effect.name, self.refuses or "409 AlreadyExists")
        held = {uuid for pod in self.pods.values() for uuid in pod.uuids or ()}
        free = [uuid for uuid in self.uuids if uuid not in held]
        enough = len(free) >= effect.gpus
        self.pods[effect.name] = (
            ProbePod(effect.name, Phase.RUNS, tuple(free[: effect.gpus]))
            if enough
            else ProbePod(effect.name, Phase.FAILED, why="OutOfnvidia.com/gpu: too few")
        )
        return None

    async def remove(self, effect: Remove) -> None:
        self.pods.pop(effect.name, None)
