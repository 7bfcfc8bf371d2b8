"""Options and exit codes that several verbs share, so that they read and mean the same everywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from atoll.adapters.kube.names import GPU_RESOURCE

FAILED, UNUSABLE = 1, 2
"""In kubectl's manner: refused or failed; wrong usage or a topology file that cannot be trusted. 0 is done."""

Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Default: the pod's service account, then $KUBECONFIG, then ~/.kube/config."),
]
GpuResource = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help=f"Counts as a GPU; repeatable. Default: {GPU_RESOURCE}.")
]


def resources_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that count as GPUs."""
    return tuple(given or (GPU_RESOURCE,))
