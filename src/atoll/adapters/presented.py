"""What a server presents: a certificate, its key and the CA by which it is known, read as files that fit each other.

They are Atoll's own (`certificates`), or lie in a mounted Secret as cert-manager writes it: tls.crt, tls.key, ca.crt.
A kubelet changes all files of a Secret at once, by turning one link round; so the link is followed once for all three.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from atoll.adapters.certificates import CertificateError, CertificateFiles

_TURNED = "..data"


@dataclass(frozen=True, slots=True)
class Presented:
    """Compares equal while the files say the same.

    Args:
        ca: as PEM, b"" = not known here. valid_from: of the certificate itself; so is valid_until.
    """

    certificate: Path
    key: Path
    ca_file: Path
    ca: bytes
    text: bytes
    valid_from: datetime
    valid_until: datetime

    def same(self, other: "Presented") -> bool:
        """Whether both say the same, wherever they lie."""
        return (self.text, self.ca) == (other.text, other.ca)

    def not_valid(self, now: datetime) -> str:
        """Why no caller with the same clock takes it; "" when all is well."""
        if now < self.valid_from:
            return f"{self.certificate} is not valid before {self.valid_from:%Y-%m-%dT%H:%M:%SZ}"
        if now > self.valid_until:
            return f"{self.certificate} is not valid after {self.valid_until:%Y-%m-%dT%H:%M:%SZ}"
        return ""


def own(files: CertificateFiles) -> Presented:
    """Raises: CertificateError."""
    return _presented(files.server, files.server_key, files.ca, _read(files.ca))


def mounted(folder: Path) -> Presented:
    """Raises: CertificateError."""
    link = folder / _TURNED
    there = link.resolve() if link.exists() else folder
    ca = there / "ca.crt"
    return _presented(there / "tls.crt", there / "tls.key", ca, _read(ca) if ca.exists() else b"")


def _presented(certificate: Path, key: Path, ca_file: Path, ca: bytes) -> Presented:
    text = _read(certificate)
    try:
        (first, *_) = x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise CertificateError(f"{certificate}: is no PEM certificate. Replace it") from error
    return Presented(certificate, key, ca_file, ca, text, first.not_valid_before_utc, first.not_valid_after_utc)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}. Make it readable for this user") from error
