"""The certificates of `atoll serve`: a CA of its own, the extender's server certificate, the scheduler's client one.

They lie as PEM files in one folder. What is there and valid is used as it is, whoever made it; what is missing or about
to expire is made. A key is made once and kept: renewing signs the same key again, so a reader that comes between two
writes never sees a certificate that does not fit its key, and a CA renewed under its old key still vouches for what it
signed before. A file that cannot be read is never replaced, it is named in an error: it may be somebody's own.

Files are written whole (temporary file, rename), with mode 0600; a lock file makes two starts take turns.
"""

import fcntl
import ipaddress
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from atoll.core.errors import AtollError, quoted

CA_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=365)
SCHEDULER_LIFE = timedelta(days=1825)
"""kube-scheduler reads its client certificate once, at its start, so that one lives long."""

RENEW_BEFORE = timedelta(days=60)
BACKDATED = timedelta(hours=1)
"""A new certificate is valid a little into the past, for machines whose clocks run behind."""

SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where the files of one folder lie. The names are relied on by `atoll manifests scheduler-config`."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def scheduler(self) -> Path:
        return self.folder / "scheduler-client.crt"

    @property
    def scheduler_key(self) -> Path:
        return self.folder / "scheduler-client.key"


class CertificateError(AtollError):
    """A certificate folder that cannot be used: which file, what was found, what would help."""


def ensure_certificates(folder: Path, names: Sequence[str], now: datetime) -> CertificateFiles:
    """Make what is missing or about to expire, and say where everything lies.

    Args:
        names: DNS names and IP addresses that the server certificate must be good for.
        now: with a time zone.

    Raises:
        CertificateError: a file is there and cannot be used, or one must be made and cannot be.
    """
    files = CertificateFiles(folder)
    # Without the lock first: a folder mounted read-only (a Secret) is fine when nothing has to be made.
    if not _stale(files, names, now):
        return files
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder / ".lock"):
            for step in _stale(files, names, now):
                step()
            left = _stale(files, names, now)
    except OSError as error:
        raise CertificateError(
            f"{folder}: certificates must be made there and cannot be: {error.strerror or error}. "
            "Give --cert-dir a folder that this user can write, or put valid files there"
        ) from error
    if left:
        raise CertificateError(f"{folder}: the certificates are still not valid after they were made")
    return files


def server_names(host: str, extra: Sequence[str], hostname: str) -> tuple[str, ...]:
    """The names of a server that listens on `host`; a wildcard address is reached by the machine's name."""
    wildcard = host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    return tuple(dict.fromkeys((hostname if wildcard else host, "localhost", "127.0.0.1", "::1", *extra)))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A certificate that the CA signs."""

    path: Path
    key_path: Path
    common_name: str
    names: tuple[str, ...]
    usage: x509.ObjectIdentifier
    life: timedelta


@dataclass(frozen=True, slots=True)
class _MakeCa:
    files: CertificateFiles
    now: datetime

    def __call__(self) -> None:
        key = _key_or_new(self.files.ca_key)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "atoll extender CA")])
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(name, name, key, self.now, CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(self.files.ca, _pem(certificate))


@dataclass(frozen=True, slots=True)
class _MakeLeaf:
    files: CertificateFiles
    leaf: _Leaf
    now: datetime

    def __call__(self) -> None:
        ca = _certificate(self.files.ca)
        if ca is None:
            raise CertificateError(f"{self.files.ca}: vanished while certificates were made; start again")
        ca_key = _key(self.files.ca_key)
        if ca_key is None:
            raise CertificateError(
                f"{self.leaf.path}: missing, expired, of another CA or not of {self.leaf.key_path.name}, and "
                f"{self.files.ca_key} is not there to sign a new one. Put a valid pair there, or the CA's key, "
                "or remove ca.crt so that a new CA is made"
            )
        key = _key_or_new(self.leaf.key_path)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.leaf.common_name)])
        builder = (
            _builder(name, ca.subject, key, self.now, self.leaf.life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([self.leaf.usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )
        if self.leaf.names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in self.leaf.names]), critical=False
            )
        _write(self.leaf.path, _pem(builder.sign(ca_key, hashes.SHA256())))


def _stale(files: CertificateFiles, names: Sequence[str], now: datetime) -> list[_MakeCa | _MakeLeaf]:
    """What has to be made, in this order. A renewed CA re-signs nothing that its key signed before."""
    ca = _certificate(files.ca)
    if ca is not None and _key(files.ca_key) is None:
        return _stale_under_foreign_ca(files, ca, now)
    leaves = _leaves(files, tuple(names))
    if ca is None:
        return [_MakeCa(files, now), *(_MakeLeaf(files, leaf, now) for leaf in leaves)]
    renewed = [] if _lasts(ca, now) else [_MakeCa(files, now)]
    return [*renewed, *(_MakeLeaf(files, leaf, now) for leaf in leaves if not _lasts_as(leaf, ca, now))]


def _stale_under_foreign_ca(files: CertificateFiles, ca: x509.Certificate, now: datetime) -> list[_MakeCa | _MakeLeaf]:
    """Without its key the CA is somebody's own. What it signed is used to its last day, whatever names it is good for,
    and never replaced by ours."""
    if ca.not_valid_after_utc <= now:
        raise CertificateError(f"{files.ca}: expired at {ca.not_valid_after_utc:%Y-%m-%d}. Replace it, or remove it")
    return [_MakeLeaf(files, leaf, now) for leaf in _leaves(files, ()) if not _good(leaf, ca, now)]


def _leaves(files: CertificateFiles, names: tuple[str, ...]) -> tuple[_Leaf, _Leaf]:
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    return (
        _Leaf(files.server, files.server_key, "atoll extender", names, server, SERVER_LIFE),
        _Leaf(files.scheduler, files.scheduler_key, "kube-scheduler", (), client, SCHEDULER_LIFE),
    )


def _lasts(certificate: x509.Certificate, now: datetime) -> bool:
    """Begun, and not about to end. One that has not begun was made where the clock was ahead."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEW_BEFORE


def _lasts_as(leaf: _Leaf, ca: x509.Certificate, now: datetime) -> bool:
    certificate = _certificate(leaf.path)
    return certificate is not None and _lasts(certificate, now) and _good(leaf, ca, now)


def _good(leaf: _Leaf, ca: x509.Certificate, until: datetime) -> bool:
    certificate, key = _certificate(leaf.path), _key(leaf.key_path)
    if certificate is None or key is None or certificate.not_valid_after_utc <= until:
        return False
    if certificate.public_key() != key.public_key():
        return False
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    try:
        present = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not leaf.names
    return {_general_name(name) for name in leaf.names} <= set(present)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise CertificateError(f"{quoted(name)} is neither an IP address nor a DNS name in ASCII") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SigningKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _certificate(path: Path) -> x509.Certificate | None:
    pem = _read(path)
    if pem is None:
        return None
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"{path}: is no PEM certificate. Replace it, or remove it to have one made") from error


def _key(path: Path) -> SigningKey | None:
    pem = _read(path)
    if pem is None:
        return None
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(
            f"{path}: is no PEM private key without a password. Replace it, or remove it to have one made"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateError(f"{path}: holds a key that is neither EC nor RSA. Replace it by one that is")
    return key


def _key_or_new(path: Path) -> SigningKey:
    key = _key(path)
    if key is None:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(
            path,
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )
    return key


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}. Make it readable for this user") from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all; mkstemp gives mode 0600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        path.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
