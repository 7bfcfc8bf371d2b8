"""The registrations of the webhook, and what only Atoll changes in them.

Pods without GPUs never reach it: a condition that the API server evaluates itself sets them aside, and cannot fail, as
it reads what may be absent as an option. Pods with GPUs fail closed once some pool is enforced; until then a webhook
that is away changes nothing. Workloads are only warned about: nobody waits for that longer than a second.
"""

import json
from typing import Any

from atoll.adapters.kube.names import GPU_RESOURCE, GROUP

Manifest = dict[str, Any]

NAME = "atoll"
PODS, WORKLOADS = f"pods.{GROUP}", f"workloads.{GROUP}"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
TIMEOUT_S, WARNING_TIMEOUT_S = 5, 1
INJECT_FROM = "cert-manager.io/inject-ca-from"
INJECTED = frozenset({INJECT_FROM, "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"})
"""Whoever has one of these annotations gets its CA from cert-manager, and Atoll leaves it alone."""

TEMPLATES: dict[str, tuple[str, ...]] = {
    "apps": ("deployments", "statefulsets", "daemonsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
    "jobset.x-k8s.io": ("jobsets",),
    "leaderworkerset.x-k8s.io": ("leaderworkersets",),
    "kubeflow.org": ("pytorchjobs", "mpijobs", "tfjobs", "jaxjobs", "xgboostjobs", "paddlejobs"),
    "trainer.kubeflow.org": ("trainjobs",),
    "ray.io": ("rayclusters", "rayjobs", "rayservices"),
    "batch.volcano.sh": ("jobs",),
}
"""Kinds with templates of pods, by their group."""


def webhook(to: Manifest, *, inject_ca_from: str = "", resources: tuple[str, ...] = (GPU_RESOURCE,)) -> list[Manifest]:
    """Both registrations.

    Args:
        to: `{"url": …}` or `{"service": …}`. inject_ca_from: NAMESPACE/NAME of a Certificate of cert-manager.
        resources: names that count as GPUs.
    """
    annotations = {INJECT_FROM: inject_ca_from} if inject_ca_from else {}
    conditions = [{"name": "asks-for-gpus", "expression": asks_for_gpus(resources)}]
    pods = {
        "name": PODS,
        "rules": [rule_of("", ["pods"], ["CREATE"])],
        "failurePolicy": "Ignore",
        "matchConditions": conditions,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": TIMEOUT_S,
    }
    workloads = {
        **{key: value for key, value in pods.items() if key != "matchConditions"},
        "name": WORKLOADS,
        "timeoutSeconds": WARNING_TIMEOUT_S,
        "rules": [rule_of(group, list(kinds), ["CREATE", "UPDATE"]) for group, kinds in TEMPLATES.items()],
    }
    mutating = {**pods, "reinvocationPolicy": "IfNeeded"}
    return [
        _registration("MutatingWebhookConfiguration", [{**mutating, "clientConfig": _at(to, "/mutate")}], annotations),
        _registration(
            "ValidatingWebhookConfiguration",
            [{**each, "clientConfig": _at(to, "/validate")} for each in (pods, workloads)],
            annotations,
        ),
    ]


def asks_for_gpus(resources: tuple[str, ...]) -> str:
    """CEL: whether some container of `object`, a pod, names one of the resources."""
    names = json.dumps(list(resources))
    named = " || ".join(
        f"{names}.exists(name, c.?resources.?{part}.orValue({{}})[?name].orValue('0') != '0')"
        for part in ("limits", "requests")
    )
    return " || ".join(
        f"object.?spec.?{part}.orValue([]).exists(c, {named})" for part in ("containers", "initContainers")
    )


def _at(to: Manifest, path: str) -> Manifest:
    if "url" in to:
        return {**to, "url": to["url"].rstrip("/") + path}
    return {**to, "service": {**to["service"], "path": path}}


def rule_of(group: str, resources: list[str], operations: list[str]) -> Manifest:
    """Which writes are looked at, in registrations and in admission policies alike."""
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": [*operations], "resources": resources}


def _registration(kind: str, webhooks: list[Manifest], annotations: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME, **({"annotations": annotations} if annotations else {})},
        "webhooks": webhooks,
    }
