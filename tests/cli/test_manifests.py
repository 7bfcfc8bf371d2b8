"""What `atoll manifests` prints: whole YAML, in step with what the code reads and does."""

import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from atoll.adapters.kube import manifests, names, wire_atoll
from atoll.cli.manifests import app
from atoll.core.facts import Enforcement, Hints, OnViolation, Source
from atoll.core.ledger import NodeMode
from atoll.core.lifecycle import State
from atoll.core.topology import Health, PcieLink

Json = dict[str, Any]
KEYWORDS = {
    *("type", "description", "properties", "required", "items", "enum", "format", "additionalProperties"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
}


def printed(*arguments: str) -> list[Json]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def schema(kind: str) -> Json:
    by_kind = {crd["spec"]["names"]["kind"]: crd for crd in manifests.crds()}
    found: Json = by_kind[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def at(node: Json, *path: str) -> Json:
    for step in path:
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def schemas_within(node: Any) -> list[Json]:
    """Every schema of a property or of a list's items."""
    found: list[Json] = []
    if isinstance(node, dict):
        for key, value in node.items():
            children = list(value.values()) if key == "properties" else [value] if key == "items" else []
            for child in children:
                found += [child, *schemas_within(child)]
    return found


def test_the_printed_crds_are_the_four_kinds():
    crds = printed("crds")

    assert [crd["spec"]["names"]["kind"] for crd in crds] == [
        "GPULedger",
        "GPUNodeConfig",
        "GPUNode",
        "PlacementPolicy",
    ]
    assert {crd["kind"] for crd in crds} == {"CustomResourceDefinition"}
    assert all(crd["spec"]["scope"] == "Cluster" for crd in crds)


@pytest.mark.parametrize("kind", ["GPUNode", "GPUNodeConfig", "GPULedger"])
def test_every_list_and_word_of_a_schema_is_bounded(kind: str):
    for each in schemas_within({"properties": schema(kind)}):
        assert {key for key in each if not key.startswith("x-kubernetes-")} <= KEYWORDS, each
        if each["type"] == "array":
            assert "maxItems" in each, each
        if each["type"] == "string":
            assert "maxLength" in each or "enum" in each, each


def test_the_words_of_the_schemas_are_the_words_of_the_core():
    node, config, grant = (
        schema("GPUNode")["status"],
        schema("GPUNodeConfig")["spec"],
        at(schema("GPULedger")["spec"], "grants", "[]"),
    )

    words = {
        Source: at(node, "source"),
        Health: at(node, "devices", "[]", "health"),
        PcieLink: at(node, "links", "[]", "pcie"),
        Enforcement: at(config, "enforcement"),
        NodeMode: at(config, "mode"),
        Hints: at(config, "hints"),
        OnViolation: at(config, "onViolation"),
        State: at(grant, "state"),
    }

    assert {enum: set(found["enum"]) for enum, found in words.items()} == {enum: set(enum) for enum in words}


def test_the_sizes_of_the_schemas_are_the_sizes_that_are_read():
    node, ledger = schema("GPUNode")["status"], schema("GPULedger")["spec"]

    assert at(node, "devices")["maxItems"] == wire_atoll.GPUS_MAX
    assert at(node, "nics")["maxItems"] == wire_atoll.NICS_MAX
    assert at(node, "links")["maxItems"] == wire_atoll.GPUS_MAX * (wire_atoll.GPUS_MAX - 1) // 2
    assert at(ledger, "grants")["maxItems"] == wire_atoll.GRANTS_MAX
    assert at(ledger, "grants", "[]", "record")["maxLength"] == wire_atoll.RECORD_MAX


def test_the_roles_name_the_given_account_and_namespace_and_no_wildcard():
    objects = printed("rbac", "--namespace", "gpu", "--service-account", "robot")

    account = next(each for each in objects if each["kind"] == "ServiceAccount")
    subjects = [subject for each in objects for subject in each.get("subjects", ()) if subject["name"] == "robot"]
    assert account["metadata"] == {"name": "robot", "namespace": "gpu"}
    assert subjects == [{"kind": "ServiceAccount", "name": "robot", "namespace": "gpu"}] * 2
    assert "*" not in yaml.safe_dump(objects).replace("'*'", "*").split()


def test_a_role_for_publishers_is_printed_and_bound_to_nobody():
    objects = printed("rbac")

    (publisher,) = (each for each in objects if each["metadata"]["name"] == "atoll-publisher")
    assert publisher["rules"] == manifests.publisher_rules()
    assert all(each.get("roleRef", {}).get("name") != "atoll-publisher" for each in objects)


def test_every_admission_policy_fails_closed_and_is_in_force_everywhere():
    objects = printed("admission")

    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"].endswith("Policy")}
    bindings = [each["spec"] for each in objects if each["kind"].endswith("PolicyBinding")]
    whose = ("ledgers", "answers", "gates", "policies", "agents", "shims")
    assert list(policies) == [f"{each}.atoll.dev" for each in whose]
    assert bindings == [{"policyName": name, "validationActions": ["Deny"]} for name in policies]
    assert {policy["failurePolicy"] for policy in policies.values()} == {"Fail"}
    assert {each["apiVersion"] for each in objects} == {"admissionregistration.k8s.io/v1"}


def test_admission_names_the_given_accounts_and_namespace():
    accounts = ("--service-account", "robot", "--agent-account", "scout", "--shim-account", "herald")
    objects = printed("admission", "--namespace", "gpu", *accounts)

    text = yaml.safe_dump(objects, width=10_000)
    named = {f"system:serviceaccount:gpu:{name}" for name in ("robot", "scout", "herald")}
    assert set(re.findall(r'"(system:serviceaccount:.*?)"', text)) == named
    assert '"gpu/atoll-agent."' in text
    assert '"gpu/atoll-shim."' in text
    assert "kube-system" not in text


def test_admission_sets_pods_without_an_answer_aside_before_it_looks_at_a_rule():
    policy = next(each for each in printed("admission") if each["metadata"]["name"] == "answers.atoll.dev")

    asides = {each["name"]: each["expression"] for each in policy["spec"]["matchConditions"]}
    assert all(f'"{answer}"' in asides["answered"] for answer in names.ANSWERED)


@pytest.mark.parametrize("option", ["--agent-account", "--shim-account"])
def test_who_runs_on_nodes_with_the_account_of_the_scheduler_side_is_refused(option: str):
    result = CliRunner().invoke(app, ["admission", "--service-account", "one", option, "one"])

    assert result.exit_code == 2
    assert "is held to no node" in " ".join(result.output.replace("│", " ").split())


def test_an_audit_may_read_and_nothing_else():
    objects = printed("audit-rbac", "--namespace", "gpu", "--service-account", "robot")

    role = next(each for each in objects if each["kind"] == "ClusterRole")
    binding = next(each for each in objects if each["kind"] == "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "gpu"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list"}
    reached = {resource for rule in role["rules"] for resource in rule.get("resources", ())}
    assert not {each for each in reached if "/" in each or each in {"secrets", "*"}}
    assert [rule["verbs"] for rule in role["rules"] if "configmaps" in rule.get("resources", ())] == [["get"]]


def test_one_that_probes_may_make_and_delete_pods_in_one_namespace():
    objects = printed("audit-rbac", "--probe", "lab")

    (role,) = (each for each in objects if each["kind"] == "Role")
    assert role["metadata"]["namespace"] == "lab"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "create", "delete"]}]
    (binding,) = (each for each in objects if each["kind"] == "RoleBinding")
    assert binding["subjects"][0]["name"] == "atoll-audit"
    assert CliRunner().invoke(app, ["audit-rbac", "--probe", "No Such"]).exit_code == 2


def test_the_scheduler_configuration_is_one_document_whose_first_profile_is_ours():
    (config,) = printed("scheduler-config", "--extender-url", "https://10.0.0.1:8443/", "--cert-dir", "/etc/atoll/")

    assert config["kind"] == "KubeSchedulerConfiguration"
    assert config["clientConnection"] == {"qps": 500, "burst": 1000}
    assert config["profiles"] == [{"schedulerName": "atoll-scheduler", "percentageOfNodesToScore": 100}]
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "https://10.0.0.1:8443"
    assert extender["tlsConfig"]["keyFile"] == "/etc/atoll/scheduler-client.key"
    assert extender["managedResources"] == [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}]
    assert (extender["nodeCacheCapable"], extender["ignorable"]) == (True, False)


def test_an_extender_without_tls_is_refused():
    result = CliRunner().invoke(app, ["scheduler-config", "--extender-url", "http://x", "--cert-dir", "/c"])

    assert result.exit_code == 2
    assert "https only" in result.output


@pytest.mark.parametrize(
    "url",
    ["https://", "https://a b", "https://h:99999", "https://h:x", "https://h:0", "https://[::1", "https://h:1/filter"],
)
def test_an_extender_that_kube_scheduler_could_not_reach_is_refused(url: str):
    result = CliRunner().invoke(app, ["scheduler-config", "--extender-url", url, "--cert-dir", "/c"])

    assert result.exit_code == 2
    assert "wanted is https://HOST:PORT" in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("url", ["https://h", "https://10.0.0.1:8443", "https://[::1]:8443/"])
def test_an_extender_is_named_by_host_or_address(url: str):
    (document,) = printed("scheduler-config", "--extender-url", url, "--cert-dir", "/c")

    assert document["extenders"][0]["urlPrefix"].startswith(url.rstrip("/"))


@pytest.mark.parametrize("name", ["", "Bad", "a b", "a: b", "-a", "x\ny", "a/b", "a" * 254])
def test_a_name_that_no_object_can_have_is_refused(name: str):
    url = ["--extender-url", "https://h", "--cert-dir", "/c"]
    for words in (
        ["rbac", "--namespace"],
        ["rbac", "--service-account"],
        ["admission", "--namespace"],
        ["admission", "--service-account"],
        ["admission", "--agent-account"],
        ["scheduler-config", *url, "--scheduler-name"],
    ):
        result = CliRunner().invoke(app, [*words, name])

        assert result.exit_code == 2
        assert "legal are a-z" in " ".join(result.output.replace("│", " ").split())


def test_an_agent_reads_and_writes_its_inventory_and_nothing_else():
    objects = printed("agent-rbac", "--namespace", "gpu", "--service-account", "robot")

    rules = next(each for each in objects if each["kind"] == "ClusterRole")["rules"]
    written = {
        f"{group}/{resource}"
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert written == {"atoll.dev/gpunodes", "atoll.dev/gpunodes/status"}
    reached = {resource for rule in rules for resource in rule["resources"]}
    assert not reached & {"secrets", "nodes/proxy", "pods/exec", "gpuledgers", "*"}
    (role,) = (each for each in objects if each["kind"] == "Role")
    assert (role["metadata"]["namespace"], role["rules"][0]["resources"]) == ("gpu", ["leases"])
    assert all(each["subjects"][0]["name"] == "robot" for each in objects if each["kind"].endswith("Binding"))


def test_the_agents_daemon_set_runs_without_privileges_and_sees_no_secrets_of_pods():
    objects = printed("agent", "--image", "example.com/atoll:1", "--namespace", "gpu", "--runtime-class", "")

    (daemon_set,) = (each for each in objects if each["kind"] == "DaemonSet")
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "runtimeClassName" not in pod
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"]}
    assert not {path for path in paths if path.rstrip("/") in {"", "/var", "/var/lib", "/var/lib/kubelet"}}
    assert not {path for path in paths if path.startswith(("/var/lib/kubelet/pods", "/var/lib/kubelet/pki"))}


def test_kubelets_that_sign_for_themselves_are_known_by_their_certificate_alone():
    objects = printed("agent", "--image", "example.com/atoll:1", "--self-signed-kubelets")

    volumes = objects[-1]["spec"]["template"]["spec"]["volumes"]
    assert [each["hostPath"]["path"] for each in volumes if "pki" in each["hostPath"]["path"]] == [
        "/var/lib/kubelet/pki/kubelet.crt"
    ]


def test_a_shim_reads_what_was_granted_and_writes_its_lease_alone():
    objects = printed("shim-rbac", "--namespace", "gpu", "--service-account", "robot")

    (cluster,) = (each["rules"] for each in objects if each["kind"] == "ClusterRole")
    (own,) = (each["rules"] for each in objects if each["kind"] == "Role")
    assert {verb for each in cluster for verb in each["verbs"]} == {"list", "watch"}
    assert own == [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]}]
    assert {each["metadata"].get("namespace", "gpu") for each in objects} == {"gpu"}


def test_the_shims_daemon_set_sees_two_folders_of_the_host_and_runs_without_privileges():
    (daemon_set,) = (each for each in printed("shim", "--image", "example.com/atoll:1") if each["kind"] == "DaemonSet")

    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {each["hostPath"]["path"] for each in pod["volumes"]} == {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/atoll/device-plugins",
    }
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        each["hostPath"]["path"] for each in pod["volumes"]
    }
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["args"] == ["shim", "--namespace", "kube-system"]


def test_an_agent_runs_on_the_nodes_of_a_label():
    objects = printed("agent", "--image", "example.com/atoll:1", "--node-label", "amd.com/gpu.present=yes")

    daemon_set = next(each for each in objects if each["kind"] == "DaemonSet")
    assert daemon_set["spec"]["template"]["spec"]["nodeSelector"] == {"amd.com/gpu.present": "yes"}
    assert CliRunner().invoke(app, ["agent", "--image", "x", "--node-label", "gpu"]).exit_code == 2


@pytest.mark.parametrize("image", ["", " ", "a b", "-x", "x\ny"])
def test_an_image_that_no_pod_can_have_is_refused(image: str):
    result = CliRunner().invoke(app, ["agent", "--image", image])

    assert result.exit_code == 2
    assert "wanted is an image" in " ".join(result.output.replace("│", " ").split())


def test_the_webhook_s_registrations_name_the_certificate_by_which_somebody_else_fills_in_the_ca():
    to = ("webhook", "--url", "https://host:9443")
    plain, injected = printed(*to), printed(*to, "--inject-ca-from", "kube-system/atoll-webhook")

    assert {each["metadata"].get("annotations") is None for each in plain} == {True}
    assert [each["metadata"]["annotations"] for each in injected] == [
        {"cert-manager.io/inject-ca-from": "kube-system/atoll-webhook"}
    ] * 2
    assert [each["webhooks"] for each in injected] == [each["webhooks"] for each in plain]


@pytest.mark.parametrize("given", ["atoll-webhook", "kube-system/", "/x", "a/b/c", "A/b", ""])
def test_a_certificate_that_is_not_named_with_its_namespace_is_refused(given: str):
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(
        app, ["webhook", "--url", "https://host:9443", "--inject-ca-from", given]
    )

    assert result.exit_code == 2
    assert "wanted is NAMESPACE/NAME of a Certificate" in result.output
