"""Options and exit codes that several verbs share, so that they read and mean the same everywhere."""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from atoll.adapters.kube.names import GPU_RESOURCE, NAME_MAX, is_extended_resource, is_object_name
from atoll.core.errors import quoted

Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Default: the pod's service account, then $KUBECONFIG, then ~/.kube/config."),
]
GpuResource = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help=f"Counts as a GPU; repeatable. Default: {GPU_RESOURCE}.")
]


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def printed(document: dict[str, Any], output: Output) -> str:
    """Data as text, in ASCII: what a cluster calls things may hold characters that a terminal obeys."""
    if output is Output.YAML:
        return yaml.safe_dump(document, sort_keys=False)
    return json.dumps(document, indent=2) + "\n"


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


LABEL_MAX = 63
IMAGE = re.compile(r"[\w][\w.:/@-]{0,1023}", re.ASCII)


def object_name(given: str) -> str:
    """A name as Kubernetes takes it; refused here, since a path of the API or a file of YAML would take anything."""
    if not is_object_name(given):
        raise typer.BadParameter(f"found {quoted(given)}; legal are a-z, 0-9, - and . inside, at most {NAME_MAX}")
    return given


def namespace_name(given: str) -> str:
    """A name of a namespace."""
    if len(given) > LABEL_MAX or "." in given or not is_object_name(given):
        raise typer.BadParameter(f"found {quoted(given)}; legal are a-z, 0-9 and - inside, at most {LABEL_MAX}")
    return given


def resources_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that count as GPUs."""
    for name in given or ():
        if not is_extended_resource(name):
            raise typer.BadParameter(
                f"found {quoted(name)}; an extended resource is DOMAIN/NAME, e.g. {GPU_RESOURCE}: the domain of a-z, "
                f"0-9, - and . inside, at most {NAME_MAX}; the name of letters, digits, -, _ and . inside, at most 63",
                param_hint="--gpu-resource",
            )
    return tuple(dict.fromkeys(given or (GPU_RESOURCE,)))


AtollNamespace = Annotated[
    str, typer.Option("--atoll-namespace", metavar="NAME", callback=namespace_name, help="That Atoll's Leases lie in.")
]
