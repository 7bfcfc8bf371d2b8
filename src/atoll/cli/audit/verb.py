"""`atoll audit`: does this cluster break GPU islands, and what does its hardware really look like? It only reads."""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from atoll.adapters.defects import known_defects
from atoll.cli.audit.document import document_of, json_text
from atoll.cli.audit.seen import SEEN_HELP, picture_of
from atoll.cli.audit.terminal import print_report
from atoll.cli.collector import collector_paused
from atoll.cli.console import SafeConsole
from atoll.cli.options import GpuResource, Output, resources_of
from atoll.core.audit.audit import audit as audited
from atoll.core.audit.report import Report
from atoll.core.errors import AtollError
from atoll.models.setup import predicted

Live = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Ask this cluster, read-only; `atoll manifests audit-rbac` prints the rights."),
]

METRICS_HELP = "More GPU metrics, as Prometheus prints them; in what else is given they are found by content."


def audit(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE|FOLDER...", help=SEEN_HELP)] = None,
    kubeconfig: Live = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help=METRICS_HELP,
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained page too.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
    gpu_resource: GpuResource = None,
) -> None:
    """Audit files, a support bundle or a live cluster: topology, versions, who holds which GPUs, what is broken.

    The first finding is the most consequential. Nothing is installed and nothing is written but --html.

    Exit code 0 when the audit was made, whatever it found; 1 when the cluster or an output cannot be reached, 2 when
    nothing of what was given can be used. A file that cannot be used among others is told in the report.
    """
    with collector_paused():
        picture = picture_of(files or [], kubeconfig, resources_of(gpu_resource), metrics or [])
        report = audited(picture, known_defects(), predicted)
        if html is not None:
            _write(html, report)
        _print(report, output)


def _write(path: Path, report: Report) -> None:
    from atoll.cli.audit.html import page_of  # noqa: PLC0415 - only where a page is asked for

    try:
        path.write_text(page_of(document_of(report)), encoding="utf-8")
    except OSError as error:
        raise AtollError(f"{path} cannot be written: {error.strerror or error}") from error


def _print(report: Report, output: Output) -> None:
    console = SafeConsole()
    if output in {Output.TABLE, Output.WIDE}:
        print_report(report, console, wide=output == Output.WIDE)
    elif output == Output.JSON:
        typer.echo(json_text(document_of(report)))
    else:
        typer.echo(yaml.safe_dump(document_of(report), sort_keys=False), nl=False)
