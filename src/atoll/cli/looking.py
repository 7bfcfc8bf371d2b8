"""One look at a live cluster, as the scheduling service sees it."""

import time
from pathlib import Path

import typer

from atoll.core.errors import AtollError, printable
from atoll.services.study import Study

UNREAD_TOLD_MAX = 20


def study_of(kubeconfig: Path | None, resources: tuple[str, ...], namespace: str, *, foresee: bool = False) -> Study:
    """
    Args:
        namespace: of Atoll's Leases.
        foresee: whether to look also at what else keeps pods from nodes. Who may not list that is told so.

    Raises:
        AtollError: the cluster cannot be asked.
    """
    # Imported here, as in `serve`: the verbs that ask no cluster should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.once import look  # noqa: PLC0415

    access = access_from(kubeconfig)
    try:
        seen = look(access, resources, namespace, foresee=foresee)
    except AtollError as error:
        if not foresee:
            raise
        seen = look(access, resources, namespace)
        typer.echo(printable(f"nodes are judged by their GPUs alone: {error}"), err=True)
    study = Study(seen, time.time(), resources)
    for each in study.unread[:UNREAD_TOLD_MAX]:
        typer.echo(printable(f"not counted: of {each.kind}, {each.name} cannot be read: {each.why}"), err=True)
    return study
