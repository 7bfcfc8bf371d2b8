"""Printed kubectl commands, run through the tests' own client by what their words say and nothing else."""

import json
import shlex

from tests.realkube.api import Api, wait_until

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUPS = {
    "pods": "/api/v1",
    "serviceaccounts": "/api/v1",
    "daemonsets": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "gpunodeconfigs": "/apis/atoll.dev/v1alpha1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    **dict.fromkeys(("mutatingwebhookconfigurations", "validatingwebhookconfigurations"), _ADMISSION),
    **dict.fromkeys(("validatingadmissionpolicies", "validatingadmissionpolicybindings"), _ADMISSION),
    **dict.fromkeys(("clusterroles", "clusterrolebindings", "roles", "rolebindings"), _RBAC),
}


def kubectl(api: Api, command: str) -> None:
    """Run `kubectl [-n NAMESPACE] delete|patch KIND NAME …`, or what a fix says; a deletion waits for its end."""
    program, *words = shlex.split(command)
    assert program == "kubectl", command
    if words[0] == "uncordon":
        api.patch(f"/api/v1/nodes/{words[1]}", {"spec": {"unschedulable": None}})
        return
    if words[:3] in (["delete", "pod", "-n"], ["annotate", "pod", "-n"]):
        _of_pods(api, words[0], words[3], words[4:])
        return
    namespace = ""
    if words[0] == "-n":
        namespace, words = words[1], words[2:]
    verb, kind, name, *options = words
    folder = f"/namespaces/{namespace}" if namespace else ""
    path = f"{GROUPS[kind]}{folder}/{kind}/{name}"
    if verb == "delete":
        assert options == ["--ignore-not-found"], command
        if api.find(path) is not None:
            api.delete(path)
        wait_until(lambda: api.find(path) is None, f"{command} to be done")
        return
    assert (verb, options[0], options[2]) == ("patch", "--type", "-p"), command
    api.patch(path, json.loads(options[3]), options[1])


def _of_pods(api: Api, verb: str, namespace: str, words: list[str]) -> None:
    folder = f"/api/v1/namespaces/{namespace}/pods"
    if verb == "delete":
        for name in words:
            api.delete(f"{folder}/{name}", grace_s=0)
        for name in words:
            wait_until(lambda name=name: api.find(f"{folder}/{name}") is None, f"{name} to be gone")  # type: ignore[misc]
        return
    name, annotation, overwrite = words
    assert overwrite == "--overwrite"
    key, _, value = annotation.partition("=")
    api.patch(f"{folder}/{name}", {"metadata": {"annotations": {key: value}}})
