"""Certificates that change while pods are written: whoever goes by the registrations is never refused.

A stream of pods with GPUs is created, failing closed. Beside it a caller does what an API server does with a new
connection: it reads the registration, and verifies the webhook by nothing but the bundle that it found there.
"""

import base64
import contextlib
import itertools
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from atoll.adapters.certificates import (
    CA_LIFE,
    RENEW_BEFORE,
    SERVER_LIFE,
    CertificateFiles,
    ensure_certificates,
    server_names,
)
from atoll.adapters.kube.registration import OVERLAP
from tests.clock_shift import shift
from tests.e2e.installation import SCHEDULER, Installation
from tests.e2e.test_webhook import KINDS, REGISTERED, policies_of
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.credentials import Authority
from tests.realkube.harness import LOOPBACK, ControlPlane
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

MINUTE = 60


class Writing:
    """Pods with GPUs are created without a pause, and the webhook is called anew. Use as a context manager."""

    def __init__(self, cluster: Installation) -> None:
        self._cluster, self._over = cluster, threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._create, self._connect)]
        self.created = self.connected = 0
        self.failed: list[str] = []

    def __enter__(self) -> "Writing":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        """Wait until some more were created and connected."""
        created, connected = self.created + 5, self.connected + 5
        wait_until(
            lambda: self.created > created and self.connected > connected, "more pods", 10, lambda: str(self.failed)
        )

    def _create(self) -> None:
        while not self._over.wait(0.05):
            with self._noted():
                # A dry run passes admission like any other write.
                made = self._cluster.api.create(f"{fleet.pods_in()}?dryRun=All", fleet.gpu_pod("p", 2))
                assert made["spec"]["schedulerName"] == SCHEDULER
                self.created += 1

    def _connect(self) -> None:
        while not self._over.wait(0.02):
            with self._noted():
                for kind in KINDS:
                    presented(self._cluster, bundle(self._cluster, kind))
                self.connected += 1

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed.append(f"{datetime.now(UTC)} {error}")


def bundle(cluster: Installation, kind: str = KINDS[0]) -> str:
    """The CAs that a registration names, as PEM."""
    (text, *others) = {
        each["clientConfig"].get("caBundle", "") for each in cluster.api.get(f"{REGISTERED}/{kind}/atoll")["webhooks"]
    }
    assert not others
    return base64.b64decode(text).decode()


def presented(cluster: Installation, trusted: str) -> int:
    """The serial number of what the webhook shows to whoever trusts nothing but a bundle."""
    context = ssl.create_default_context(cadata=trusted)
    with (
        socket.create_connection((LOOPBACK, cluster.webhook_port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=LOOPBACK) as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown).serial_number


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def named(cluster: Installation) -> list[int]:
    """The serial numbers of the CAs that a registration names."""
    return [each.serial_number for each in x509.load_pem_x509_certificates(bundle(cluster).encode())]


def said(piece: Piece, event: str) -> list[str]:
    return [line for line in piece.log.read_text().splitlines() if f'"event": "{event}"' in line]


def enforce(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    wait_until(lambda: policies_of(cluster) == {"Fail"}, "pods with GPUs to fail closed", 60)


def about_to_end(folder: Path) -> CertificateFiles:
    """A server certificate that is due for renewal in ten minutes, under a CA that is in twenty."""
    now = datetime.now(UTC)
    names = server_names(LOOPBACK, (), socket.gethostname())
    files = ensure_certificates(folder, names, now - CA_LIFE + RENEW_BEFORE + timedelta(minutes=20))
    for leaf in (files.server, files.scheduler):
        leaf.unlink()
    return ensure_certificates(folder, names, now - SERVER_LIFE + RENEW_BEFORE + timedelta(minutes=10))


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    return tmp_path / "ahead"


@pytest.fixture
def aged(clock: Path) -> Iterator[Installation]:
    with ControlPlane() as plane:
        about_to_end(plane.folder / "certificates")
        yield Installation(plane, webhook=True, variables=shift.variables(clock))


def test_no_pod_is_refused_while_the_certificate_and_then_the_ca_and_then_its_key_are_replaced(
    aged: Installation, clock: Path
) -> None:
    enforce(aged)
    files = CertificateFiles(aged.certificates)
    first, first_ca = serial(files.server), serial(files.ca)
    wait_until(lambda: named(aged) == [first_ca], "the registrations to name the CA")

    with Writing(aged) as writing:
        writing.goes_on()
        shift.set_ahead(clock, 15 * MINUTE)
        wait_until(lambda: presented(aged, bundle(aged)) != first, "another certificate to be shown")
        second = presented(aged, bundle(aged))
        writing.goes_on()

        shift.set_ahead(clock, 25 * MINUTE)
        wait_until(lambda: first_ca not in named(aged), "the registrations to name the renewed CA alone", 60)
        renewed_ca = serial(files.ca)
        writing.goes_on()

        # A person who wants a new key takes the CA away.
        files.ca.unlink()
        files.ca_key.unlink()
        wait_until(lambda: presented(aged, bundle(aged)) not in {first, second}, "a certificate of the new CA")
        both = named(aged)
        writing.goes_on()

        shift.set_ahead(clock, 25 * MINUTE + int(OVERLAP.total_seconds()) + MINUTE)
        wait_until(lambda: named(aged) == [serial(files.ca)], "the registrations to name the new CA alone", 60)
        writing.goes_on()

    assert writing.failed == []
    assert first_ca != renewed_ca != serial(files.ca)
    assert both == [renewed_ca, serial(files.ca)]


@pytest.mark.parametrize("ahead_s", [-10 * MINUTE, 10 * MINUTE])
def test_a_clock_that_is_ten_minutes_off_changes_nothing(clock: Path, ahead_s: int) -> None:
    shift.set_ahead(clock, ahead_s)
    with ControlPlane() as plane:
        cluster = Installation(plane, webhook=True, variables=shift.variables(clock))
        enforce(cluster)

        cluster.api.create(fleet.pods_in(), fleet.gpu_pod("p", 4))

        assert len(cluster.bound("p")[1]) == 4
        assert not said(cluster.serve, "certificate_not_valid")


class Mounted:
    """A Secret of cert-manager as a kubelet mounts it, and cert-manager's injector."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._turns = folder, itertools.count()
        self.authority = Authority("issuer")
        folder.mkdir()
        self.turn()
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(f"..data/{name}")

    def turn(self) -> None:
        """A new certificate, all of its files at once."""
        pair = self.authority.server([LOOPBACK])
        there = self.folder / f"..{next(self._turns)}"
        there.mkdir()
        for name, text in {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": self.authority.cert}.items():
            (there / name).write_bytes(text)
        link = self.folder / "..data"
        before = link.resolve() if link.exists() else None
        new = self.folder / "..data_tmp"
        new.symlink_to(there.name)
        new.replace(link)
        if before:
            shutil.rmtree(before)

    def inject(self, cluster: Installation) -> None:
        for kind in KINDS:
            path = f"{REGISTERED}/{kind}/atoll"
            webhooks = cluster.api.get(path)["webhooks"]
            for each in webhooks:
                each["clientConfig"]["caBundle"] = base64.b64encode(self.authority.cert).decode()
            cluster.api.patch(path, {"webhooks": webhooks})

    @property
    def serial(self) -> int:
        return serial(self.folder / "tls.crt")


def test_a_mounted_secret_is_shown_and_a_ca_that_somebody_else_injects_is_left_alone(tmp_path: Path) -> None:
    secret = Mounted(tmp_path / "secret")
    with ControlPlane() as plane:
        cluster = Installation(plane, webhook=True, webhook_certificates=secret.folder)
        registered = cluster.api.get(f"{REGISTERED}/{KINDS[0]}/atoll")
        assert registered["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "kube-system/atoll-webhook"
        assert not bundle(cluster)
        secret.inject(cluster)
        enforce(cluster)

        with Writing(cluster) as writing:
            writing.goes_on()
            secret.turn()
            wait_until(lambda: presented(cluster, bundle(cluster)) == secret.serial, "the new certificate to be shown")
            writing.goes_on()

        assert writing.failed == []
        assert bundle(cluster).encode() == secret.authority.cert
        secret.authority = Authority("another issuer")
        secret.inject(cluster)
        secret.turn()
        wait_until(lambda: len(said(cluster.serve, "certificate_changed")) == 2, "the new CA to be followed", 60)
        assert presented(cluster, bundle(cluster)) == secret.serial
