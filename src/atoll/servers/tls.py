"""TLS of our servers: 1.2 and later, our own certificate, and on the extender's client certificates of our own CA.

A client may come without one, because the kubelet's probes do; which paths it then reaches is decided in `http`.
"""

import ssl
from pathlib import Path


def server_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """Args: client_ca: None = no client is asked for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Serving:
    """What a listening server shows: each new connection what was last told, whole, and files that do not fit never.

    `listening` is what to listen with; its own certificate is shown to nobody once there is another.
    """

    def __init__(self, first: ssl.SSLContext) -> None:
        self.listening, self._shown = first, first
        first.sni_callback = self._choose  # called for every connection, also where no name is asked for

    def show(self, context: ssl.SSLContext) -> None:
        self._shown = context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _first: ssl.SSLContext) -> None:
        connection.context = self._shown
