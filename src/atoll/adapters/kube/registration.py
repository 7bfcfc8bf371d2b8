"""Keeps the webhook's registrations in step: by which CA it is known, and what a failure of it means."""

import base64
from collections.abc import Callable

import msgspec

from atoll.adapters.kube.client import STRATEGIC_PATCH, KubeClient, Unanswered
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.manifests_webhook import INJECTED, MUTATING, NAME, PODS, VALIDATING
from atoll.adapters.kube.wire import Struct
from atoll.core.effects import KeepRegistration
from atoll.core.events import RegistrationKept

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
    """Args: ca: the CA's certificate as PEM, as it is now."""

    def __init__(self, client: KubeClient, ca: Callable[[], bytes]) -> None:
        self._client, self._ca = client, ca

    async def keep(self, effect: KeepRegistration) -> RegistrationKept:
        """Change what is not as it should be. One that is not there is nobody's wish."""
        try:
            for kind in (MUTATING, VALIDATING):
                why = await self._keep(kind, "Fail" if effect.closed else "Ignore")
                if why:
                    return RegistrationKept(f"{kind} {NAME}: {why}")
        except (Unanswered, AccessError, OSError, msgspec.DecodeError) as error:
            return RegistrationKept(str(error))
        return RegistrationKept()

    async def _keep(self, kind: str, failure_policy: str) -> str:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{NAME}"
        answer = await self._client.read(path)
        if answer.status == NOT_FOUND:
            return ""
        if not answer.ok:
            return answer.why
        found = _registration.decode(answer.body)
        ca = base64.b64encode(self._ca()).decode()
        injected = INJECTED in (found.metadata.annotations or {})
        changes = []
        for webhook in found.webhooks or ():
            change: dict[str, object] = {}
            if not injected and webhook.client_config.ca_bundle != ca:
                change["clientConfig"] = {"caBundle": ca}
            if webhook.name == PODS and webhook.failure_policy != failure_policy:
                change["failurePolicy"] = failure_policy
            if change:
                changes.append({"name": webhook.name, **change})
        if not changes:
            return ""
        # A strategic merge goes by the webhook's name; what somebody else changed meanwhile makes it a conflict.
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": changes}
        answer = await self._client.write("PATCH", path, _encode(patch), STRATEGIC_PATCH)
        return "" if answer.ok else answer.why
