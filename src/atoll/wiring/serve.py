"""Puts `atoll serve` together: the scheduling service, the Kubernetes API before it and the HTTPS server behind it.

A start listens at once and is ready when every kind was listed. A stop is unready at once, finishes the calls that are
under way, then lets the Lease go. Leading is no condition for serving: grants are fenced by the ledgers' versions, and
the Lease only says who cleans up and wakes waiters.
"""

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from ssl import SSLContext

import structlog
from aiohttp import web

from atoll.adapters.certificates import ensure_certificates, server_names
from atoll.adapters.faults import Faults, FaultyApi, Point, parse_fault
from atoll.adapters.kube.api import KubeClusterApi
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import access_from
from atoll.adapters.kube.lease import leadership
from atoll.adapters.kube.registration import Registrations
from atoll.adapters.presented import Presented, mounted, own
from atoll.core.asking import BUILT_IN
from atoll.core.delivery import Delivery
from atoll.core.errors import AtollError
from atoll.ports import ClusterApi
from atoll.servers.extender import Extender
from atoll.servers.http import Service, runner
from atoll.servers.metrics import Metrics
from atoll.servers.snapshot import snapshot_json
from atoll.servers.webhook import Webhook
from atoll.servers.webhook_http import webhook_runner
from atoll.servers.witness import Witness
from atoll.services.scheduling import Scheduling
from atoll.services.shell import Shell
from atoll.wiring.certificates import Followed
from atoll.wiring.running import stop_asked_for

STANDSTILL_S = 10.0
"""The service's loop takes ten ticks a second; one that has taken none for so long is stuck."""

READY_CHECK_S = 0.1
_log = structlog.get_logger("atoll.serve")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What `atoll serve` was told.

    Args:
        kubeconfig: None = the pod's service account or the user's own.
        dns_names: further names of the server certificate, such as a Service's.
        fault: the text of ATOLL_FAULT, "" for none.
        webhook: host and port on which admission calls are answered; None = they are not.
        webhook_certificates: a folder with tls.crt, tls.key and ca.crt for it; None = it presents the same as the
            extender does.
        scheduler: the schedulerName that GPU pods get there which name none, "" = they keep what they have.
        gate: whether pods can be sent to nodes. near: node labels in which the nodes of a gang should agree.
        delivery: how the decision reaches pods for which no policy says so.
    """

    kubeconfig: Path | None
    host: str
    port: int
    certificates: Path
    namespace: str
    resources: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    fault: str = ""
    webhook: tuple[str, int] | None = None
    webhook_certificates: Path | None = None
    scheduler: str = ""
    gate: bool = False
    near: tuple[str, ...] = ()
    delivery: Delivery = Delivery.EXTENDER


class ListenError(AtollError):
    """The address cannot be listened on."""


class BeatingClock:
    """Monotonic time that remembers when it was last asked: the service asks at every event it takes."""

    def __init__(self) -> None:
        self._asked_at = time.monotonic()

    def now(self) -> float:
        self._asked_at = time.monotonic()
        return self._asked_at

    def utc(self) -> float:
        return time.time()

    def standstill(self) -> str:
        """Why the process should be restarted; "" while the loop turns."""
        silent_s = time.monotonic() - self._asked_at
        return f"the scheduling loop has stood still for {silent_s:.0f} s" if silent_s > STANDSTILL_S else ""


async def serve(settings: ServeSettings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        AtollError: it cannot be started as told.
    """
    stop = stop_asked_for()
    faults = Faults(parse_fault(settings.fault) if settings.fault else None)
    access = access_from(settings.kubeconfig)
    shown, asked_as = _certificates(settings)
    async with KubeClient(access) as client:
        registrations = Registrations(client, asked_as.ca, lambda: datetime.now(UTC))
        cluster: ClusterApi = KubeClusterApi(
            client, settings.resources, settings.namespace, registrations, foresee=settings.gate
        )
        if settings.fault:
            _log.warning("fault_armed", fault=settings.fault)
            cluster = FaultyApi(cluster, faults)
        metrics, clock = Metrics(), BeatingClock()
        witness = Witness(cluster, metrics)
        built_in = replace(BUILT_IN, delivery=settings.delivery)
        scheduling = Scheduling(
            built_in, webhook=settings.webhook is not None, foresee=settings.gate, near=settings.near
        )
        shell = Shell(scheduling, witness, clock, witness.heard)
        metrics.watch_gauges(shell.scheduling.statistics)
        service = Service(
            extender=Extender(shell, settings.resources),
            unhealthy=clock.standstill,
            unready=lambda: _unready(shell, stop),
            snapshot=lambda: snapshot_json(shell.scheduling.mirror),
            metrics=metrics,
            faults=faults,
        )
        server = runner(service)
        port = await _listen(server, settings.host, settings.port, shown.tls, "--listen")
        servers, following = [server], [shown.follow]
        if settings.webhook is not None:
            servers.append(webhook_runner(Webhook(shell, settings.resources, settings.scheduler), metrics))
            asked = await _listen(servers[-1], *settings.webhook, asked_as.tls, "--webhook")
            following.append(partial(asked_as.follow, registrations.name_ca))
            _log.info("webhook_listening", host=settings.webhook[0], port=asked)
        _log.info("listening", host=settings.host, port=port, server=access.server)
        # One name for all lives of this address: whoever holds it knows that the one before is dead, and leads at once.
        me = f"{socket.gethostname()}_{settings.host}:{port}"
        await _run_until(
            stop,
            [
                asyncio.create_task(shell.run(), name="shell"),
                *(asyncio.create_task(follow(), name="certificates") for follow in following),
                asyncio.create_task(_announce(shell), name="announce"),
            ],
            asyncio.create_task(_lead(client, settings.namespace, me, shell, faults), name="lead"),
            servers,
            faults,
        )


async def _run_until(
    stop: asyncio.Event,
    tasks: list[asyncio.Task[None]],
    lead: asyncio.Task[None],
    servers: Sequence[web.AppRunner],
    faults: Faults,
) -> None:
    """Wait for the stop or for a task that fails, and end everything in the one safe order."""
    stopped = asyncio.create_task(stop.wait())
    watched = [*tasks, lead]
    try:
        while not stopped.done():
            done, _ = await asyncio.wait([stopped, *watched], return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in watched if task in done]:
                watched.remove(task)
                task.result()  # what failed here is a bug: the process ends and is started again
    finally:
        _log.info("stopping")
        stop.set()
        stopped.cancel()
        for server in servers:
            await server.cleanup()
        await faults.reach(Point.WHILE_STOPPING)
        await _cancelled(lead)
        for task in tasks:
            await _cancelled(task)
        _log.info("stopped")


async def _cancelled(task: asyncio.Task[None]) -> None:
    """End a task; a failure that was raised already is not raised again."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _unready(shell: Shell, stop: asyncio.Event) -> Sequence[str]:
    missing = shell.not_ready()
    return [*([missing] if missing else []), *(["stopping"] if stop.is_set() else [])]


def _certificates(settings: ServeSettings) -> tuple[Followed, Followed]:
    """The extender's and the webhook's.

    Raises: CertificateError.
    """
    names = server_names(settings.host, settings.dns_names, socket.gethostname())

    def ours(now: datetime) -> Presented:
        return own(ensure_certificates(settings.certificates, names, now))

    apart = settings.webhook_certificates
    return Followed(ours, clients=True), Followed(ours if apart is None else lambda _: mounted(apart), clients=False)


async def _listen(server: web.AppRunner, host: str, port: int, tls: SSLContext, option: str) -> int:
    """Return the port, which the system chooses where none was given."""
    await server.setup()
    try:
        await web.TCPSite(server, host, port, ssl_context=tls, backlog=1024).start()
    except (OSError, UnicodeError) as error:
        await server.cleanup()
        why = getattr(error, "strerror", None) or str(error)
        raise ListenError(f"cannot listen on {host}:{port}: {why}. Give another {option}") from error
    taken: int = server.addresses[0][1]
    return taken


async def _lead(client: KubeClient, namespace: str, me: str, shell: Shell, faults: Faults) -> None:
    async with contextlib.aclosing(leadership(client, namespace, me)) as changes:
        async for change in changes:
            await faults.reach(Point.ON_LEASE_ACQUIRED if change.leading else Point.ON_LEASE_LOST)
            shell.lead(leading=change.leading)


async def _announce(shell: Shell) -> None:
    """Say when the caches have synced, and take what they hold out of the garbage collector's rounds."""
    started = time.monotonic()
    while shell.not_ready():  # noqa: ASYNC110 - asked for some seconds of a life, and nobody has to tell us
        await asyncio.sleep(READY_CHECK_S)
    gc.collect()
    gc.freeze()
    statistics = shell.scheduling.statistics()
    _log.info("ready", after_s=round(time.monotonic() - started, 2), nodes=statistics.nodes, pods=statistics.pods)
