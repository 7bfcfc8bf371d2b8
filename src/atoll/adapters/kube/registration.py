"""Keeps the webhook's registrations in step: by which CAs it is known, and what a failure of it means.

Every process that answers admission calls sees to it that its own CA is named, before it presents a certificate of it.
What is named besides is left for a while, since another process may still present what it vouches for; the leader takes
it away. Where cert-manager injects the CA, none of them touches it.
"""

import base64
import binascii
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from atoll.adapters.authorities import Authority, merged, vouched_for
from atoll.adapters.kube.client import STRATEGIC_PATCH, KubeClient, Unanswered
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.manifests_webhook import INJECTED, MUTATING, NAME, PODS, VALIDATING
from atoll.adapters.kube.wire import Struct
from atoll.core.effects import KeepRegistration
from atoll.core.events import RegistrationKept

OVERLAP = timedelta(minutes=10)
"""A kubelet brings a changed Secret to a pod within two minutes."""

NOT_FOUND = 404
_encode = msgspec.json.Encoder().encode


class _ClientConfig(Struct, frozen=True):
    ca_bundle: str = ""


class _Webhook(Struct, frozen=True):
    name: str
    client_config: _ClientConfig = _ClientConfig()
    failure_policy: str = ""


class _Metadata(Struct, frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Registration(Struct, frozen=True):
    metadata: _Metadata
    webhooks: tuple[_Webhook, ...] | None = None


_registration = msgspec.json.Decoder(_Registration)


class Registrations:
    """Args:
    ca: the CA's certificate as PEM, as it is now, after the one before it while it changes; b"" = it is not known here.
    now: the time of day.
    """

    def __init__(self, client: KubeClient, ca: Callable[[], bytes], now: Callable[[], datetime]) -> None:
        self._client, self._ca, self._now = client, ca, now
        self._others: dict[Authority, datetime] = {}  # since when each is known to be named besides ours

    async def keep(self, effect: KeepRegistration) -> RegistrationKept:
        """As the leader: change what is not as it should be. One that is not there is nobody's wish."""
        return RegistrationKept(await self._all("Fail" if effect.closed else "Ignore"))

    async def name_ca(self) -> str:
        """As anybody who answers: have our CA named; why that is not so yet."""
        return await self._all(None)

    async def _all(self, failure_policy: str | None) -> str:
        left: set[Authority] = set()
        try:
            for kind in (MUTATING, VALIDATING):
                why = await self._keep(kind, failure_policy, left)
                if why:
                    return f"{kind} {NAME}: {why}"
        except (Unanswered, AccessError, OSError, msgspec.DecodeError) as error:
            return str(error)
        # One that comes back later is presented by somebody, and has its time again.
        self._others = {each: since for each, since in self._others.items() if each in left}
        return ""

    async def _keep(self, kind: str, failure_policy: str | None, left: set[Authority]) -> str:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{NAME}"
        answer = await self._client.read(path)
        if answer.status == NOT_FOUND:
            return ""
        if not answer.ok:
            return answer.why
        found = _registration.decode(answer.body)
        injected = INJECTED & (found.metadata.annotations or {}).keys()
        changes, unnamed = [], ""
        for webhook in found.webhooks or ():
            change: dict[str, object] = {}
            bundle = _decoded(webhook.client_config.ca_bundle)
            if not injected:
                wanted = self._bundle(bundle, left, leading=failure_policy is not None)
                if wanted != bundle:
                    change["clientConfig"] = {"caBundle": base64.b64encode(wanted).decode()}
            elif failure_policy is None and not vouched_for(bundle, self._ca()):
                unnamed = f"{min(injected)} has not brought our CA yet"
            if webhook.name == PODS and webhook.failure_policy != (failure_policy or webhook.failure_policy):
                change["failurePolicy"] = failure_policy
            if change:
                changes.append({"name": webhook.name, **change})
        if not changes:
            return unnamed
        # A strategic merge goes by the webhook's name; what somebody else changed meanwhile makes it a conflict.
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": changes}
        answer = await self._client.write("PATCH", path, _encode(patch), STRATEGIC_PATCH)
        return "" if answer.ok else answer.why

    def _bundle(self, found: bytes, left: set[Authority], *, leading: bool) -> bytes:
        """Args: left: takes up who is named besides ours."""
        own, now = self._ca(), self._now()
        if not own:
            return found

        def superfluous(each: Authority) -> bool:
            since = self._others.setdefault(each, now)
            if leading and now - since >= OVERLAP:
                return True
            left.add(each)
            return False

        return merged(found, own, now, superfluous)


def _decoded(ca_bundle: str) -> bytes:
    try:
        return base64.b64decode(ca_bundle, validate=True)
    except (binascii.Error, ValueError):
        return b""
