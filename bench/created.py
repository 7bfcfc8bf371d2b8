"""How fast pods are bound, creation included."""

import threading
import time
from collections.abc import Sequence

from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import Json

TIMEOUT_S = 300
BOUND = "?fieldSelector=spec.nodeName!%3D"


def created_to_bound(atoll: Installation, pods: Sequence[Json]) -> float:
    """Pods per second from the first creation to the last binding."""
    names = {pod["metadata"]["name"] for pod in pods}
    bound: dict[str, float] = {}
    done = threading.Event()

    def watch(version: str) -> None:
        while not done.is_set():  # the API server ends a watch whose reader is too slow for it
            for event in atoll.api.watch(f"{fleet.pods_in()}{BOUND}", version, timeout_s=TIMEOUT_S):
                metadata = event["object"]["metadata"]
                version = metadata["resourceVersion"]
                if metadata["name"] in names:
                    bound.setdefault(metadata["name"], time.monotonic())
                    if len(bound) == len(names):
                        done.set()
                        return

    version = atoll.api.get(f"{fleet.pods_in()}?limit=1")["metadata"]["resourceVersion"]
    threading.Thread(target=watch, args=(version,), daemon=True).start()
    start = time.monotonic()
    fleet.create_pods(atoll.api, pods)
    if not done.wait(TIMEOUT_S):
        done.set()
        raise AssertionError(f"only {len(bound)} of {len(pods)} pods were bound within {TIMEOUT_S} s")
    return len(pods) / (max(bound.values()) - start)
