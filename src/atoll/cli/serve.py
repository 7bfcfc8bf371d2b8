"""`atoll serve`: the scheduler side, until it is told to stop."""

import os
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.ending import FAILED
from atoll.cli.options import GpuResource, Kubeconfig, LogFormat, object_name, resources_of
from atoll.core.delivery import Delivery
from atoll.core.errors import quoted

PORT_MAX = 65_535

Webhook = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Answer admission calls there (`atoll manifests webhook`).")
]
WebhookCertificates = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Its tls.crt, tls.key and ca.crt, e.g. a mounted Secret; else of --cert-dir."),
]
WebhookScheduler = Annotated[
    str, typer.Option(metavar="NAME", help="The schedulerName that GPU pods get there which name none.")
]
Gate = Annotated[
    bool, typer.Option("--gate", help="Watch what pods' own schedulers look at, so that pods can be sent to nodes.")
]
Near = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL", help="A node label in which the nodes of a gang should agree; repeatable."),
]
How = Annotated[
    Delivery,
    typer.Option(
        case_sensitive=False,
        help="How pods wait where no PlacementPolicy says so; all but Extender needs --webhook.",
    ),
]


def serve(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where kube-scheduler reaches us; [::]:8443 for IPv6.")
    ] = "0.0.0.0:8443",
    cert_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Certificates; what is missing there is made: CA, server, scheduler.")
    ],
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Where the Lease lies.")
    ] = "kube-system",
    gpu_resource: GpuResource = None,
    dns_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name of the server certificate, e.g. a Service's; repeatable."),
    ] = None,
    webhook: Webhook = None,
    webhook_cert_dir: WebhookCertificates = None,
    webhook_scheduler: WebhookScheduler = "",
    gate: Gate = False,
    delivery: How = Delivery.EXTENDER,
    gang_topology: Near = None,
    log_format: Annotated[LogFormat, typer.Option(help="Logs go to standard error.")] = LogFormat.JSON,
) -> None:
    """Answer kube-scheduler: whole islands, or wait and be told why. Runs until SIGTERM.

    /healthz and /readyz need no client certificate; everything else does. Exit code 0 after a stop, 1 when it cannot be
    started as told or fails.
    """
    host, port = _address(listen, "--listen")
    if webhook is None:
        _needs_webhook(
            {
                "--webhook-scheduler": webhook_scheduler,
                "--webhook-cert-dir": webhook_cert_dir,
                "--delivery": delivery is not Delivery.EXTENDER,
            }
        )
    if delivery is Delivery.WAITING_ROOM and not webhook_scheduler:
        why = "found no --webhook-scheduler; a pod that is let go to a scheduler that does not ask is placed blindly"
        raise typer.BadParameter(why, param_hint="--delivery")
    if delivery is Delivery.GATE and not gate:
        raise typer.BadParameter("found no --gate; without it no pod can be sent anywhere", param_hint="--delivery")
    asked_at = None if webhook is None else _address(webhook, "--webhook")
    # Imported here, since the other verbs should not wait half a second for servers and clients that they do not use.
    from atoll.adapters.faults import VARIABLE  # noqa: PLC0415
    from atoll.cli.serving import run  # noqa: PLC0415
    from atoll.wiring import serve as wired  # noqa: PLC0415

    settings = wired.ServeSettings(
        kubeconfig=kubeconfig,
        host=host,
        port=port,
        certificates=cert_dir,
        namespace=namespace,
        resources=resources_of(gpu_resource),
        dns_names=tuple(dns_name or ()),
        fault=os.environ.get(VARIABLE, ""),
        webhook=asked_at,
        gate=gate,
        near=tuple(gang_topology or ()),
        delivery=delivery,
        webhook_certificates=webhook_cert_dir,
        scheduler=object_name(webhook_scheduler) if webhook_scheduler else "",
    )
    if not run(wired.serve(settings), json_logs=log_format is LogFormat.JSON):
        raise typer.Exit(FAILED)


def _needs_webhook(given: dict[str, object]) -> None:
    """Args: given: options that say how the webhook is to be, with what was given for them."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter("found no --webhook; it is the webhook that does it", param_hint=option)


def _address(listen: str, option: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise typer.BadParameter(f"{quoted(listen)} is not HOST:PORT, e.g. 127.0.0.1:8443", param_hint=option)
    return host, int(port)
