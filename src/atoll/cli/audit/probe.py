"""`atoll audit probe`: pods on an idle node, to see which GPUs its own parts really hand out.

It is the one audit that writes: it says what it will do, and asks.
"""

import asyncio
import secrets
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer
import yaml

from atoll.cli.audit.document import API_VERSION, json_text
from atoll.cli.audit.seen import picture_beside
from atoll.cli.audit.terminal import columns
from atoll.cli.collector import collector_paused
from atoll.cli.console import SafeConsole
from atoll.cli.options import IMAGE, GpuResource, Kubeconfig, Output, namespace_name, object_name, resources_of
from atoll.core.audit.probing import NoProbe, Probed, ProbeSite, judged, site_of
from atoll.core.errors import AtollError, quoted
from atoll.core.probe import NAME_PREFIX, Got
from atoll.models.setup import predicted

SIZES = (2, 4, 8)
NAMESPACE = "default"


def audit_probe(
    node: Annotated[str, typer.Argument(metavar="NODE", callback=object_name, help="Idle and cordoned.")],
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|FOLDER", help="More sources of the node's topology, as `atoll audit` takes them."),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=1, max=64, help="GPUs per pod; repeatable, one round each. Default: 2, 4, 8."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", callback=namespace_name, help="Where the pods are made.")
    ] = NAMESPACE,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Of a container that waits. Default: the pause image of Kubernetes."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    gpu_resource: GpuResource = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
    *,
    schedulable: Annotated[
        bool, typer.Option("--schedulable", help="Probe a node that is not cordoned, too: other pods may come.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Create and delete pods on an idle node, and record which GPUs they really got.

    Per size, one pod after another is bound to the node by its name until it is full; what each gets is compared with
    what Atoll foresees for the parts that hand out GPUs there. The pods carry the label atoll.dev/probe, only wait,
    and are deleted after each round, also on Ctrl-C. `atoll manifests audit-rbac --probe NAMESPACE` prints the
    rights.

    Exit code 0 when the probe was made, whatever it found; 1 when it was refused, 2 for wrong usage.
    """
    resources = resources_of(gpu_resource)
    if image is not None and not IMAGE.fullmatch(image):
        raise typer.BadParameter(f"found {quoted(image)}; wanted is an image", param_hint="--image")
    # Imported here, as in `serve`: the verbs that ask no cluster should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.probe_pods import PAUSE  # noqa: PLC0415
    from atoll.wiring.probe import probe  # noqa: PLC0415

    run = partial(
        probe,
        access_from(kubeconfig),
        node,
        namespace,
        mark=secrets.token_hex(3),
        resource=resources[0],
        image=image or PAUSE,
    )
    with collector_paused():
        site = site_of(
            picture_beside(kubeconfig, file or [], resources),
            node,
            predicted,
            probes=f"{namespace}/{NAME_PREFIX}",
            cordoned=not schedulable,
        )
    if isinstance(site, NoProbe):
        raise AtollError(site.why + (f"\nhelps: {site.help}" if site.help else ""))
    sizes = _sizes(size, site)
    _agree(site, sizes, namespace, yes=yes)
    _run(site, sizes, run, output)


def _run(
    site: ProbeSite, sizes: Sequence[int], run: Callable[..., Coroutine[Any, Any, list[Got]]], output: Output
) -> None:
    """Probe, and print whatever is known in the end."""
    progress = _Progress(sum(site.gpus // each for each in sizes))
    try:
        asyncio.run(run(sizes, site.gpus, told=progress.tell))
    finally:
        if progress.got:
            _print(site, tuple(judged(site, progress.got)), output)
    if progress.got[-1].refused:
        raise AtollError(progress.got[-1].why)


def _sizes(asked: Sequence[int] | None, site: ProbeSite) -> tuple[int, ...]:
    usual = tuple(size for size in SIZES if size <= site.gpus) or (1,)
    sizes = tuple(dict.fromkeys(asked or usual))
    if too_large := [size for size in sizes if size > site.gpus]:
        raise typer.BadParameter(f"found {too_large[0]}; {site.name} offers {site.gpus} GPUs", param_hint="--size")
    return sizes


def _agree(site: ProbeSite, sizes: Sequence[int], namespace: str, *, yes: bool) -> None:
    pods = ", then ".join(f"{site.gpus // size} of {size} GPU{'' if size == 1 else 's'}" for size in sizes)
    words = f"On {site.name}, in namespace {namespace}: {pods}; each pod is deleted afterwards."
    if site.left:
        words += f"\nBefore that, what another probe left there is deleted: {', '.join(site.left)}."
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise AtollError(f"{words}\nNobody can be asked here whether that is right; --yes says so.")
    typer.echo(words, err=True)
    typer.confirm("Go on?", abort=True, err=True)


class _Progress:
    """A line per pod on standard error, where somebody looks."""

    def __init__(self, total: int) -> None:
        self._total, self.got = total, list[Got]()
        self._console = SafeConsole(stderr=True) if sys.stderr is not None and sys.stderr.isatty() else None

    def tell(self, got: Got) -> None:
        self.got.append(got)
        if self._console is not None:
            what = got.why or " ".join(got.uuids or ())
            self._console.print(f"{len(self.got)}/{self._total}  {got.gpus} GPUs: {what}", style="dim", markup=False)


def _print(site: ProbeSite, pods: Sequence[Probed], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json_text(_document(site, pods)))
    elif output is Output.YAML:
        typer.echo(yaml.safe_dump(_document(site, pods), sort_keys=False), nl=False)
    else:
        console = SafeConsole(highlight=False, soft_wrap=True)
        for line in _lines(site, pods, wide=output is Output.WIDE):
            console.print(line, markup=False)


def _lines(site: ProbeSite, pods: Sequence[Probed], *, wide: bool) -> list[str]:
    rows = [("GPUs", "pod", "got", "domain", "foreseen", *(["UUIDs"] if wide else []))]
    for each in pods:
        got = each.got
        gpus = " ".join(map(str, each.indexes)) or (
            got.why if not got.uuids else f"{len(got.uuids)} GPUs, named by -o wide"
        )
        uuids = [" ".join(got.uuids or ())] if wide else []
        rows.append((str(got.gpus), f"{got.nth} of {got.of}", gpus, _domain(each), _foreseen(each), *uuids))
    return [f"{site.name}: {site.gpus} GPUs", *columns(rows), "", *_verdict(site, pods)]


def _domain(each: Probed) -> str:
    if each.whole is None:
        return ""
    split = "" if each.whole else ", SPLIT"
    return f"{each.domain}{f' ({each.link})' if each.link else ''}{split}"


def _foreseen(each: Probed) -> str:
    if each.foreseen is None:
        return "cannot be told"
    sets = f", one of {each.sets} sets" if each.sets > 1 else ""
    return f"yes{sets}" if each.foreseen else "NO"


def _verdict(site: ProbeSite, pods: Sequence[Probed]) -> list[str]:
    strange = sum(each.foreseen is False for each in pods)
    if strange:
        return [
            f"{strange} of {len(pods)} pods got what nobody foresaw: Restricted is not safe here in observe mode.",
            "Please report it with the output of `atoll snapshot save`.",
        ]
    if any(each.foreseen is None for each in pods):
        return [f"Not everything could be compared{': ' if site.gates else '.'}{'; '.join(site.gates)}"]
    split = sum(each.whole is False for each in pods)
    return [f"Every pod got what was foreseen. {f'{split} of {len(pods)} are split.' if split else 'None is split.'}"]


def _document(site: ProbeSite, pods: Sequence[Probed]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "ProbeReport",
        "taken": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "node": site.name,
        "gpus": site.gpus,
        "gates": list(site.gates),
        "pods": [
            {
                "gpus": each.got.gpus,
                "nth": each.got.nth,
                "of": each.got.of,
                "uuids": list(each.got.uuids or ()),
                "indexes": list(each.indexes),
                "domain": each.domain,
                "link": each.link,
                "whole": each.whole,
                "failed": each.got.failed,
                "why": each.got.why,
                "foreseen": each.foreseen,
                "sets": each.sets,
            }
            for each in pods
        ],
    }
