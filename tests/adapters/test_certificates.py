"""The certificate folder: made, kept, renewed, shared by two starts, and refused in words when a file is bad."""

import multiprocessing
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from atoll.adapters.certificates import (
    CA_LIFE,
    RENEW_BEFORE,
    SERVER_LIFE,
    CertificateError,
    CertificateFiles,
    ensure_certificates,
    server_names,
)
from atoll.adapters.kube.manifests import scheduler_config

NOW = datetime(2026, 12, 1, tzinfo=UTC)
NAMES = ("127.0.0.1", "localhost", "atoll.kube-system.svc")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def start(folder: Path) -> None:
    ensure_certificates(folder, NAMES, NOW)


def test_an_empty_folder_gets_a_ca_and_two_certificates_that_only_the_owner_can_read(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "new" / "folder", NAMES, NOW)

    assert sorted(contents(files.folder)) == [
        "ca.crt",
        "ca.key",
        "scheduler-client.crt",
        "scheduler-client.key",
        "server.crt",
        "server.key",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir()} == {0o600}
    ca = certificate(files.ca)
    for path in (files.server, files.scheduler):
        certificate(path).verify_directly_issued_by(ca)


def test_the_server_certificate_is_good_for_every_name_it_was_asked_for(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)

    names = certificate(files.server).extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["localhost", "atoll.kube-system.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_valid_files_are_used_as_they_are(tmp_path: Path) -> None:
    start(tmp_path)
    before = contents(tmp_path)

    ensure_certificates(tmp_path, NAMES[:2], NOW + timedelta(days=1))

    assert contents(tmp_path) == before


def test_a_name_that_is_new_gets_a_new_server_certificate_under_the_old_key(tmp_path: Path) -> None:
    start(tmp_path)
    before = contents(tmp_path)

    ensure_certificates(tmp_path, (*NAMES, "10.1.2.3"), NOW)

    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"server.crt"}


def test_a_certificate_is_renewed_before_it_expires_and_keeps_its_key(tmp_path: Path) -> None:
    start(tmp_path)
    before = contents(tmp_path)

    files = ensure_certificates(tmp_path, NAMES, NOW + SERVER_LIFE - RENEW_BEFORE)

    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"server.crt"}
    assert certificate(files.server).not_valid_after_utc > NOW + SERVER_LIFE


def test_a_renewed_ca_still_vouches_for_what_it_signed_before(tmp_path: Path) -> None:
    start(tmp_path)
    late = NOW + CA_LIFE - RENEW_BEFORE
    ensure_certificates(tmp_path, NAMES, late - timedelta(days=2))
    old_scheduler, old_ca = (tmp_path / "scheduler-client.crt").read_bytes(), (tmp_path / "ca.crt").read_bytes()

    files = ensure_certificates(tmp_path, NAMES, late)

    assert files.ca.read_bytes() != old_ca
    assert files.scheduler.read_bytes() == old_scheduler
    certificate(files.scheduler).verify_directly_issued_by(certificate(files.ca))


def test_a_lost_server_key_leads_to_a_new_pair(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)
    files.server_key.unlink()

    start(tmp_path)

    before = contents(tmp_path)
    start(tmp_path)
    assert contents(tmp_path) == before
    assert files.server_key.exists()


def test_a_key_of_another_certificate_leads_to_a_certificate_that_fits_it(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)
    files.server_key.write_bytes(files.scheduler_key.read_bytes())

    start(tmp_path)

    assert certificate(files.server).public_key() == certificate(files.scheduler).public_key()


def test_a_folder_of_somebody_elses_ca_is_used_without_the_ca_key_and_whatever_the_names(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)
    files.ca_key.unlink()
    before = contents(tmp_path)

    ensure_certificates(tmp_path, ("elsewhere.example",), NOW + SERVER_LIFE - timedelta(days=1))

    assert contents(tmp_path) == before


def test_an_expired_certificate_of_somebody_elses_ca_is_refused_and_says_what_would_help(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)
    files.ca_key.unlink()

    with pytest.raises(CertificateError, match=r"server\.crt: missing, expired.*ca\.key is not there.*Put a valid"):
        ensure_certificates(tmp_path, NAMES, NOW + SERVER_LIFE + timedelta(days=1))


def test_an_expired_foreign_ca_is_refused(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, NAMES, NOW)
    files.ca_key.unlink()

    with pytest.raises(CertificateError, match=r"ca\.crt: expired at 2036-11-28"):
        ensure_certificates(tmp_path, NAMES, NOW + CA_LIFE)


@pytest.mark.parametrize(
    "name", ["ca.crt", "ca.key", "server.crt", "server.key", "scheduler-client.crt", "scheduler-client.key"]
)
@pytest.mark.parametrize("content", [b"", b"\x00\xff not pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, name: str, content: bytes) -> None:
    start(tmp_path)
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CertificateError, match=f"{name}: is no PEM .*Replace it, or remove it"):
        start(tmp_path)

    assert (tmp_path / name).read_bytes() == content


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").mkdir()

    with pytest.raises(CertificateError, match=r"ca\.crt: cannot be read: Is a directory\. Make it readable"):
        start(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CertificateError, match=r"ca\.crt: cannot be read: Not a directory"):
        start(tmp_path / "file" / "folder")


def test_a_name_that_no_certificate_can_carry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r'"größe.example" is neither an IP address nor a DNS name'):
        ensure_certificates(tmp_path, ("größe.example",), NOW)


def test_starts_at_the_same_time_agree_on_one_set_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    context = multiprocessing.get_context("spawn")
    starts = [context.Process(target=start, args=(folder,)) for _ in range(3)]

    for process in starts:
        process.start()
    for process in starts:
        process.join(60)

    assert [process.exitcode for process in starts] == [0, 0, 0]
    before = contents(folder)
    start(folder)
    assert contents(folder) == before
    assert len(before) == 6


def test_a_wildcard_address_is_named_by_the_machine() -> None:
    assert server_names("0.0.0.0", ("svc",), "host-1") == ("host-1", "localhost", "127.0.0.1", "::1", "svc")
    assert server_names("127.0.0.1", (), "host-1") == ("127.0.0.1", "localhost", "::1")


def test_the_printed_scheduler_configuration_names_these_files() -> None:
    files = CertificateFiles(Path("/certs"))

    (extender,) = scheduler_config("https://127.0.0.1:8443", "/certs")["extenders"]

    assert extender["tlsConfig"] == {
        "caFile": str(files.ca),
        "certFile": str(files.scheduler),
        "keyFile": str(files.scheduler_key),
    }
