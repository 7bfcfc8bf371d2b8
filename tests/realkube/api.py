"""A small blocking client of the Kubernetes API for tests, so that no test checks Atoll with Atoll's own client.

Objects are plain JSON dictionaries. Connections are kept and shared between threads; `each` runs many calls
at once, `wait_for` polls for a state (never for a notification), `watch` streams events. A request that the server
puts off (429 with Retry-After) is sent again, as every Kubernetes client does: a kind's storage puts requests off for
a moment when its definition has changed and when the server has just started.
"""

import base64
import contextlib
import http.client
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

Json = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")
TRIES = 10
PATIENCE = 4
"""By how much a wait may be longer than what it takes on a quiet machine. Whoever waits in vain fails all the same."""
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """The API server's refusal: `status` is the HTTP code, `reason` its word (Conflict, Forbidden …)."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        """Read the Status object where there is one."""
        self.status = status
        self.reason = ""
        message = body.decode(errors="replace")[:2000]
        with contextlib.suppress(msgspec.DecodeError):
            answer = msgspec.json.decode(body)
            if isinstance(answer, dict):
                self.reason = str(answer.get("reason", ""))
                message = str(answer.get("message", message))
        super().__init__(f"{method} {path}: {status} {self.reason}: {message}")


class Api:
    """One user's connection to one API server. Safe to use from several threads."""

    def __init__(self, server: str, context: ssl.SSLContext, token: str = "", timeout_s: float = 30) -> None:
        """Connect on first use."""
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._context = context
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPSConnection] = []

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Connect as the user of a kubeconfig that `credentials.kubeconfig` wrote."""
        document = yaml.safe_load(path.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        context = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
        if "client-key-data" in user:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
                both.write(_text(user["client-certificate-data"]) + _text(user["client-key-data"]))
                both.flush()
                context.load_cert_chain(both.name)
        return cls(cluster["server"], context, user.get("token", ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def find(self, path: str) -> Json | None:
        """Return the object, or None where there is none."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def items(self, path: str) -> list[Json]:
        found = self.call("GET", path)["items"]
        return found if isinstance(found, list) else []

    def create(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body)

    def warned(self, path: str, body: Json) -> list[str]:
        """Create; what the server warns of."""
        sent = msgspec.json.encode(body)
        response, answer = self._once("POST", path, sent, {**self._headers, "Content-Type": "application/json"})
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError("POST", path, response.status, answer)
        return [
            each.partition('"')[2].rpartition('"')[0].replace('\\"', '"')
            for each in response.headers.get_all("Warning") or ()
        ]

    def replace(self, path: str, body: Json) -> Json:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Json | list[Json], kind: str = "merge") -> Json:
        """Patch with a merge (default), strategic or json patch."""
        return self.call("PATCH", path, body, PATCH_TYPES[kind])

    def apply(self, document: Json) -> Json:
        """Create or update any object by its own apiVersion, kind and name (server-side apply)."""
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        served = [one for one in self.get(root)["resources"] if one["kind"] == kind and "/" not in one["name"]]
        if not served:
            raise LookupError(f"the API server has no {kind} in {version}")
        metadata = document["metadata"]
        folder = f"{root}/namespaces/{metadata.get('namespace', 'default')}" if served[0]["namespaced"] else root
        path = f"{folder}/{served[0]['name']}/{metadata['name']}"
        return self.patch(f"{path}?fieldManager=tests&force=true", document, "apply")

    def delete(self, path: str, grace_s: int | None = None) -> Json:
        """Delete; `grace_s=0` removes a pod at once, which a pod on a node without kubelet needs."""
        return self.call("DELETE", path if grace_s is None else f"{path}?gracePeriodSeconds={grace_s}")

    def text(self, path: str) -> str:
        """Return a body that is not JSON, such as /metrics or /readyz."""
        return self._exchange("GET", path, None, "").decode()

    def call(
        self, method: str, path: str, body: Json | list[Json] | None = None, content_type: str = "application/json"
    ) -> Json:
        """Make one request and return the decoded object; ApiError for every status of 400 and above."""
        sent = None if body is None else msgspec.json.encode(body)
        answer = msgspec.json.decode(self._exchange(method, path, sent, content_type))
        return answer if isinstance(answer, dict) else {"value": answer}

    def each(self, function: Callable[[T], R], things: Iterable[T], at_once: int = 16) -> list[R]:
        """Call `function` on everything, several at once, results in order; the first error is raised."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(function, things))

    def wait_for(self, path: str, wanted: Callable[[Json], bool], timeout_s: float = 30) -> Json:
        """Poll an object (absent counts as not yet) until `wanted` holds; the error shows its last state."""
        last: list[Json | None] = [None]

        def there() -> bool:
            last[0] = self.find(path)
            return last[0] is not None and wanted(last[0])

        wait_until(there, path, timeout_s, lambda: f"it is {last[0]}")
        return last[0] or {}

    def watch(self, path: str, version: str = "", timeout_s: int = 300) -> Iterator[Json]:
        """Yield watch events until the server ends the stream after `timeout_s`; close the iterator to stop.

        Without a version the stream starts with an ADDED event for everything that is there.
        """
        joint = "&" if "?" in path else "?"
        connection = self._connect()
        try:
            query = f"{path}{joint}watch=1&resourceVersion={version}&timeoutSeconds={timeout_s}"
            connection.request("GET", query, headers=self._headers)
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                raise ApiError("WATCH", path, response.status, response.read())
            while line := response.readline():
                yield msgspec.json.decode(line)
        finally:
            connection.close()

    def _connect(self, timeout_s: float | None = None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)

    def _take(self) -> tuple[bool, http.client.HTTPSConnection]:
        try:
            return True, self._idle.pop()
        except IndexError:
            return False, self._connect(self._timeout_s)

    def _exchange(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        headers = {**self._headers, "Content-Type": content_type} if body is not None else self._headers
        for tries_left in reversed(range(TRIES)):
            response, answer = self._once(method, path, body, headers)
            put_off_s = response.headers.get("Retry-After", "")
            if response.status != http.HTTPStatus.TOO_MANY_REQUESTS or not put_off_s.isdigit() or not tries_left:
                break
            time.sleep(int(put_off_s))
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(method, path, response.status, answer)
        return answer

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        while True:
            kept, connection = self._take()
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                answer = response.read()
            except BaseException as error:
                connection.close()
                # A kept connection may have been closed by a server that was restarted or thought it idle; a new one
                # tells the truth.
                if kept and isinstance(error, ConnectionError | ssl.SSLEOFError):
                    continue
                raise
            self._idle.append(connection)
            return response, answer


def wait_until(
    reached: Callable[[], bool], what: str, timeout_s: float = 30, state: Callable[[], str] = lambda: ""
) -> None:
    """Poll until `reached`; in the end an AssertionError says what was waited for and the `state` found.

    Args:
        timeout_s: what it takes on a quiet machine at the most.
    """
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}; {state()}")
        time.sleep(0.05)


def _text(data: str) -> str:
    return base64.b64decode(data).decode()
