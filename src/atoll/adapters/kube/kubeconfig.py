"""A kubeconfig: which API server, how to know it, who we are there. lightkube reads it and builds the TLS context."""

import asyncio
import base64
import json
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError
from msgspec import ValidationError

from atoll.adapters.kube.credentials import Access, AccessError, Credentials, Fixed, TokenFile
from atoll.core.errors import quoted

EXEC_TIMEOUT_S = 60.0
EXEC_MARGIN_S = 30.0
_EXEC_VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})


@dataclass(slots=True)
class ExecPlugin:
    """A program that prints a token, as cloud providers ship."""

    command: UserExec
    _value: str | None = None
    _ends_at: float = float("inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def header(self) -> str | None:
        async with self._lock:
            if self._value is None or time.time() > self._ends_at - EXEC_MARGIN_S:
                await self._run()
            return self._value

    def refused(self) -> None:
        self._value = None

    async def _run(self) -> None:
        name, version = self.command.command, self.command.apiVersion
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        extra = {variable.name: variable.value for variable in self.command.env or ()}
        environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                name,
                *(self.command.args or ()),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
            )
        except OSError as error:
            hint = f" {self.command.installHint}" if self.command.installHint else ""
            raise AccessError(f"exec plugin {name}: {error.strerror}.{hint}") from error
        try:
            out, problem = await asyncio.wait_for(child.communicate(), EXEC_TIMEOUT_S)
        except TimeoutError:
            child.kill()
            raise AccessError(f"exec plugin {name}: no answer in {EXEC_TIMEOUT_S:.0f} s") from None
        if child.returncode:
            raise AccessError(f"exec plugin {name}: exit {child.returncode}: {problem.decode(errors='replace')[:200]}")
        try:
            status = json.loads(out)["status"]
            self._value = f"Bearer {status['token']}"
            self._ends_at = _moment(status.get("expirationTimestamp"))
        except (ValueError, KeyError, TypeError) as error:
            raise AccessError(f"exec plugin {name}: printed no ExecCredential with a token") from error


def access_of(kubeconfig: Path | None) -> Access:
    """Read a kubeconfig; without one, $KUBECONFIG, then ~/.kube/config.

    Raises:
        AccessError: one message that says which file and what is wrong with it.
    """
    where = str(kubeconfig) if kubeconfig else "no service account, and kubeconfig"
    if kubeconfig and kubeconfig.is_dir():
        raise AccessError(f"{where}: is a folder, and a kubeconfig is a file")
    try:
        config = (KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()).get()
        if config is None:
            raise AccessError(f"{where}: has no current context")
        tls = verify_cluster(config.cluster, config.user or User(), config.abs_file)
    except (ConfigError, ValidationError, yaml.YAMLError, OSError, ValueError) as error:
        # TLS says of a certificate or key file only that it cannot be read, not which it was.
        unnamed = isinstance(error, OSError) and error.filename is None and error.strerror
        why = f"a certificate or key file that it names cannot be read: {unnamed}" if unnamed else str(error)
        raise AccessError(f"{where}: {' '.join(why.split())[:300]}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise AccessError(f"{where}: is not a whole kubeconfig, wrong or missing: {error}") from error
    if not config.cluster.server.startswith(("https://", "http://")):
        raise AccessError(f"{where}: server {quoted(config.cluster.server)} is no URL such as https://10.0.0.1:6443")
    return Access(config.cluster.server.rstrip("/"), tls, _credentials(config, where))


def _credentials(config: SingleConfig, where: str) -> Credentials:
    user = config.user or User()
    if user.token_file:
        return TokenFile(Path(config.abs_file(user.token_file)))
    if user.token:
        return Fixed(f"Bearer {user.token}")
    if user.exec:
        if user.exec.apiVersion not in _EXEC_VERSIONS:
            raise AccessError(f"{where}: exec plugin speaks {user.exec.apiVersion}; known are v1 and v1beta1")
        return ExecPlugin(user.exec)
    if user.username and user.password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return Fixed(f"Basic {pair}")
    if user.auth_provider:
        raise AccessError(f"{where}: auth-provider is gone from Kubernetes; use an exec plugin")
    return Fixed(None)


def _moment(text: str | None) -> float:
    return float("inf") if text is None else datetime.fromisoformat(text).timestamp()
