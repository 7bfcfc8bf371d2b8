"""Which requests are sent again, and what a broken exchange is called."""

import asyncio
import base64
import socket
import ssl
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from atoll.adapters.certificates import ensure_certificates
from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.credentials import Access, AccessError, Fixed, TokenFile, access_from, service_account
from atoll.adapters.kube.kubeconfig import ExecPlugin
from tests.adapters.api_double import Double, said


def test_a_write_is_sent_again_after_429_alone():
    async def told() -> None:
        double = Double({"/x": [said(429, retry_after="0"), said(503, "sorry"), said(200)]})
        async with double.client() as client:
            answer = await client.write("POST", "/x", b"{}")

        assert answer.status == 503
        assert not answer.ok
        assert len(double.asked) == 2

    asyncio.run(told())


def test_a_read_is_sent_again_after_429_and_5xx_and_not_for_ever():
    async def told() -> None:
        double = Double({"/x": [said(429, retry_after="0"), said(503, retry_after="0"), said(200, "fine")]})
        hopeless = Double({"/x": [said(500, retry_after="0")]})
        async with double.client() as client, hopeless.client() as other:
            answer = await client.read("/x")
            bad = await other.read("/x")

        assert (answer.status, answer.body) == (200, b"fine")
        assert bad.status == 500
        assert len(hopeless.asked) == 4

    asyncio.run(told())


def test_a_refusal_is_worded_as_the_api_server_worded_it_and_bounded():
    async def told() -> None:
        words = '{"kind":"Status","reason":"Conflict","message":"the object has been modified","code":409}'
        double = Double({"/x": [said(409, words)], "/y": [said(502, "<html>" + "x" * 9999)]})
        async with double.client() as client:
            assert (await client.read("/x")).why == "409 Conflict: the object has been modified"
            assert len((await client.write("POST", "/y", b"")).why) < 100

    asyncio.run(told())


def test_a_put_whose_kept_connection_breaks_is_not_sent_twice():
    """aiohttp repeats a plain PUT here by itself; the second one would be told 409 about the first."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next((int(line[16:]) for line in head.splitlines() if line.startswith(b"Content-Length: ")), 0)
            received.append(head.split(b" ")[0] + b" " + await reader.readexactly(length))
            if head.startswith(b"PUT"):
                break  # carried out, and the connection is gone before the answer
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def told() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        access = Access(f"http://127.0.0.1:{port}", ssl.create_default_context(), Fixed(None))
        async with server, KubeClient(access) as client:
            await client.read("/warm")
            with pytest.raises(Unanswered):
                await client.write("PUT", "/x", b'{"a":1}')

    asyncio.run(told())
    assert received == [b"GET ", b'PUT {"a":1}']


def test_no_listener_and_no_answer_in_time_are_unanswered():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        slow = f"http://127.0.0.1:{silent.getsockname()[1]}"

        async def told() -> None:
            for server in (slow, "http://127.0.0.1:1"):
                access = Access(server, ssl.create_default_context(), Fixed(None))
                async with KubeClient(access, timeout_s=0.05) as client:
                    with pytest.raises(Unanswered):
                        await client.write("POST", "/x", b"{}")

        asyncio.run(told())


def test_a_token_file_is_read_again_after_a_401(tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("old\n")
    seen: list[str] = []

    async def told() -> None:
        def answer(request):
            seen.append(request.headers["Authorization"])
            token.write_text("new\n")
            return said(401) if seen[-1] == "Bearer old" else said(200)

        double = Double({"/x": [answer]})
        async with double.client(TokenFile(token)) as client:
            assert (await client.write("POST", "/x", b"{}")).ok

    asyncio.run(told())
    assert seen == ["Bearer old", "Bearer new"]


def exec_config(tmp_path: Path, script: str, version: str = "v1") -> Path:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\n{script}")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(plugin), "args": ["go"]}}
    return kubeconfig(tmp_path, user)


def kubeconfig(tmp_path: Path, user: object, **cluster: object) -> Path:
    path = tmp_path / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1/", "insecure-skip-tls-verify": True, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


PRINTS = """
import json, os, sys, pathlib
count = pathlib.Path(__file__).with_suffix(".count")
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
assert sys.argv[1:] == ["go"] and json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"
print(json.dumps({"status": {"token": f"t{n}", "expirationTimestamp": "2999-01-01T00:00:00Z"}}))
"""


def test_an_exec_plugin_runs_once_and_again_after_a_401(tmp_path: Path):
    access = access_from(exec_config(tmp_path, PRINTS))

    async def told() -> list[str | None]:
        first = [await access.credentials.header() for _ in range(2)]
        access.credentials.refused()
        return [*first, await access.credentials.header()]

    assert asyncio.run(told()) == ["Bearer t1", "Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("script", "why"),
    [("import sys; sys.exit('no login')", "exit 1: no login"), ("print('hello')", "printed no ExecCredential")],
)
def test_an_exec_plugin_that_fails_is_named_with_its_own_words(tmp_path: Path, script: str, why: str):
    access = access_from(exec_config(tmp_path, script))

    with pytest.raises(AccessError, match=why):
        asyncio.run(access.credentials.header())


def test_an_exec_plugin_that_is_not_installed_is_named(tmp_path: Path):
    config = exec_config(tmp_path, "")
    (tmp_path / "plugin").unlink()

    with pytest.raises(AccessError, match="plugin: No such file"):
        asyncio.run(access_from(config).credentials.header())


def test_every_kind_of_user_is_understood(tmp_path: Path):
    def header(user: object) -> str | None:
        return asyncio.run(access_from(kubeconfig(tmp_path, user)).credentials.header())

    (tmp_path / "token").write_text("from-file")
    basic = "Basic " + base64.b64encode(b"me:secret").decode()

    assert header({"token": "t"}) == "Bearer t"
    assert header({"tokenFile": "token"}) == "Bearer from-file"
    assert header({"username": "me", "password": "secret"}) == basic
    assert header({}) is None
    assert isinstance(access_from(exec_config(tmp_path, "")).credentials, ExecPlugin)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a whole kubeconfig"),
        ("{}", "not a whole kubeconfig"),
        ("a: [", "expected"),
        ("clusters: 3", "not a whole kubeconfig"),
        (b"\xff\xfe\x00", "config"),
    ],
)
def test_a_broken_kubeconfig_is_refused_by_name(tmp_path: Path, text: str | bytes, why: str):
    path = tmp_path / "config"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(AccessError, match=why):
        access_from(path)


@pytest.mark.parametrize(
    ("server", "user", "why"),
    [
        ("ftp://k", {"token": "t"}, 'server "ftp://k" is no URL'),
        ("10.0.0.1:6443", {"token": "t"}, 'server "10.0.0.1:6443" is no URL'),
        (
            "https://k",
            {"client-certificate": "/no/c", "client-key": "/no/k"},
            "file that it names cannot be read: No such",
        ),
    ],
)
def test_what_a_kubeconfig_names_and_cannot_be_used_is_told(
    tmp_path: Path, server: str, user: dict[str, str], why: str
):
    with pytest.raises(AccessError, match=why) as refused:
        access_from(kubeconfig(tmp_path, user, server=server))
    assert "\n" not in str(refused.value)


def test_a_kubeconfig_with_an_unknown_exec_version_or_authority_is_refused(tmp_path: Path):
    with pytest.raises(AccessError, match="known are v1 and v1beta1"):
        access_from(exec_config(tmp_path, "", "v1alpha1"))
    with pytest.raises(AccessError, match="config"):
        access_from(kubeconfig(tmp_path, {}, **{"certificate-authority": "nowhere.crt"}))


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service account, as a pod has it."""
    ensure_certificates(tmp_path, ["localhost"], datetime.now(UTC))
    (tmp_path / "token").write_text("t1\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return tmp_path


def test_a_pod_finds_its_service_account(account: Path) -> None:
    access = service_account(account)

    assert access is not None
    assert access.server == "https://10.0.0.1:6443"
    assert asyncio.run(access.credentials.header()) == "Bearer t1"
    assert len(access.tls.get_ca_certs()) == 1


def test_a_service_account_is_reached_by_ipv6_too(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")

    assert (access := service_account(account))
    assert access.server == "https://[fd00::1]:6443"


def test_outside_of_a_pod_there_is_no_service_account(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (account / "token").unlink()
    assert service_account(account) is None
    (account / "token").write_text("t1")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert service_account(account) is None


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("no certificate")])
def test_a_service_account_whose_authority_cannot_be_read_is_told(account: Path, spoil: Callable[[Path], None]) -> None:
    spoil(account / "ca.crt")

    with pytest.raises(AccessError, match=r"service account: .*ca\.crt cannot be read"):
        service_account(account)


def test_a_pod_without_a_token_is_told_what_is_missing(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))

    with pytest.raises(AccessError, match="is automountServiceAccountToken off"):
        access_from(None)


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="is a folder, and a kubeconfig is a file"):
        access_from(tmp_path)
