"""Options and exit codes that several verbs share, so that they read and mean the same everywhere."""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.core.errors import quoted

Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Default: the pod's service account, then $KUBECONFIG, then ~/.kube/config."),
]
GpuResource = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help=f"Counts as a GPU; repeatable. Default: {GPU_RESOURCE}.")
]


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


NAME_MAX = 253
LABEL_MAX = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

IMAGE = re.compile(r"[\w][\w.:/@-]{0,1023}", re.ASCII)
_OWN_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def object_name(given: str) -> str:
    """A name as Kubernetes takes it; refused here, since a path of the API or a file of YAML would take anything."""
    if len(given) > NAME_MAX or not _NAME.fullmatch(given):
        raise typer.BadParameter(f"found {quoted(given)}; legal are a-z, 0-9, - and . inside, at most {NAME_MAX}")
    return given


def namespace_name(given: str) -> str:
    """A name of a namespace."""
    if len(given) > LABEL_MAX or "." in given or not _NAME.fullmatch(given):
        raise typer.BadParameter(f"found {quoted(given)}; legal are a-z, 0-9 and - inside, at most {LABEL_MAX}")
    return given


def resources_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that count as GPUs."""
    for name in given or ():
        domain, _, own = name.partition("/")
        if len(domain) > NAME_MAX or not _NAME.fullmatch(domain) or not _OWN_NAME.fullmatch(own):
            raise typer.BadParameter(
                f"found {quoted(name)}; an extended resource is DOMAIN/NAME, e.g. {GPU_RESOURCE}: the domain of a-z, "
                f"0-9, - and . inside, at most {NAME_MAX}; the name of letters, digits, -, _ and . inside, at most 63",
                param_hint="--gpu-resource",
            )
    return tuple(dict.fromkeys(given or (GPU_RESOURCE,)))
