"""TLS of the extender: 1.2 and later, our own certificate, and client certificates of our own CA.

A client may come without one, because the kubelet's probes do; which paths it then reaches is decided in `http`.
"""

import ssl
from pathlib import Path


def server_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """A context for new connections; `load_cert_chain` on it again replaces the certificate while it is in use.

    Args: client_ca: None = no client is asked for a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
