"""Runs a probe of one node: its service and its pods, until it is done, and tidied up also when it is interrupted."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import Access
from atoll.adapters.kube.probe_pods import LABEL, LIFE_S, PAUSE, KubeProbeApi
from atoll.core.errors import AtollError
from atoll.core.probe import Got
from atoll.services.probe_shell import run_probe
from atoll.services.probing import Probing
from atoll.wiring.running import MonotonicClock


async def probe(
    access: Access,
    node: str,
    namespace: str,
    sizes: Sequence[int],
    gpus: int,
    *,
    mark: str,
    resource: str,
    image: str = PAUSE,
    told: Callable[[Got], None] = lambda _: None,
) -> list[Got]:
    """Make pods of these sizes on the node, and say what each got.

    Args:
        gpus: that the node offers. mark: of the pods' names, another one for each probe. told: called as it goes.

    Raises:
        AtollError: the API server refuses or does not answer; the text says how to tidy up by hand.
        asyncio.CancelledError: it was interrupted, and has tidied up.
    """
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with KubeClient(access) as client:
        api = KubeProbeApi(client, node, namespace, resource, image)
        probing = Probing(sizes, gpus, mark)
        try:
            return await run_probe(probing, api, MonotonicClock(), told)
        except AtollError as error:
            if not probing.made:
                raise
            help_ = f"kubectl delete pods -n {namespace} -l {LABEL}"
            raise AtollError(f"{error}\npods of the probe end by themselves within {LIFE_S // 60} minutes; to delete "
                             f"them: {help_}") from error  # fmt: skip
