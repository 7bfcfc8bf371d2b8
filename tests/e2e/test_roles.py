"""The printed roles, held against what the API server was asked for: nothing is refused, and no verb is there in vain.

One scenario in which every part of Atoll does everything that it has a verb for, each with its printed role and nothing
else. Then the API server's own audit log is read.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import audit_log
from tests.e2e.commanded_site import CommandedSite
from tests.e2e.installation import ATOLL, KINDS, SCHEDULER, Box, atoll, dump_files
from tests.e2e.observed_site import NVLINKS, PCIE, RESTRICTED
from tests.e2e.test_faults import stopped
from tests.e2e.test_policies import declare, policy, rule
from tests.e2e.test_violations import split
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane, free_port
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_agent import PLUGIN_IMAGE, RealAgent, gpu_uuid
from tests.realkube.real_node import FEATURES, RealNode
from tests.realkube.real_shim import RealShim

pytestmark = [pytest.mark.e2e, needs_mounts]

OBSERVED, COMMANDED = "n-observed", "n-commanded"
PRINTED = (
    ("rbac", "--webhook", "--gate"),
    ("agent-rbac",),
    ("shim-rbac",),
    ("audit-rbac", "--probe", "default"),
)
PUBLISHER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "publisher"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "atoll-publisher"},
    "subjects": [{"kind": "ServiceAccount", "name": "publisher", "namespace": "default"}],
}
"""The role for people and pipelines is bound to nobody as it is printed."""

PLUGIN = {
    "metadata": {"name": "nvidia-device-plugin"},
    "spec": {
        "selector": {"matchLabels": {"app": "plugin"}},
        "template": {
            "metadata": {"labels": {"app": "plugin"}},
            "spec": {
                "nodeSelector": {"no": "node"},
                "containers": [{"name": "nvidia-device-plugin-ctr", "image": f"{PLUGIN_IMAGE}:v0.17.1"}],
                "volumes": [{"name": "config", "configMap": {"name": "plugin"}}],
            },
        },
    },
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Everything(CommandedSite):
    """An installation in which everybody works, and what is done there."""

    def __init__(self, plane: ControlPlane, nodes: dict[str, RealNode]) -> None:
        super().__init__(plane, nodes, webhook=True)
        self.roles = [*audit_log.objects_of(*(atoll("manifests", *words) for words in PRINTED)), PUBLISHER]
        for each in self.roles:
            plane.api.apply(each)
        self.publisher = plane.service_account("publisher")
        self.auditor = plane.service_account("atoll-audit", "kube-system")
        account = plane.connect(self.publisher)
        wait_until(lambda: fleet.allowed(lambda: account.find(f"{fleet.NODES}/{OBSERVED}")), "the roles to be in force")

    # What is not used yet, and what was refused.

    def unused(self) -> dict[audit_log.Use, set[str]]:
        used = {each.use for each in audit_log.asked(self.atoll.plane.audit_log)}
        return {use: roles for use, roles in audit_log.allowed(self.roles).items() if use not in used}

    def refused(self) -> list[audit_log.Asked]:
        users = {use.user for use in audit_log.allowed(self.roles)}
        return [each for each in audit_log.asked(self.atoll.plane.audit_log) if each.refused and each.use.user in users]

    # The scenario.

    def publishes(self) -> Box:
        """An inventory is written twice, by whoever publishes; a pod that waits for it is woken, as none but us can."""
        box = self.atoll.box("l40s-2x4", published=False)
        self.atoll.configure("pool", [box.name])
        self.atoll.pod("early", 4, [box], annotations=RESTRICTED)
        self.atoll.waits_with("early", "TopologyUnknown")
        for name in ("first", "again"):
            files = dump_files(box.topology, self.atoll.plane.folder / name)
            atoll("topology", "publish", "--kubeconfig", str(self.publisher), "--node", box.name, *map(str, files))
        self.atoll.bound("early")
        fleet.remove(self.atoll.api, "early")
        return box

    def schedules(self, box: Box) -> None:
        """A rule is said to hold, pods are filled in and bound, one waits and is woken when a GPU is freed."""
        declare(self.atoll, "training", rule(policy="Restricted"))
        fails = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/atoll"
        self.atoll.api.wait_for(fails, lambda each: "Fail" in {one["failurePolicy"] for one in each["webhooks"]}, 60)
        for name in ("a", "b"):
            self.atoll.pod(name, 3, [box], annotations=RESTRICTED)
            self.atoll.bound(name)
        self.atoll.pod("waits", 2, [box], annotations=RESTRICTED)
        self.atoll.waits_with("waits", "Fragmented")
        fleet.remove(self.atoll.api, "b")
        self.atoll.bound("waits")

    def meets_another_writer(self, box: Box) -> None:
        """Somebody changes a ledger while a grant is written into it: it is read again."""
        self.atoll.serve.kill()
        fleet.remove(self.atoll.api, "a")
        self.atoll.serve = serve = self.atoll.start_serve(fault="before-grant:stop")
        self.atoll.pod("late", 3, [box], annotations=RESTRICTED)
        wait_until(lambda: stopped(serve), "a grant to be under way", 60)
        self.atoll.api.patch(f"{KINDS}/gpuledgers/{box.name}", {"metadata": {"labels": {"seen": "by-a-person"}}})
        serve.thaw()
        self.atoll.bound("late", 60)

    def comes_back_after_pods_have_gone(self, box: Box) -> None:
        """Whoever was granted GPUs and is not listed any more is asked about by name."""
        self.atoll.serve.kill()
        fleet.remove_all(self.atoll.api)
        self.atoll.serve = self.atoll.start_serve()
        self.atoll.settle([box])

    def hands_over(self) -> None:
        """The leader ends, and another one leads."""
        before = self._leader()
        second = self.atoll.start_serve(port=(port := free_port()), webhook_port=free_port(), wait=False)
        second.wait_until(lambda: self.atoll.ready(port))
        self.atoll.serve.terminate(10)
        wait_until(lambda: self._leader() not in {before, ""}, "another one to lead", 60)
        second.terminate(10)
        self.atoll.serve = self.atoll.start_serve()

    def runs_on_real_nodes(self) -> None:
        """Agents tell of both, the shim answers, and one node does what nobody foresaw."""
        self.atoll.configure("observed", [OBSERVED], mode="observe", onViolation="evict")
        self.atoll.configure("commanded", [COMMANDED], mode="command", hints="strip")
        # One of them finds what was told of a Node that had its name before.
        left = {"apiVersion": "atoll.dev/v1alpha1", "kind": "GPUNode", "metadata": {"name": COMMANDED}}
        self.atoll.api.create(f"{KINDS}/gpunodes", left)
        self.shims[COMMANDED] = shim = RealShim(self.nodes[COMMANDED])
        shim.prepare()
        shim.start()
        for name, node in self.nodes.items():
            self.agents[name] = agent = RealAgent(node)
            agent.prepare()
            if name == COMMANDED:
                node.plugin.start()
                node.plugin.follow()
                node.until_offered()
            agent.start()
        for name in self.nodes:
            wait_until(lambda name=name: self.told(name), f"{name} to be told of", 60)  # type: ignore[misc]
        wait_until(self.open, "every node to be open", 60, self.atoll.metrics)
        self.atoll.pod("commanded", 4, [self.boxes[COMMANDED]], annotations=RESTRICTED)
        self.running("commanded", 60)

    def is_audited(self) -> None:
        """By lists, by a device plugin's ConfigMap, and by pods that are made for it."""
        config = {"metadata": {"name": "plugin"}, "data": {"config.yaml": "version: v1\n"}}
        self.atoll.api.create("/api/v1/namespaces/kube-system/configmaps", config)
        self.atoll.api.create("/apis/apps/v1/namespaces/kube-system/daemonsets", PLUGIN)
        words = ["--kubeconfig", str(self.auditor)]
        ran("audit", *words, "-o", "json")
        node = f"{fleet.NODES}/{OBSERVED}"
        self.atoll.api.patch(node, {"spec": {"unschedulable": True}})
        ran("audit", "probe", OBSERVED, *words, "--yes", "--size", "8")
        self.atoll.api.patch(node, {"spec": {"unschedulable": None}})

    def is_explained(self) -> None:
        file = self.atoll.plane.folder / "policy.json"
        file.write_text(json.dumps(policy("other", rule(policy="Preferred"))))
        words = ["--kubeconfig", str(self.atoll.kubeconfig)]
        atoll("explain", "commanded", *words)
        atoll("plan", "--policy", str(file), *words)

    def evicts(self) -> None:
        """The device plugin gives what nobody foresaw."""
        wait_until(lambda: not self.held(OBSERVED), "the probe's pods to be gone", 60)
        self.nodes[OBSERVED].plugin.preferred = split
        self.atoll.pod("rogue", 2, [self.boxes[OBSERVED]], annotations=RESTRICTED)
        path = f"{fleet.pods_in()}/rogue"
        wait_until(lambda: self.atoll.api.find(path) is None, "it to be evicted", 60)

    def elects_a_scheduler(self) -> None:
        config = {**self.atoll.scheduler_config("elected")}
        self.atoll.plane.start_scheduler("elected", config, elects=True)
        self.atoll.api.wait_for(f"{LEASES}/{SCHEDULER}", lambda each: bool(each["spec"].get("holderIdentity")))

    def _leader(self) -> str:
        return str(self.atoll.api.get(f"{LEASES}/atoll")["spec"].get("holderIdentity") or "")


def ran(*words: str) -> None:
    """A verb that may find something and says so by its exit code."""
    done = subprocess.run([*ATOLL, *words], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout, done.stderr


@pytest.fixture(scope="module")
def done() -> Iterator[Everything]:
    """The scenario, after it has been played."""
    with ControlPlane(feature_gates=FEATURES, audited=True) as plane, GpuAllocator() as allocator:
        nodes = {}
        for number, (name, folder) in enumerate({OBSERVED: None, COMMANDED: Path("private")}.items()):
            gpus = [Gpu(gpu_uuid(number, n), n // 4) for n in range(8)]
            private = plane.folder / name / folder if folder else None
            nodes[name] = node = RealNode(
                plane, name, gpus, PCIE, NVLINKS, allocator, plugin_folder=private, guarded=True
            )
            node.start()
        all_of_it = Everything(plane, nodes)
        box = all_of_it.publishes()
        all_of_it.schedules(box)
        all_of_it.meets_another_writer(box)
        all_of_it.comes_back_after_pods_have_gone(box)
        all_of_it.hands_over()
        all_of_it.elects_a_scheduler()
        all_of_it.runs_on_real_nodes()
        all_of_it.is_audited()
        all_of_it.is_explained()
        all_of_it.evicts()
        yield all_of_it
        for node in nodes.values():
            node.stop()


def test_nothing_that_any_part_asks_for_is_refused(done: Everything) -> None:
    assert [f"{each.use.user}: {each.use.verb} {each.use.what}: {each.refused}" for each in done.refused()] == []


def test_every_verb_of_every_printed_role_is_used(done: Everything) -> None:
    wait_until(lambda: not done.unused(), "every verb to be used", 10, lambda: "\n" + audit_log.table(done.unused()))
