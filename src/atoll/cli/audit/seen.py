"""What the command line lets an audit see: files, folders, a snapshot, a live cluster, or files beside a cluster."""

import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

import typer
from rich.console import Console

from atoll.adapters import snapshot_file
from atoll.adapters.formats.cluster.prometheus import read_json, read_metrics, recognises_json
from atoll.adapters.formats.folder import Bundle
from atoll.adapters.formats.text.documents import documents, looks_structured
from atoll.adapters.formats.text.text import decode
from atoll.adapters.kube.survey.gather import Survey
from atoll.cli.topology.given import STDIN, bundle_from, read_files
from atoll.core.audit.picture import Metric, Picture

SEEN_HELP = "Folders or tar files (each subfolder is a node), files of one node, or a snapshot; - is stdin."
_GZIP = b"\x1f\x8b"


def picture_of(
    names: Sequence[str], kubeconfig: Path | None, resources: tuple[str, ...], metrics: Sequence[str] = ()
) -> Picture:
    """Look at everything that is named.

    Raises:
        AtollError: a file that was named, or the cluster, cannot be read at all.
        typer.BadParameter: nothing is named, or a snapshot together with something else.
    """
    if not names and kubeconfig is None:
        raise typer.BadParameter(
            "found neither files nor --kubeconfig; give a folder of a support bundle, files of a node, or a kubeconfig"
        )
    taken = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    samples = tuple(sample for name in metrics for sample in _metrics_of(name))
    snapshots = [name for name in names if _is_snapshot(name)]
    if snapshots and (len(names) > 1 or kubeconfig):
        raise typer.BadParameter(f"{snapshots[0]} is a snapshot, which holds all that was seen; give it alone")
    if snapshots:
        return _with(_loaded(snapshots[0]), samples)
    with _progress(f"reading {', '.join(names[:3])}" if names else "reading"):
        bundle = bundle_from(names, None, forgiving=True)[0] if names else Bundle("")
    if kubeconfig is None:
        return _with(_from_files(bundle, resources, taken), samples)
    with _progress("asking the cluster"):
        return _with(_from_cluster(kubeconfig, bundle, resources, taken), samples)


def _with(picture: Picture, samples: tuple[Metric, ...]) -> Picture:
    return replace(picture, metrics=(*picture.metrics, *samples))


def _from_files(bundle: Bundle, resources: tuple[str, ...], taken: str) -> Picture:
    survey = _survey_of(bundle, resources)
    return survey.picture(bundle.origin, taken, dict(bundle.groups))


def _survey_of(bundle: Bundle, resources: tuple[str, ...]) -> Survey:
    survey = Survey(resources)
    for found in bundle.objects:
        survey.add(found.document.value, f"{found.file}:{found.document.line}")
    for blind in bundle.blind:
        survey.blind(blind)
    return survey


def _from_cluster(kubeconfig: Path, bundle: Bundle, resources: tuple[str, ...], taken: str) -> Picture:
    # Imported here, as in `serve`: an audit of files should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.survey.live import look  # noqa: PLC0415

    seen = look(access_from(kubeconfig), taken, resources, dict(bundle.groups))
    return replace(seen, blind=(*seen.blind, *bundle.blind))


def _metrics_of(name: str) -> tuple[Metric, ...]:
    text = decode(read_files([name])[0])
    if looks_structured(text):
        return tuple(
            metric for each in documents(text) if recognises_json(each.value) for metric in read_json(each.value)
        )
    return read_metrics(text)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    with Path(name).open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file


def _is_snapshot(name: str) -> bool:
    if name == STDIN or not Path(name).is_file():
        return False
    try:
        with _opened(name) as file:
            return snapshot_file.is_snapshot(file.read(4096))
    except (OSError, EOFError, zlib.error):
        return False


def _loaded(name: str) -> Picture:
    with _progress(f"reading {name}"), _opened(name) as file:
        return snapshot_file.load(name, file)


@contextmanager
def _progress(words: str) -> Iterator[None]:
    """A turning sign on standard error while something takes long; nothing where nobody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(words):
        yield
