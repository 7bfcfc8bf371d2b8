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
    """Run `kubectl [-n NAMESPACE] delete|patch KIND NAME …`; as kubectl does, a deletion waits for its end."""
    program, *words = shlex.split(command)
    assert program == "kubectl", command
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
