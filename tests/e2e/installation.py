"""Atoll installed on a real control plane exactly as the README says, and the questions the end-to-end tests ask.

Two stock kube-schedulers run: the cluster's own, and a second one with our extender for GPU pods (the recommended
set-up). `atoll serve` runs as its own process with nothing but the printed roles. Nodes are described by nvidia-smi
text that our renderer writes from catalogue machines, published by `atoll topology publish`.
"""

import contextlib
import http.client
import itertools
import json
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from atoll.adapters.catalogue import load
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.core.delivery import PLACEMENT
from atoll.core.gpuset import positions
from atoll.core.id_list import id_mask
from atoll.core.topology import Device, NodeTopology
from tests.realkube import fleet
from tests.realkube.api import ApiError, Json, wait_until
from tests.realkube.harness import LOOPBACK, ControlPlane, free_port
from tests.realkube.process import Piece

SCHEDULER = "atoll-scheduler"
ATOLL = [sys.executable, "-m", "atoll"]
NAMESPACE = "kube-system"
ACCOUNT = "atoll"
KINDS = "/apis/atoll.dev/v1alpha1"
IN_FORCE = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_serial = itertools.count()


@dataclass(frozen=True)
class Box:
    """A node of the test: its name, what it is made of, and its islands as sets of UUIDs."""

    name: str
    topology: NodeTopology
    islands: tuple[frozenset[str], ...]

    @property
    def uuids(self) -> frozenset[str]:
        return frozenset().union(*self.islands)


class Installation:
    """Everything Atoll needs on one control plane."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        one_scheduler: bool = False,
        webhook: bool = False,
        gate: str = "",
        webhook_certificates: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Install on a control plane that is up.

        Args:
            plane: the control plane, without schedulers.
            one_scheduler: put our extender into the cluster's only scheduler instead of a second one.
            webhook: answer admission calls, too, and be registered for them; send pods to nodes where a rule says so.
            gate: behind which pods wait, as if a webhook had put them there.
            webhook_certificates: a folder in which somebody else keeps the webhook's, who brings the CA, too.
            variables: of the environment of every `atoll serve`.
        """
        self.plane, self.api = plane, plane.api
        self.certificates = plane.folder / "certificates"
        self.port = free_port()
        self.webhook_port = free_port() if webhook else 0
        self.gate = gate
        self.webhook_certificates, self._variables = webhook_certificates, dict(variables or {})
        self.replicas = itertools.count()
        plane.apply(atoll("manifests", "crds"))
        rbac = ["manifests", "rbac", "--namespace", NAMESPACE, "--service-account", ACCOUNT]
        more = (["--webhook"] if webhook else []) + (["--gate"] if webhook or gate else [])
        plane.apply(atoll(*rbac, *more))
        self.admission = atoll("manifests", "admission", "--namespace", NAMESPACE, "--service-account", ACCOUNT)
        plane.apply(self.admission)
        self.kubeconfig = plane.service_account(ACCOUNT, NAMESPACE)
        self.serve = self.start_serve()
        profile = "default-scheduler" if one_scheduler else SCHEDULER
        if not one_scheduler:
            self.stock = plane.start_scheduler("stock")
        self.scheduler = plane.start_scheduler("gpu-scheduler", self.scheduler_config(profile))
        self.profile = profile
        if webhook:
            to = ["--url", f"https://{LOOPBACK}:{self.webhook_port}"]
            injected = ["--inject-ca-from", f"{NAMESPACE}/atoll-webhook"] if webhook_certificates else []
            plane.apply(atoll("manifests", "webhook", *to, *injected))
        self.by_policy = False
        self.delivery = ""

    def scheduler_config(self, scheduler_name: str = SCHEDULER) -> Json:
        """What `atoll manifests scheduler-config` prints, with the client limits of a test cluster."""
        text = atoll(
            *("manifests", "scheduler-config", "--extender-url", f"https://{LOOPBACK}:{self.port}"),
            *("--cert-dir", str(self.certificates)),
        )
        config: Json = yaml.safe_load(text)
        config["profiles"][0]["schedulerName"] = scheduler_name
        config["clientConnection"] = {**config.get("clientConnection", {}), "qps": 2000, "burst": 4000}
        return config

    def start_serve(
        self, *, port: int | None = None, webhook_port: int = 0, fault: str = "", wait: bool = True, **variables: str
    ) -> Piece:
        """Start one more `atoll serve`; on the extender's and the webhook's own ports unless told otherwise.

        Args: variables: of its environment.
        """
        listen = f"{LOOPBACK}:{port or self.port}"
        command: list[str | Path] = [*ATOLL, "serve", "--kubeconfig", self.kubeconfig, "--listen", listen]
        command += ["--cert-dir", self.certificates, "--namespace", NAMESPACE]
        if self.webhook_port:
            command += [
                "--webhook",
                f"{LOOPBACK}:{webhook_port or self.webhook_port}",
                "--webhook-scheduler",
                SCHEDULER,
            ]
            command += ["--webhook-cert-dir", self.webhook_certificates] if self.webhook_certificates else []
        command += ["--gate"] if self.webhook_port or self.gate else []
        variables = {**self._variables, **variables} | ({"ATOLL_FAULT": fault} if fault else {})
        command = ["env", *(f"{name}={value}" for name, value in variables.items()), *command]
        piece = self.plane.run(f"serve-{next(self.replicas)}", command)
        if wait:
            piece.wait_until(lambda: self.ready(port))
        return piece

    def ready(self, port: int | None = None) -> bool:
        """Whether a replica's /readyz says so; it needs no client certificate."""
        return _status(f"https://{LOOPBACK}:{port or self.port}/readyz", self.certificates / "ca.crt") == "200"

    def metrics(self) -> str:
        """The service's /metrics, asked for with the scheduler's certificate."""
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
        pair = (self.certificates / f"scheduler-client.{end}" for end in ("crt", "key"))
        context.load_cert_chain(*pair)
        connection = http.client.HTTPSConnection(LOOPBACK, self.port, timeout=5, context=context)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()

    @contextlib.contextmanager
    def without_admission(self) -> Iterator[None]:
        """A cluster where nobody applied the admission policies, for what must hold there, too."""
        for each in yaml.safe_load_all(self.admission):
            if each["kind"] == "ValidatingAdmissionPolicyBinding":
                self.api.delete(f"{IN_FORCE}/{each['metadata']['name']}")
        wait_until(lambda: self._refused_forgeries() == 0, "the admission policies to be out of force")
        yield
        self.plane.apply(self.admission)
        wait_until(lambda: self._refused_forgeries() == 2, "the admission policies to be in force again")

    def _refused_forgeries(self) -> int:
        """How many of two writes that are Atoll's alone are refused to an administrator; nothing is kept of them."""
        spec = {"version": 1, "nodeUID": "u", "digest": "d", "grants": []}
        head = {"apiVersion": "atoll.dev/v1alpha1", "kind": "GPULedger", "metadata": {"name": "forged"}}
        pod = fleet.gpu_pod("forged", annotations={"atoll.dev/allocation": "{}"})
        refused = 0
        for path, body in ((f"{KINDS}/gpuledgers", {**head, "spec": spec}), (fleet.pods_in(), pod)):
            try:
                self.api.create(f"{path}?dryRun=All", body)
            except ApiError:
                refused += 1
        return refused

    # Nodes.

    def box(
        self, machine: str, *, published: bool = True, labels: Mapping[str, str] | None = None, name: str = ""
    ) -> Box:
        """Make a node from a catalogue machine and publish its inventory from nvidia-smi text."""
        name = name or f"{machine}-{next(_serial)}".replace("_", "-").lower()
        topology = load(machine, name)
        fleet.create_nodes(self.api, [fleet.gpu_node(name, len(topology.devices), labels=labels)])
        if published:
            self.publish(name, topology)
        return Box(name, topology, islands_of(topology))

    def publish(self, node: str, topology: NodeTopology) -> None:
        """Publish with the printed command, from the files that an administrator would have saved."""
        files = dump_files(topology, self.plane.folder / "dumps" / f"{node}-{next(_serial)}")
        admin = ["--kubeconfig", str(self.plane.kubeconfig)]
        atoll("topology", "publish", *admin, "--node", node, *map(str, files))

    def configure(self, name: str, nodes: Iterable[str], **spec: object) -> None:
        """Write a `GPUNodeConfig`; enforce unless the spec says otherwise."""
        body = {"nodeNames": list(nodes), "enforcement": "enforce", **spec}
        self.api.apply(
            {
                "apiVersion": "atoll.dev/v1alpha1",
                "kind": "GPUNodeConfig",
                "metadata": {"name": name},
                "spec": body,
            }
        )

    def remove_box(self, box: Box) -> None:
        for path in (f"{fleet.NODES}/{box.name}", f"{KINDS}/gpunodes/{box.name}", f"{KINDS}/gpuledgers/{box.name}"):
            if self.api.find(path) is not None:
                self.api.delete(path)

    # Pods and what became of them.

    def pod(self, name: str, gpus: int | Sequence[int], on: Iterable[Box] = (), **more: object) -> Json:
        """Create a pod for our scheduler that may go to the given boxes only (all, when none is given).

        While `by_policy`, what its annotations would say is said by a policy instead; and how it is delivered, where
        that is set, in which case the webhook says which scheduler binds it.
        """
        spec: dict[str, object] = dict(more)
        if self.by_policy and ("annotations" in spec or self.delivery):
            spec["labels"] = {"case": self._rule_for(spec.pop("annotations", {}))}
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [box.name]}]} for box in on]
        if terms:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        if self.gate:
            spec["schedulingGates"] = [{"name": self.gate}]
        spec.setdefault("scheduler", "default-scheduler" if self.by_others else self.profile)
        if self.delivery:
            self._until_gated(fleet.gpu_pod(name, gpus, **spec))  # type: ignore[arg-type]
        made = fleet.create_pods(self.api, [fleet.gpu_pod(name, gpus, **spec)])  # type: ignore[arg-type]
        return made[0]

    @property
    def by_others(self) -> bool:
        """Whether the pods name no scheduler of ours."""
        return bool(self.delivery) or self.gate == PLACEMENT

    def _until_gated(self, pod: Json) -> None:
        """Wait until the webhook knows that it should hold such a pod: a pool is enforced, and its rule is known."""
        made = f"{fleet.pods_in()}?dryRun=All"
        wait_until(lambda: "schedulingGates" in self.api.create(made, pod)["spec"], "the webhook to hold pods")

    def waits_for_any(self, name: str) -> None:
        """The pod waits since there are too few GPUs, by whoever says so first."""
        if self.delivery:
            self.waits_with(name, "InsufficientGPUs")
        else:  # the count alone does not fit, so the scheduler itself refuses, and Atoll is never asked
            assert "Insufficient nvidia.com/gpu" in fleet.wait_refused(self.api, name)

    def _rule_for(self, annotations: object) -> str:
        """The name of a policy that says the same of every pod with the label case=NAME, and is in force."""
        assert isinstance(annotations, dict)
        asked = {key.removeprefix("atoll.dev/"): value for key, value in annotations.items()}
        said = {"policy": asked.pop("policy", None), "scope": asked.pop("scope", "").split(",")}
        assert not asked, f"no rule is made of {asked}"
        said["delivery"] = self.delivery or None
        words = [said["policy"], *said["scope"], said["delivery"]]
        name = "-".join(["case", *(str(each).lower() for each in words if each)])
        rule = {
            "name": "all",
            "match": {"podSelector": {"matchLabels": {"case": name}}},
            "set": {key: value for key, value in said.items() if value not in (None, [""])},
        }
        head = {"apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": name}}
        self.api.apply({**head, "spec": {"rules": [rule]}})
        self.api.wait_for(f"{KINDS}/placementpolicies/{name}", lambda each: bool(each.get("status", {}).get("inForce")))
        return name

    def bound(self, name: str, timeout_s: float = 30) -> tuple[str, frozenset[str]]:
        """Wait until the pod is bound; its node and the UUIDs that the ledger gave it."""
        pod = fleet.wait_bound(self.api, name, timeout_s=timeout_s)
        node = pod["spec"]["nodeName"]
        grant = self.grant(node, pod["metadata"]["uid"])
        assert grant is not None, f"{name} is bound to {node} without a grant"
        return node, uuids_of(grant)

    def grant(self, node: str, uid: str) -> Json | None:
        return next((grant for grant in self.grants(node) if grant["owner"]["uid"] == uid), None)

    def grants(self, node: str) -> list[Json]:
        ledger = self.api.find(f"{KINDS}/gpuledgers/{node}")
        return [json.loads(entry["record"]) for entry in ledger["spec"]["grants"]] if ledger else []

    def allocation(self, name: str) -> Json:
        """The answer that the pod carries for people."""
        pod = self.api.get(f"{fleet.pods_in()}/{name}")
        answer: Json = json.loads(pod["metadata"]["annotations"]["atoll.dev/allocation"])
        return answer

    def waits_with(self, name: str, *codes: str, timeout_s: float = 20) -> str:
        """Wait until the pod's Placed condition is False with one of these reasons; its message. It must be unbound."""

        def told(pod: Json) -> bool:
            return placed(pod).get("reason") in codes

        pod = self.api.wait_for(f"{fleet.pods_in()}/{name}", told, timeout_s)
        assert "nodeName" not in pod["spec"], f"{name} was bound to {pod['spec'].get('nodeName')}"
        return str(placed(pod)["message"])

    def settle(self, boxes: Iterable[Box], timeout_s: float = 30) -> None:
        """Wait until the ledgers name exactly the pods that are there, and check the books against the pods."""
        names = [box.name for box in boxes]

        def clean() -> bool:
            live = {pod["metadata"]["uid"] for pod in self.api.items(fleet.pods_in())}
            return all(grant["owner"]["uid"] in live for name in names for grant in self.grants(name))

        wait_until(clean, "the ledgers to forget pods that are gone", timeout_s)
        self.check_books(names)

    def nodes_by_owner(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        """UID -> the nodes whose ledgers name it; no ledger gives a UUID twice."""
        by_owner: dict[str, list[str]] = {}
        for node in nodes:
            held: set[str] = set()
            for grant in self.grants(node):
                uuids = uuids_of(grant)
                assert not held & uuids, f"{node} gives {held & uuids} twice"
                held |= uuids
                by_owner.setdefault(grant["owner"]["uid"], []).append(node)
        return by_owner

    def check_books(self, nodes: Iterable[str]) -> None:
        """No UUID twice, and every bound pod of our scheduler has a grant on its own node and nowhere else."""
        # Whoever is bound has been granted before: the pods are asked first, others may be bound meanwhile.
        pods, nodes = self.api.items(fleet.pods_in()), list(nodes)
        by_owner = self.nodes_by_owner(nodes)
        for pod in pods:
            node = pod["spec"].get("nodeName")
            ours = pod["spec"]["schedulerName"] == ("default-scheduler" if self.gate == PLACEMENT else self.profile)
            ours = ours or "case" in pod["metadata"].get("labels", {})
            if node in nodes and ours:
                assert by_owner.get(pod["metadata"]["uid"]) == [node], (
                    f"{pod['metadata']['name']} on {node}: {by_owner}"
                )


def placed(pod: Json) -> Json:
    """The pod's `atoll.dev/Placed` condition, empty when it has none."""
    conditions = pod.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "atoll.dev/Placed"), {})


def uuids_of(grant: Json) -> frozenset[str]:
    return frozenset(part["uuid"] for container in grant["containers"] for part in container.get("parts", ()))


def islands_of(topology: NodeTopology) -> tuple[frozenset[str], ...]:
    """The NUMA islands, straight from the machine's own facts."""
    groups: dict[int | None, set[str]] = {}
    for device in topology.devices:
        groups.setdefault(device.numa, set()).add(str(device.uuid))
    return tuple(frozenset(group) for group in groups.values())


def dump_files(topology: NodeTopology, folder: Path) -> list[Path]:
    """The files that `nvidia-smi topo -m`, `topo -mp`, `-L` and `lscpu` would have left."""
    folder.mkdir(parents=True)
    texts = {
        "topo-m.txt": render_matrix(topology),
        "topo-mp.txt": render_matrix(topology, pcie=True),
        "gpu-list.txt": render_list(topology),
    }
    if all(device.socket is not None for device in topology.devices):
        texts["lscpu-p.txt"] = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n" + "".join(
            f"{cpu},{cpu},{device.socket},{device.numa},,{cpu},{cpu},{cpu},{device.socket}\n"
            for cpu, device in sorted(_cpus(topology).items())
        )
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def _cpus(topology: NodeTopology) -> dict[int, Device]:
    """Each CPU with a GPU that it is local to."""
    return {cpu: device for device in topology.devices for cpu in positions(id_mask(device.cpu_affinity) or 0)}


def atoll(*arguments: str) -> str:
    """Run the program; what it prints."""
    done = subprocess.run([*ATOLL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"atoll {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def _status(url: str, ca: Path) -> str:
    """The status of a GET without a client certificate; "" when nobody answers."""
    where = urlsplit(url)
    try:
        context = ssl.create_default_context(cafile=str(ca))
    except OSError:
        return ""  # not made yet
    connection = http.client.HTTPSConnection(str(where.hostname), where.port, timeout=2, context=context)
    with contextlib.closing(connection):
        try:
            connection.request("GET", where.path)
            return str(connection.getresponse().status)
        except (OSError, http.client.HTTPException):
            return ""
