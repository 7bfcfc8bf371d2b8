"""`atoll explain`: which rule holds for a pod, and why it is where it is, or waits. It only reads."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from atoll.cli.console import SafeConsole
from atoll.cli.looking import study_of
from atoll.cli.options import AtollNamespace, GpuResource, Kubeconfig, Output, namespace_name, printed, resources_of
from atoll.cli.stories import story_document, story_lines
from atoll.cli.topology.given import read_files
from atoll.core.errors import AtollError, quoted
from atoll.core.facts import PodFacts
from atoll.services.study import Study

DEFAULT_NAMESPACE = "default"


def explain(
    pod: Annotated[
        str | None, typer.Argument(metavar="[NAMESPACE/]POD", help="A pod of the cluster, running or not.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="A pod that is not there yet; - is stdin.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAME",
            help=f"Of the pod, where nothing else says. Default: {DEFAULT_NAMESPACE}.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
    atoll_namespace: AtollNamespace = "kube-system",
    gpu_resource: GpuResource = None,
) -> None:
    """Tell which placement policy and rule hold for a pod, what it asks for, and where it is or why it waits.

    Nodes are judged by their GPUs and, of a pod that waits, by what kube-scheduler's filters would say: CPU and memory,
    taints, affinity, spread, volumes, ports.

    Exit code 0 when it was explained, 1 when the cluster cannot be asked or has no such pod, 2 when FILE has none.
    """
    if (pod is None) == (file is None):
        raise typer.BadParameter("found " + ("neither" if pod is None else "both") + "; give a pod's name or -f FILE")
    resources = resources_of(gpu_resource)
    where, name = _named(pod or "", namespace)
    given = as_scheduled = None
    if file is not None:
        from atoll.adapters.kube.given import pod_in  # noqa: PLC0415 - as the cluster's client, when it is needed

        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        given, as_scheduled = pod_in(read_files([file])[0], where, now, resources)
    study = study_of(kubeconfig, resources, atoll_namespace, foresee=True)
    story = study.story(given, given=as_scheduled) if given else study.story(_found(study, where, name))
    if output in {Output.TABLE, Output.WIDE}:
        console = SafeConsole(soft_wrap=True)
        for line in story_lines(story):
            console.print(line)
    else:
        typer.echo(printed(story_document(story), output), nl=False)


def _named(pod: str, namespace: str | None) -> tuple[str, str]:
    """Namespace and name."""
    before, slash, name = pod.rpartition("/")
    if slash and namespace not in (None, before):
        raise typer.BadParameter(f"found namespaces {quoted(before)} and {quoted(namespace or '')}; give one of them")
    return namespace_name(before or namespace or DEFAULT_NAMESPACE), name


def _found(study: Study, namespace: str, name: str) -> PodFacts:
    found = study.pod(namespace, name)
    if found is None:
        near = [each.name for each in study.pods if each.namespace == namespace][:8]
        there = f"with GPUs there are: {', '.join(near)}" if near else "no pod there asks for GPUs"
        raise AtollError(f"no pod {quoted(name)} that asks for GPUs in namespace {quoted(namespace)}; {there}")
    return found
