"""What `atoll serve` presents while files change under it, and what it says of certificates that do not do."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from atoll.adapters.certificates import SERVER_LIFE, CertificateError, ensure_certificates
from atoll.adapters.presented import Presented, mounted
from atoll.wiring.certificates import Followed

DAY = timedelta(days=1)


def secret(folder: Path, made_at: datetime) -> Followed:
    """A folder as a Secret is mounted, with a certificate that was made at a time."""
    fill(folder, made_at)
    return Followed(lambda _: mounted(folder), clients=False)


def fill(folder: Path, made_at: datetime, made_in: str = "made") -> None:
    files = ensure_certificates(folder / made_in, ("localhost",), made_at)
    for name, path in {"tls.crt": files.server, "tls.key": files.server_key, "ca.crt": files.ca}.items():
        (folder / name).write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    ("made", "word"), [(timedelta(days=2), "before"), (-SERVER_LIFE - DAY, "after")], ids=["not yet", "no longer"]
)
def test_a_certificate_that_is_not_valid_is_told_of_once_and_shown_all_the_same(
    tmp_path: Path, made: timedelta, word: str
) -> None:
    with capture_logs() as logs:
        followed = secret(tmp_path, datetime.now(UTC) + made)
        for _ in range(3):
            assert followed.look() is None

    (line,) = logs
    assert (line["event"], line["log_level"]) == ("certificate_not_valid", "error")
    assert f"tls.crt is not valid {word} 20" in line["why"]


def test_files_that_do_not_fit_each_other_are_told_of_once_and_never_shown(tmp_path: Path) -> None:
    followed = secret(tmp_path, datetime.now(UTC))
    fill(tmp_path, datetime.now(UTC), "other")
    fits = (tmp_path / "tls.key").read_bytes()

    with capture_logs() as logs:
        (tmp_path / "tls.key").write_text((tmp_path / "made" / "server.key").read_text())
        assert followed.look() is followed.look() is None
    (tmp_path / "tls.key").write_bytes(fits)

    assert followed.look() is not None
    (line,) = logs
    assert line["event"] == "certificates_not_renewed"
    assert "cannot be used" in line["why"]


def test_a_secret_without_its_ca_is_shown_and_says_nothing_of_by_whom_it_is_vouched_for(tmp_path: Path) -> None:
    fill(tmp_path, datetime.now(UTC))
    (tmp_path / "ca.crt").unlink()

    assert Followed(lambda _: mounted(tmp_path), clients=False).ca() == b""


def test_a_folder_without_a_certificate_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"tls\.crt: cannot be read: No such file"):
        Followed(lambda _: mounted(tmp_path), clients=False)


def test_a_kubelet_s_turn_of_the_link_changes_all_files_at_once(tmp_path: Path) -> None:
    for turn in ("first", "second"):
        (tmp_path / turn).mkdir()
        fill(tmp_path / turn, datetime.now(UTC))
    link = tmp_path / "..data"
    link.symlink_to("first")
    before: Presented = mounted(tmp_path)

    link.unlink()
    link.symlink_to("second")

    assert before.certificate.parent.name == "first"
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(before.certificate, before.key)
    assert not mounted(tmp_path).same(before)
