"""Who we are to the API server, and whom we trust there.

A pod finds its service account; anybody else has a kubeconfig, which `kubeconfig` reads with a library that costs what
runs on every node more memory than it should. The header changes while the process runs: a token file is read again
each minute, an exec plugin runs again when its credential ends, and both do so after a 401.
"""

import os
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from atoll.core.errors import AtollError

TOKEN_FILE_AGE_S = 60.0
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class AccessError(AtollError):
    """There is no way to reach the API server as configured."""


class Credentials(Protocol):
    """Gives the Authorization header of the next request."""

    async def header(self) -> str | None: ...

    def refused(self) -> None:
        """A 401 came back: what was cached is not good any more."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server. `server` may end in a path, as behind a proxy of several clusters."""

    server: str
    tls: ssl.SSLContext
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class Fixed:
    """A token, a password, or nothing because the client certificate says it all."""

    value: str | None

    async def header(self) -> str | None:
        return self.value

    def refused(self) -> None:
        """Nothing newer is to be had."""


@dataclass(slots=True)
class TokenFile:
    """A service account token; the kubelet replaces the file before it ends."""

    path: Path
    _value: str = ""
    _read_at: float = float("-inf")

    async def header(self) -> str | None:
        now = time.monotonic()
        if now - self._read_at > TOKEN_FILE_AGE_S:
            try:
                self._value = f"Bearer {self.path.read_text().strip()}"
            except OSError as error:
                raise AccessError(f"token file {self.path}: {error.strerror}") from error
            self._read_at = now
        return self._value

    def refused(self) -> None:
        self._read_at = float("-inf")


def access_from(kubeconfig: Path | None) -> Access:
    """Read a kubeconfig; without one, the pod's service account, then $KUBECONFIG, then ~/.kube/config.

    Raises:
        AccessError: one message that says which file and what is wrong with it.
    """
    found = service_account(SERVICE_ACCOUNT) if kubeconfig is None else None
    if found is not None:
        return found
    from atoll.adapters.kube.kubeconfig import access_of  # noqa: PLC0415 - see the module

    try:
        return access_of(kubeconfig)
    except AccessError as error:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            token = SERVICE_ACCOUNT / "token"
            raise AccessError(
                f"{error}. This is a pod without {token}: is automountServiceAccountToken off?"
            ) from error
        raise


def service_account(folder: Path) -> Access | None:
    """What a kubelet gives each pod; None outside of one. Raises: AccessError: it is not whole."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{word}", "") for word in ("HOST", "PORT"))
    if not host or not (folder / "token").exists():
        return None
    authority = folder / "ca.crt"
    try:
        tls = ssl.create_default_context(cafile=str(authority))
    except OSError as error:
        raise AccessError(f"service account: {authority} cannot be read: {error.strerror or error}") from error
    named = f"[{host}]" if ":" in host else host
    return Access(f"https://{named}:{port or 443}", tls, TokenFile(folder / "token"))
