"""`atoll manifests`: what an installation applies, as YAML on standard output."""

import re
from typing import Annotated
from urllib.parse import urlsplit

import typer

from atoll.adapters.kube import admission as policies
from atoll.adapters.kube import manifests as made
from atoll.adapters.kube import manifests_agent as node_side
from atoll.adapters.kube import manifests_shim as command_mode
from atoll.adapters.kube import manifests_webhook as registered
from atoll.adapters.kube.names import is_object_name
from atoll.cli.options import IMAGE, GpuResource, namespace_name, object_name, resources_of
from atoll.core.errors import quoted

_LABEL = re.compile(r"[A-Za-z0-9][\w./-]{0,315}=(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)

app = typer.Typer(name="manifests", help="Print what an installation applies, as YAML.", no_args_is_help=True)


@app.command()
def crds() -> None:
    """Print the custom resource definitions: GPUNode, GPUNodeConfig, GPULedger, PlacementPolicy."""
    typer.echo("---\n".join(made.crd_texts().values()), nl=False)


@app.command()
def rbac(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of service account and Lease.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll serve` runs.")
    ] = made.SERVICE_ACCOUNT,
    webhook: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--webhook", help="It is started with --webhook, too.")
    ] = False,
    gate: Annotated[bool, typer.Option("--gate", help="It is started with --gate, too.")] = False,  # noqa: FBT002
) -> None:
    """Print the service account of `atoll serve` and exactly the roles it needs."""
    typer.echo(made.yaml_of(made.rbac(namespace, service_account, webhook=webhook, gate=gate)), nl=False)


@app.command()
def webhook(
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the API server reaches `atoll serve --webhook`.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME[:PORT]", help="The Service before it, where it runs in the cluster."),
    ] = None,
    inject_ca_from: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="A Certificate of cert-manager, which then fills in its CA."),
    ] = None,
    gpu_resource: GpuResource = None,
) -> None:
    """Print the registrations of the webhook: for pods with GPUs, and for warnings about workloads with GPUs.

    `atoll serve --webhook` fills in its CA, unless cert-manager does, and keeps the failure policy in step: Ignore
    until some pool is enforced, Fail from then on.
    """
    if (url is None) == (service is None):
        raise typer.BadParameter("found " + ("neither" if url is None else "both") + "; give --url or --service")
    if url is not None:
        _check_url(url, "the webhook", "--url")
    if inject_ca_from is not None and not _names_object(inject_ca_from):
        raise typer.BadParameter(
            f"found {quoted(inject_ca_from)}; wanted is NAMESPACE/NAME of a Certificate", param_hint="--inject-ca-from"
        )
    objects = registered.webhook(
        {"url": url} if url else {"service": _service(service or "")},
        inject_ca_from=inject_ca_from or "",
        resources=resources_of(gpu_resource),
    )
    typer.echo(made.yaml_of(objects), nl=False)


def _service(given: str) -> dict[str, object]:
    where, _, port = given.partition(":")
    if not _names_object(where) or not (port or "443").isdecimal():
        raise typer.BadParameter(
            f"found {quoted(given)}; wanted is NAMESPACE/NAME or NAMESPACE/NAME:PORT", param_hint="--service"
        )
    namespace, _, name = where.partition("/")
    return {"namespace": namespace, "name": name, "port": int(port or 443)}


def _names_object(given: str) -> bool:
    namespace, slash, name = given.partition("/")
    return bool(slash) and is_object_name(namespace) and is_object_name(name)


@app.command()
def admission(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of the service accounts and the agents' Leases.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll serve` runs.")
    ] = made.SERVICE_ACCOUNT,
    agent_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which the agents on the nodes run.")
    ] = node_side.AGENT_ACCOUNT,
    shim_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which the shims on the nodes run.")
    ] = command_mode.SHIM_ACCOUNT,
) -> None:
    """Print admission policies: who writes ledgers, what Atoll answers on pods, and a node's inventory."""
    for account, what in ((agent_account, "agent"), (shim_account, "shim")):
        if account == service_account:
            raise typer.BadParameter(
                f"found {quoted(account)} for both; the {what} of a node with the rights of `atoll serve` is held to "
                "no node",
                param_hint=f"--{what}-account",
            )
    typer.echo(made.yaml_of(policies.admission(namespace, service_account, agent_account, shim_account)), nl=False)


@app.command()
def audit_rbac(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of the service account.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll audit` reads.")
    ] = made.AUDIT_ACCOUNT,
    probe: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE",
            callback=lambda given: None if given is None else namespace_name(given),
            help="Where `atoll audit probe` may make and delete pods, too.",
        ),
    ] = None,
) -> None:
    """Print a service account for `atoll audit` and the role that reads what it looks at, and nothing else."""
    typer.echo(made.yaml_of(made.audit_rbac(namespace, service_account, probe or "")), nl=False)


@app.command()
def agent_rbac(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of service account and Leases.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll agent` runs.")
    ] = node_side.AGENT_ACCOUNT,
) -> None:
    """Print the service account of `atoll agent` and exactly the roles it needs."""
    typer.echo(made.yaml_of(node_side.agent_rbac(namespace, service_account)), nl=False)


@app.command()
def agent(
    *,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="A container image whose entry point is `atoll`.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of DaemonSet, service account and Leases.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll agent` runs.")
    ] = node_side.AGENT_ACCOUNT,
    runtime_class: Annotated[
        str, typer.Option(metavar="NAME", help="Which mounts the driver's library into a container; may be empty.")
    ] = "nvidia",
    node_label: Annotated[
        str, typer.Option(metavar="KEY=VALUE", help="Of the nodes that it runs on.")
    ] = node_side.GPU_NODES,
    self_signed_kubelets: Annotated[
        bool,
        typer.Option("--self-signed-kubelets", help="Kubelets make their own certificates, as kubeadm leaves it."),
    ] = False,
) -> None:
    """Print the DaemonSet of `atoll agent`, with its service account and roles."""
    objects = node_side.agent(
        _image(image),
        nodes=_label(node_label),
        namespace=namespace,
        account=service_account,
        runtime_class=object_name(runtime_class) if runtime_class else "",
        self_signed=self_signed_kubelets,
    )
    typer.echo(made.yaml_of(objects), nl=False)


@app.command()
def shim_rbac(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of service account and Leases.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll shim` runs.")
    ] = command_mode.SHIM_ACCOUNT,
) -> None:
    """Print the service account of `atoll shim` and exactly the roles it needs."""
    typer.echo(made.yaml_of(command_mode.shim_rbac(namespace, service_account)), nl=False)


@app.command()
def shim(
    *,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="A container image whose entry point is `atoll`.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of DaemonSet, service account and Leases.")
    ] = made.NAMESPACE,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="As which `atoll shim` runs.")
    ] = command_mode.SHIM_ACCOUNT,
    node_label: Annotated[
        str, typer.Option(metavar="KEY=VALUE", help="Of the nodes that it runs on.")
    ] = node_side.GPU_NODES,
) -> None:
    """Print the DaemonSet of `atoll shim`, with its service account and roles."""
    objects = command_mode.shim(_image(image), namespace=namespace, account=service_account, nodes=_label(node_label))
    typer.echo(made.yaml_of(objects), nl=False)


def _image(given: str) -> str:
    if not IMAGE.fullmatch(given):
        raise typer.BadParameter(
            f"found {quoted(given)}; wanted is an image, e.g. example.com/atoll:1.0", param_hint="--image"
        )
    return given


def _label(given: str) -> str:
    if not _LABEL.fullmatch(given):
        raise typer.BadParameter(
            f"found {quoted(given)}; wanted is KEY=VALUE, e.g. {node_side.GPU_NODES}", param_hint="--node-label"
        )
    return given


@app.command()
def scheduler_config(
    extender_url: Annotated[str, typer.Option(metavar="URL", help="Of `atoll serve`, e.g. https://127.0.0.1:8443.")],
    cert_dir: Annotated[
        str, typer.Option(metavar="DIR", help="The folder of `atoll serve --cert-dir`, as the scheduler sees it.")
    ],
    scheduler_name: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="The schedulerName that GPU pods give.")
    ] = made.SCHEDULER_NAME,
    gpu_resource: GpuResource = None,
) -> None:
    """Print the KubeSchedulerConfiguration of a stock kube-scheduler for GPU pods."""
    _check_url(extender_url, "the extender", "--extender-url")
    if not cert_dir:
        raise typer.BadParameter("found no folder; give that of `atoll serve --cert-dir`", param_hint="--cert-dir")
    config = made.scheduler_config(
        extender_url, cert_dir, scheduler_name=scheduler_name, resources=resources_of(gpu_resource)
    )
    typer.echo(made.yaml_of([config]), nl=False)


def _check_url(given: str, what: str, option: str) -> None:
    """Refuse what would be taken and never reached."""
    if not given.startswith("https://"):
        raise typer.BadParameter(f"found {quoted(given)}; {what} speaks https only", param_hint=option)
    try:
        url = urlsplit(given)
        whole = bool(url.hostname) and url.port != 0 and not re.search(r"\s", given)
    except ValueError:  # a port that is no number or too large, or a bracket too few
        whole = False
    if not whole or url.path not in {"", "/"} or url.query or url.fragment:
        raise typer.BadParameter(
            f"found {quoted(given)}; wanted is https://HOST:PORT, e.g. https://127.0.0.1:8443",
            param_hint=option,
        )
