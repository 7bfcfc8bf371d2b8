"""By whom a server may be vouched for: bundles of CA certificates as PEM, and how two of them become one.

While a CA changes, a bundle names the old one and the new one. Several processes write one bundle, each for itself and
none in step with the others, so a merge only adds what is missing and takes away what nobody needs for certain.
"""

from collections.abc import Callable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

Authority = x509.Certificate


def authorities(bundle: bytes) -> list[Authority]:
    """Those of a PEM text, in its order; none of a text that is no such bundle."""
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def merged(found: bytes, own: bytes, now: datetime, superfluous: Callable[[Authority], bool]) -> bytes:
    """The bundle as it should be, `found` itself where nothing is to be changed.

    Args:
        own: by which this process is vouched for.
        superfluous: asked of every other one that would still do.
    """
    ours, there = authorities(own), authorities(found)
    kept = [
        each
        for each in there
        if each in ours
        or not (each.not_valid_after_utc <= now or any(_does_for(our, each) for our in ours) or superfluous(each))
    ]
    missing = [our for our in ours if not any(_does_for(each, our) for each in kept)]
    if not missing and kept == there and there:
        return found
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in [*kept, *missing])


def vouched_for(found: bytes, own: bytes) -> bool:
    """Whether a bundle does for the last of our own, which is the newest."""
    return all(any(_does_for(each, our) for each in authorities(found)) for our in authorities(own)[-1:])


def _does_for(one: Authority, other: Authority) -> bool:
    """A CA renewed under its key vouches for whatever it signed before; the one that lasts longer is kept."""
    return (
        one.subject == other.subject
        and one.public_key() == other.public_key()
        and one.not_valid_after_utc >= other.not_valid_after_utc
    )
