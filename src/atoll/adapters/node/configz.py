"""How the node's kubelet is configured, as it says itself at its configz endpoint.

The path needs the right `nodes/configz` alone, on a kubelet of 1.33 and later. `nodes/proxy`, which older ones ask for,
amounts to running commands in every pod.
"""

import json
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from atoll.adapters.formats.kubelet import configuration
from atoll.adapters.kube.credentials import AccessError, Credentials
from atoll.adapters.kube.wire_atoll import OPTIONS_MAX, WORD_MAX
from atoll.core.agent.events import KubeletTold, OwnNode
from atoll.core.errors import DumpError
from atoll.core.facts import StockParts

TIMEOUT_S = 10.0
BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Configz:
    """Attributes:
    host: where the kubelet is reached, "" = where its Node says.
    trusted: files of certificates by which it is known; those that are there count.
    """

    credentials: Credentials
    host: str
    trusted: tuple[Path, ...]

    async def ask(self, node: OwnNode) -> KubeletTold:
        host = self.host or node.host
        if not host or not node.port:
            return KubeletTold(None, "the Node does not tell where its kubelet listens")
        where = f"https://[{host}]:{node.port}" if ":" in host else f"https://{host}:{node.port}"
        try:
            header = await self.credentials.header()
            body = await self._get(f"{where}/configz", node.name, {"Authorization": header} if header else {})
            parts = parts_of(body)
        except (AccessError, DumpError, aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            return KubeletTold(None, f"{where}/configz: {error or type(error).__name__}")
        return KubeletTold(parts)

    async def _get(self, url: str, name: str, headers: dict[str, str]) -> bytes:
        """Raises: ValueError: it refused, or said too much."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=trusting(self.trusted), server_hostname=name) as answer,
        ):
            if answer.status == 403:
                raise ValueError("403 Forbidden: its account needs the right to get nodes/configz")
            if answer.status != 200:
                raise ValueError(f"{answer.status} {answer.reason}")
            body = b""
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > BYTES_MAX:
                    raise ValueError(f"an answer of more than {BYTES_MAX >> 20} MiB")
            return body


def trusting(files: Iterable[Path]) -> ssl.SSLContext:
    """A kubelet that makes its certificate itself leaves it, and the authority that it made for it, in one file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for file in files:
        if file.is_file():
            context.load_verify_locations(file)
    return context


def parts_of(body: bytes) -> StockParts:
    """Raises: ValueError, DumpError: no configuration of a kubelet."""
    readings = configuration.read("configz", json.loads(body), 1) if body else ()
    if not readings or readings[0].kubelet is None or not readings[0].kubelet.topology_manager:
        raise ValueError("the answer is no kubelet configuration")
    kubelet = readings[0].kubelet
    options = readings[0].extras.get("topologyManagerPolicyOptions")
    switched_on = (
        (str(name)[:WORD_MAX] for name, value in options.items() if str(value).lower() == "true")
        if isinstance(options, dict)
        else ()
    )
    return StockParts(
        policy=kubelet.topology_manager,
        scope=kubelet.topology_manager_scope or "",
        cpu_manager=kubelet.cpu_manager or "",
        memory_manager=kubelet.memory_manager or "",
        options=tuple(sorted(switched_on))[:OPTIONS_MAX],
    )
