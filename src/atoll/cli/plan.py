"""`atoll plan`: what would be decided otherwise if something was changed. It only reads."""

from typing import Annotated

import typer

from atoll.cli.console import SafeConsole
from atoll.cli.looking import study_of
from atoll.cli.options import AtollNamespace, GpuResource, Kubeconfig, Output, printed, resources_of
from atoll.cli.stories import change_document, change_lines
from atoll.cli.topology.given import read_files


def plan(
    policy: Annotated[
        str, typer.Option("--policy", metavar="FILE", help="PlacementPolicies to try; - is stdin. Not applied.")
    ],
    kubeconfig: Kubeconfig = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
    atoll_namespace: AtollNamespace = "kube-system",
    gpu_resource: GpuResource = None,
) -> None:
    """Tell which running and waiting pods would be decided otherwise under the policies of FILE.

    One of FILE replaces the one of its name; the others stay. A policy in shadow is tried as one that decides. Pods
    that run keep what they have: of them it is told what they would get if they were asked for now.

    Exit code 0 when it was told, 1 when the cluster cannot be asked or a policy would not be accepted, 2 when FILE
    has no policy.
    """
    from atoll.adapters.kube.given import policies_in  # noqa: PLC0415 - as the cluster's client, when it is needed

    policies = policies_in(read_files([policy])[0])
    study = study_of(kubeconfig, resources_of(gpu_resource), atoll_namespace)
    changes = study.under(policies)
    if output in {Output.TABLE, Output.WIDE}:
        console = SafeConsole(soft_wrap=True)
        for line in change_lines(changes):
            console.print(line)
        console.print(f"{len(changes)} of {len(study.pods)} pods with GPUs would be decided otherwise")
        return
    document = {
        "apiVersion": "atoll.dev/v1alpha1",
        "kind": "Plan",
        "pods": len(study.pods),
        "changes": [change_document(change) for change in changes],
    }
    typer.echo(printed(document, output), nl=False)
