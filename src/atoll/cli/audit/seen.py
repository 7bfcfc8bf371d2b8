"""What the command line lets an audit see: files, folders, a snapshot, a live cluster, or files beside a cluster."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from atoll.adapters.formats.cluster.prometheus import EXPECTED as METRICS
from atoll.adapters.formats.cluster.prometheus import latest, read_json, read_metrics, recognises_json
from atoll.adapters.formats.folder import Bundle, blind_of
from atoll.adapters.formats.text.documents import documents, looks_structured
from atoll.adapters.formats.text.text import decode
from atoll.adapters.kube.survey.gather import Survey
from atoll.cli.saved import load, snapshot_in
from atoll.cli.topology.given import bundle_from, read_files
from atoll.core.audit.picture import Blind, Metric, Picture
from atoll.core.errors import DumpError

SEEN_HELP = (
    "Folders or tar files (a node is a subfolder, or the folder itself where it has none), files of one node, or a "
    "snapshot; - is stdin."
)


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
    taken = _now()
    named = [_metrics_of(name) for name in metrics]
    samples = [sample for found, _ in named for sample in found]
    refused = [blind_of(error) for _, errors in named for error in errors]
    snapshot = snapshot_in(names, alone=kubeconfig is None)
    if snapshot is not None:
        with _progress(f"reading {snapshot}"):
            return _with(load(snapshot), samples, refused)
    bundle = _bundle(names)
    samples = [*bundle.metrics, *samples]
    if kubeconfig is None:
        return _with(_from_files(bundle, resources, taken), samples, refused)
    return _with(_from_cluster(kubeconfig, bundle, resources, taken), samples, refused)


def picture_beside(kubeconfig: Path | None, names: Sequence[str], resources: tuple[str, ...]) -> Picture:
    """Look at a live cluster, and at files of its nodes.

    Args: kubeconfig: None = the pod's service account or the user's own.

    Raises:
        AtollError: a file that was named, or the cluster, cannot be read at all.
    """
    return _from_cluster(kubeconfig, _bundle(names), resources, _now())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bundle(names: Sequence[str]) -> Bundle:
    with _progress(f"reading {', '.join(names[:3])}" if names else "reading"):
        return bundle_from(names, None, forgiving=True, all_kinds=True)[0] if names else Bundle("")


def _with(picture: Picture, samples: Sequence[Metric], refused: Sequence[Blind]) -> Picture:
    return replace(picture, metrics=latest((*picture.metrics, *samples)), blind=(*picture.blind, *refused))


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


def _from_cluster(kubeconfig: Path | None, bundle: Bundle, resources: tuple[str, ...], taken: str) -> Picture:
    # Imported here, as in `serve`: an audit of files should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.survey.live import look  # noqa: PLC0415

    with _progress("asking the cluster"):
        seen = look(access_from(kubeconfig), taken, resources, dict(bundle.groups))
    return replace(seen, blind=(*seen.blind, *bundle.blind))


def _metrics_of(name: str) -> tuple[tuple[Metric, ...], tuple[DumpError, ...]]:
    """The samples of a file that was named as metrics, and its lines that were refused."""
    text = decode(read_files([name])[0])
    if looks_structured(text):
        found = latest(
            metric for each in documents(text) if recognises_json(each.value) for metric in read_json(each.value)
        )
        refused: tuple[DumpError, ...] = ()
    else:
        found, refused = read_metrics(text)
    if not found:
        raise DumpError(name, 0, 0, found="no metric of a GPU", expected=METRICS)
    return found, refused


@contextmanager
def _progress(words: str) -> Iterator[None]:
    """A turning sign on standard error while something takes long; nothing where nobody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(words):
        yield
