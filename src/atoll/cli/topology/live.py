"""The machines behind a live cluster's nodes, as far as API objects tell them; nothing is installed or written."""

from datetime import UTC, datetime
from pathlib import Path

from atoll.adapters.formats.folder import Bundle
from atoll.core.audit.picture import AuditNode
from atoll.core.errors import AtollError, quoted
from atoll.core.evidence.machine import Machine


def live_bundle(kubeconfig: Path | None, node: str | None) -> Bundle:
    """Every node that has GPUs or of which hardware is known; with `node` that one alone.

    Raises:
        AtollError: the cluster cannot be asked, or has no such node with GPUs.
    """
    # Imported here, as in `serve`: files should not wait half a second for an HTTP client.
    from atoll.adapters.kube.credentials import access_from  # noqa: PLC0415
    from atoll.adapters.kube.survey.live import look  # noqa: PLC0415

    access = access_from(kubeconfig)
    picture = look(access, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    machines = [_machine(each) for each in picture.nodes if node in {None, each.name}]
    if node is not None and not machines:
        known = ", ".join(each.name for each in picture.nodes[:8]) or "none"
        raise AtollError(f"no node {quoted(node)} with GPUs in this cluster; there are: {known}")
    return Bundle(access.server, tuple(machines), blind=picture.blind)


def _machine(node: AuditNode) -> Machine:
    return node.machine or Machine(node.name, None, ())
