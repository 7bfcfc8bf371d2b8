"""`atoll uninstall --plan`: what is to be done, and in which order, for Atoll to leave nothing stuck. It only reads."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from atoll.adapters.kube.manifests import SCHEDULER_NAME
from atoll.cli.console import SafeConsole
from atoll.cli.looking import study_of
from atoll.cli.options import (
    AtollNamespace,
    GpuResource,
    Kubeconfig,
    Output,
    object_name,
    printed,
    resources_of,
)
from atoll.cli.removals import removal_document, removal_lines
from atoll.core.removal import Gates, removal


def uninstall(
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Print what is to be done. Required.")] = False,
    gates: Annotated[
        Gates,
        typer.Option("--gates", help="What becomes of the pods that wait behind atoll.dev/waiting or /placement."),
    ] = Gates.LIFT,
    scheduler_name: Annotated[
        str, typer.Option(metavar="NAME", callback=object_name, help="Of the kube-scheduler that goes with Atoll.")
    ] = SCHEDULER_NAME,
    kubeconfig: Kubeconfig = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="How to print it; wide names every pod and every command.")
    ] = Output.TABLE,
    atoll_namespace: AtollNamespace = "kube-system",
    gpu_resource: GpuResource = None,
) -> None:
    """Tell what is to be done to take Atoll off a cluster, step by step, with the commands. Nothing is changed.

    It is one look: after a step that waits for something, look again. A plan with no steps says that nothing is left.

    Exit code 0 when it was told, 1 when the cluster cannot be asked, 2 without --plan.
    """
    if not plan:
        raise typer.BadParameter(
            "missing; Atoll is removed by running the commands that `atoll uninstall --plan` prints",
            param_hint="--plan",
        )
    resources = resources_of(gpu_resource)
    # Imported here, as in `serve`: the verbs that ask no cluster should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.installed import GATE_POLICY, look_for  # noqa: PLC0415

    study = study_of(kubeconfig, resources, atoll_namespace)
    found = look_for(access_from(kubeconfig), atoll_namespace, scheduler_name, resources)
    remains = replace(study.remains(found.bystanders), objects=found.objects, gate_policy=GATE_POLICY)
    steps = removal(remains, gates, scheduler_name)
    if output in {Output.TABLE, Output.WIDE}:
        console = SafeConsole(soft_wrap=True, highlight=False)
        for line in removal_lines(steps, gates, datetime.now(UTC), whole=output is Output.WIDE):
            console.print(line)
    else:
        typer.echo(printed(removal_document(steps, gates), output), nl=False)
