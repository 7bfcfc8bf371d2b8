"""The certificates that `atoll serve` presents, followed while it runs: its own are renewed, others' are read again.

A new CA of the webhook is made known before anything is presented that only it vouches for: first the registrations
name it beside the old one, then the new certificate is shown. So an API server that goes by the registrations is never
refused. What cannot be made known in time is shown all the same, since the old one ends.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from ssl import SSLContext, SSLError

import structlog

from atoll.adapters.certificates import CertificateError
from atoll.adapters.presented import Presented
from atoll.servers.tls import Serving, server_context

LOOK_S = 5.0
NAMED_EVERY_S = 30.0
"""How often the registrations are looked at for our CA; the leader looks at all of them as often."""

MAKE_KNOWN_S = 30.0
SETTLE_S = 1.0
"""What an API server may take to go by a registration that has changed."""

_log = structlog.get_logger("atoll.certificates")


class Followed:
    """What one server presents."""

    def __init__(self, read: Callable[[datetime], Presented], *, clients: bool) -> None:
        """Args:
            read: what is to be presented at a time; it may make it.
            clients: whether callers have certificates of its CA.

        Raises: CertificateError.
        """
        self._read, self._clients = read, clients
        now = datetime.now(UTC)
        self._shown = read(now)
        self._serving = Serving(self._context(self._shown))
        self._before = b""  # the CA before this one, while both are in use
        self._said = ""
        self._check(now)

    @property
    def tls(self) -> SSLContext:
        """To listen with."""
        return self._serving.listening

    def ca(self) -> bytes:
        """By which callers know it: as PEM, of one CA or, while it changes, of two; b"" = nobody told us."""
        return self._before + self._shown.ca

    def look(self) -> tuple[Presented, SSLContext] | None:
        """What is to be shown instead; says what is wrong, once."""
        now = datetime.now(UTC)
        try:
            found = self._read(now)
            change = None if found.same(self._shown) else (found, self._context(found))
        except CertificateError as error:
            self._say("certificates_not_renewed", str(error))
            return None
        self._check(now)
        return change

    async def follow(self, name_ca: Callable[[], Awaitable[str]] | None = None) -> None:
        """Args: name_ca: has the registrations name `ca`, and says why they do not yet; None = there are none."""
        named_at = float("-inf")
        while True:
            change = await asyncio.to_thread(self.look)
            if change is not None:
                await self._turn(*change, name_ca)
            elif name_ca is not None and time.monotonic() - named_at >= NAMED_EVERY_S:
                named_at = time.monotonic()
                if why := await name_ca():
                    _log.warning("ca_not_named", why=why)
            await asyncio.sleep(LOOK_S)

    async def _turn(self, found: Presented, context: SSLContext, name_ca: Callable[[], Awaitable[str]] | None) -> None:
        changes_ca = found.ca != self._shown.ca
        if name_ca is not None and changes_ca:
            self._before, self._shown = self._shown.ca, found
            if why := await _made_known(name_ca):
                _log.warning("ca_not_named", why=why)
        self._shown = found
        self._serving.show(context)
        self._before = b""
        if name_ca is not None and changes_ca:
            await name_ca()  # from now on the one before is named besides ours
        _log.info("certificate_changed", file=str(found.certificate), until=found.valid_until.isoformat())

    def _context(self, shown: Presented) -> SSLContext:
        try:
            return server_context(shown.certificate, shown.key, shown.ca_file if self._clients else None)
        except (OSError, SSLError) as error:
            raise CertificateError(f"{shown.certificate.parent}: the certificates cannot be used: {error}") from error

    def _check(self, now: datetime) -> None:
        """Say once that what is shown is refused by everybody with the same clock."""
        if why := self._shown.not_valid(now):
            self._say("certificate_not_valid", f"{why}, and callers refuse it; replace it, or set this machine's clock")
        else:
            self._said = ""

    def _say(self, event: str, why: str) -> None:
        if self._said != why:
            _log.error(event, why=why)
        self._said = why


async def _made_known(name_ca: Callable[[], Awaitable[str]]) -> str:
    """Wait until the registrations name the CA and API servers go by them; why it was not waited for any longer."""
    why = "no answer"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(MAKE_KNOWN_S):
            while why := await name_ca():  # noqa: ASYNC110 - asked of the API, which tells nobody
                await asyncio.sleep(SETTLE_S)
    await asyncio.sleep(SETTLE_S)
    return why
