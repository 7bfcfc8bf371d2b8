"""One look at a live cluster, as the scheduling service sees it."""

import time
from pathlib import Path

import typer

from atoll.core.errors import printable
from atoll.services.study import Study

UNREAD_TOLD_MAX = 20


def study_of(kubeconfig: Path | None, resources: tuple[str, ...], namespace: str) -> Study:
    """
    Args:
        namespace: of Atoll's Leases.

    Raises:
        AtollError: the cluster cannot be asked.
    """
    # Imported here, as in `serve`: the verbs that ask no cluster should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.once import look  # noqa: PLC0415

    study = Study(look(access_from(kubeconfig), resources, namespace), time.time())
    for each in study.unread[:UNREAD_TOLD_MAX]:
        typer.echo(printable(f"not counted: of {each.kind}, {each.name} cannot be read: {each.why}"), err=True)
    return study
