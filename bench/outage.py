"""What a hung `atoll serve` costs pods that ask for no GPU: with a second scheduler, and with one for all."""

import statistics
from collections.abc import Iterator

from bench.rows import Row
from tests.e2e.installation import Installation
from tests.e2e.outage import RATE_KEPT, WAITING, hang, plain_rate, wait_in_vain
from tests.realkube.harness import ControlPlane

ROUNDS = 3


def rows() -> Iterator[Row]:
    for one_scheduler, pods, goal in ((False, 150, RATE_KEPT), (True, 30, None)):
        with ControlPlane() as plane:
            atoll = Installation(plane, one_scheduler=one_scheduler)
            wait_in_vain(atoll)
            ratios = []
            for turn in range(ROUNDS):
                undisturbed = plain_rate(atoll, f"calm-{turn}", pods)
                with hang(atoll):
                    ratios.append(plain_rate(atoll, f"hung-{turn}", pods) / undisturbed)
        kept = statistics.median(ratios)
        yield Row(
            f"plain pods/s, service hung under {WAITING} GPU pods, {'one' if one_scheduler else 'second'} scheduler",
            "for comparison" if goal is None else f"≥ {goal} of undisturbed",
            f"{kept:.2f}",
            None if goal is None else kept >= goal,
        )
