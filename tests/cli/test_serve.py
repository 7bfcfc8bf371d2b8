"""`atoll serve` as a process: what it refuses in words, and how it stands and stops without an API server."""

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atoll.adapters.certificates import CertificateError
from atoll.adapters.faults import FaultError
from atoll.cli.app import app
from atoll.core.errors import AtollError
from atoll.wiring.serve import ListenError, ServeSettings, serve

SERVE = [sys.executable, "-m", "atoll", "serve"]
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def settings(tmp_path: Path, kubeconfig: Path, *, port: int = 0, fault: str = "") -> ServeSettings:
    certificates = tmp_path / "certs"
    return ServeSettings(kubeconfig, "127.0.0.1", port, certificates, "kube-system", ("nvidia.com/gpu",), fault=fault)


@pytest.mark.parametrize(
    "content", [None, "", "a: [", "current-context: nowhere\ncontexts: []\n", "\x00\xff", "[]", "clusters: 7\n"]
)
def test_a_bad_kubeconfig_is_one_clear_message_and_nothing_is_made(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)

    with pytest.raises(AtollError) as refusal:
        asyncio.run(serve(settings(tmp_path, path)))

    assert str(refusal.value).startswith(f"{path}: ")
    assert len(str(refusal.value)) < 500
    assert not (tmp_path / "certs").exists()


def test_an_address_in_use_is_named(tmp_path: Path, kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        says = rf"cannot listen on 127\.0\.0\.1:{port}: .*ddress already in use.* Give another --listen$"

        with pytest.raises(ListenError, match=says):
            asyncio.run(serve(settings(tmp_path, kubeconfig, port=port)))


def test_a_damaged_certificate_is_named(tmp_path: Path, kubeconfig: Path) -> None:
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.crt").write_text("no certificate")

    with pytest.raises(CertificateError, match=r"certs/ca\.crt: is no PEM certificate\. Replace it, or remove it"):
        asyncio.run(serve(settings(tmp_path, kubeconfig)))


def test_a_fault_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path, kubeconfig: Path) -> None:
    with pytest.raises(FaultError, match='ATOLL_FAULT: "before-lunch" is no fault point; there are: on-lease-acquired'):
        asyncio.run(serve(settings(tmp_path, kubeconfig, fault="before-lunch")))


@pytest.mark.parametrize("listen", ["8443", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999", ":8443", ""])
def test_a_bad_address_is_wrong_usage(tmp_path: Path, listen: str) -> None:
    arguments = ["serve", "--listen", listen, "--cert-dir", str(tmp_path)]

    done = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, arguments)

    assert done.exit_code == 2
    assert "is not HOST:PORT, e.g. 127.0.0.1:8443" in done.output


@pytest.mark.parametrize(("option", "value"), [("--webhook-cert-dir", "certificates"), ("--webhook-scheduler", "gpu")])
def test_what_is_said_of_a_webhook_that_is_not_there_is_refused(tmp_path: Path, option: str, value: str) -> None:
    arguments = ["serve", "--cert-dir", str(tmp_path), option, value]

    done = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, arguments)

    assert done.exit_code == 2
    assert "found no --webhook" in done.output


def test_what_is_wrong_outside_ends_the_program_with_one_line_and_code_1(tmp_path: Path) -> None:
    arguments = ["--kubeconfig", tmp_path / "none", "--listen", "127.0.0.1:0", "--cert-dir", tmp_path]

    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'none'}: ")
    assert done.stderr.count("\n") == 1


@contextmanager
def running(tmp_path: Path, kubeconfig: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its port, once it listens."""
    command = [*SERVE, "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--cert-dir", tmp_path / "certs"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            listening = next(json.loads(line) for line in process.stderr if '"listening"' in line)
            yield process, listening["port"]
        finally:
            process.kill()


def get(tmp_path: Path, port: int, path: str) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.crt"))
    connection = HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_without_an_api_server_it_stands_unready_and_says_what_is_missing(tmp_path: Path, kubeconfig: Path) -> None:
    with running(tmp_path, kubeconfig) as (process, port):
        assert get(tmp_path, port, "/healthz") == (200, "ok\n")
        assert get(tmp_path, port, "/readyz") == (
            503,
            (
                "not ready: not listed yet: nodes, pods, gpunodes, gpunodeconfigs, gpuledgers, leases, namespaces, "
                "placementpolicies\n"
            ),
        )
        assert get(tmp_path, port, "/metrics")[0] == 403

        start = time.monotonic()
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
        assert time.monotonic() - start < 10
