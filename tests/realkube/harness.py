"""A real control plane for one test module: etcd, kube-apiserver, kube-controller-manager and stock schedulers.

Everything listens on free loopback ports, keeps its files in one temporary folder and verifies TLS. There are
no kubelets: `fleet` makes the nodes. The controllers that would taint silent nodes are off unless asked for.

    with ControlPlane() as cluster:
        cluster.start_scheduler("stock")
        cluster.api.create("/api/v1/nodes", fleet.gpu_node("n1"))
"""

import contextlib
import json
import os
import random
import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import yaml

from tests.realkube.api import Api, ApiError, Json, wait_until
from tests.realkube.binaries import binary
from tests.realkube.credentials import Authority, kubeconfig, new_key, private_pem, public_pem
from tests.realkube.process import Piece

LOOPBACK = "127.0.0.1"
_WORKERS = 16
_SILENT_NODES_ARE_FINE = ["-node-lifecycle-controller", "-taint-eviction-controller"]
_RUNNING: list["ControlPlane"] = []
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # What a kubelet asks about its own callers: who may what, and whether he may.
        {
            "level": "RequestResponse",
            "resources": [{"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}],
        },
        {"level": "Metadata"},
    ],
}


class ControlPlane:
    """The pieces, the admin's access to them and the users a test makes. Use as a context manager."""

    def __init__(
        self,
        *,
        controllers: bool = True,
        node_lifecycle: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        audited: bool = False,
    ) -> None:
        """Prepare the folder and the authority; entering the context starts the programs.

        Args:
            controllers: start kube-controller-manager (service accounts, garbage collection, claims).
            node_lifecycle: keep the controllers that taint nodes without heartbeats; the test must then
                renew each node's Lease.
            feature_gates: switched on or off in the API server, and in the kubelets that join it.
            audited: have the API server write down in `audit_log` who asked for what.
        """
        # The owner is in the name, so that a folder left by a crash can be told from one in use.
        self.folder = Path(tempfile.mkdtemp(prefix=f"atoll-realkube-{os.getpid()}-"))
        self.authority = Authority("atoll-test-authority")
        self.server = f"https://{LOOPBACK}:{free_port()}"
        self.pieces: dict[str, Piece] = {}
        self.feature_gates = dict(feature_gates or {})
        self.audit_log = self.folder / "audit.log"
        self._audited = audited
        self._controllers = controllers
        self._node_lifecycle = node_lifecycle
        self._opened: list[Api] = []
        self._ports: dict[str, int] = {}
        self.kubeconfig = self.user("test-admin", ["system:masters"])
        self.api = self.connect(self.kubeconfig)

    def __enter__(self) -> Self:
        _RUNNING.append(self)
        try:
            self._start_etcd()
            self._start_apiserver()
            if self._controllers:
                self._start_controllers()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop everything, youngest first. The folder stays for the reader when the body failed."""
        for api in self._opened:
            api.close()
        for piece in reversed(self.pieces.values()):
            piece.kill()
        _RUNNING.remove(self)
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Access.

    def user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """Make a user with a client certificate; returns the path of its kubeconfig. It may do nothing yet."""
        text = kubeconfig(self.server, self.authority.cert, pair=self.authority.client(name, groups))
        return self._write_kubeconfig(name, text)

    def allow(self, user: str, rules: Sequence[Json], namespace: str = "") -> None:
        """Give a user RBAC rules, in one namespace or everywhere, and wait until they count."""
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        folder, kind = (f"{rbac}/namespaces/{namespace}/", "Role") if namespace else (f"{rbac}/", "ClusterRole")
        metadata = {"name": user}
        self.api.create(f"{folder}{kind.lower()}s", {"metadata": metadata, "rules": list(rules)})
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user}
        binding = {"metadata": metadata, "subjects": [subject], "roleRef": role}
        self.api.create(f"{folder}{kind.lower()}bindings", binding)
        last = rules[-1]
        asked = {"group": last["apiGroups"][0], "resource": last["resources"][0], "verb": last["verbs"][0]}
        review = {"spec": {"user": user, "resourceAttributes": {**asked, "namespace": namespace}}}
        wait_until(lambda: self._allows(review), f"{user} to be allowed {asked}")

    def apply(self, manifests: str) -> None:
        """Create or update every document of a YAML text, and wait until its CRDs are served."""
        for document in yaml.safe_load_all(manifests):
            if document is None:
                continue
            self.api.apply(document)
            if document["kind"] == "CustomResourceDefinition":
                name = document["metadata"]["name"]
                self.api.wait_for(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", _established)

    def service_account(self, name: str, namespace: str = "default", pod: Json | None = None) -> Path:
        """Make a service account with a token of one hour; returns the path of its kubeconfig."""
        text = kubeconfig(self.server, self.authority.cert, token=self.token(name, namespace, pod))
        holder = f"{namespace}-{name}" + (f"-{pod['metadata']['name']}" if pod else "")
        return self._write_kubeconfig(holder, text)

    def token(self, name: str, namespace: str, pod: Json | None = None) -> str:
        """Of a service account, which is made where it is missing; good for an hour.

        With a pod of that account, the token is bound to it as the one that a kubelet fetches, and names its node.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if self.api.find(f"{accounts}/{name}") is None:
            self.api.create(accounts, {"metadata": {"name": name}})
        spec: Json = {"expirationSeconds": 3600}
        if pod:
            metadata = pod["metadata"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            spec["boundObjectRef"] = bound
        made = self.api.create(f"{accounts}/{name}/token", {"spec": spec})
        return str(made["status"]["token"])

    def connect(self, path: Path) -> Api:
        """Open a client for a kubeconfig; it is closed with the control plane."""
        api = Api.from_kubeconfig(path)
        self._opened.append(api)
        return api

    # Schedulers and other programs.

    def start_scheduler(
        self, name: str, config: Json | None = None, *, wait: bool = True, elects: bool = False
    ) -> Piece:
        """Start a stock kube-scheduler with a KubeSchedulerConfiguration (default: `scheduler_config()`).

        Only access is filled in here, and that it leads at once unless it `elects` as its configuration says. `name`
        names the piece, not the schedulerName.
        """
        path = self._write_kubeconfig(
            name, kubeconfig(self.server, self.authority.cert, pair=self.authority.client("system:kube-scheduler"))
        )
        given = config or scheduler_config()
        connection = {**given.get("clientConnection", {}), "kubeconfig": str(path)}
        election = given["leaderElection"] if elects else {"leaderElect": False}
        whole = {**given, "clientConnection": connection, "leaderElection": election}
        settings = self.folder / f"{name}.json"
        settings.write_text(json.dumps(whole, indent=1))
        port = self._ports[name] = free_port()
        cert, key = self.authority.server([LOOPBACK]).write(self.folder, name)
        command = [
            *_kube("scheduler"),
            f"--config={settings}",
            *_serving(port, cert, key),
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics,/debug/*",
        ]
        piece = self.run(name, command)
        if wait:
            piece.wait_until(lambda: self._answers(name, "/readyz"))
        return piece

    def run(self, name: str, command: Sequence[str | Path]) -> Piece:
        """Start any program (Atoll itself) beside the control plane, with its log in the same folder."""
        piece = self.pieces[name] = Piece(name, command, self.folder / f"{name}.log")
        piece.start()
        return piece

    def metrics(self, name: str) -> str:
        """Return the /metrics of a scheduler by the name it was started with."""
        with self._anonymous(f"https://{LOOPBACK}:{self._ports[name]}") as api:
            return api.text("/metrics")

    def logs(self, lines: int = 40) -> str:
        """Return the end of every piece's log."""
        return "\n".join(piece.tail(lines) for piece in self.pieces.values())

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again over the same etcd, same port."""
        piece = self.pieces["kube-apiserver"]
        piece.kill()
        piece.start()
        piece.wait_until(self.answers)

    # Starting, in order.

    def _start_etcd(self) -> None:
        self._ports["etcd"] = free_port()
        address = f"http://{LOOPBACK}:{self._ports['etcd']}"
        command: list[str | Path] = [
            binary("etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={address}",
            f"--advertise-client-urls={address}",
            f"--listen-peer-urls=http://{LOOPBACK}:0",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        piece = self.run("etcd", command)
        piece.wait_until(lambda: _listens(self._ports["etcd"]))

    def _start_apiserver(self) -> None:
        cert, key = self.authority.server([LOOPBACK, "localhost", "kubernetes"]).write(self.folder, "apiserver")
        ca = self.folder / "ca.crt"
        ca.write_bytes(self.authority.cert)
        signing, checking = self.folder / "service-account.key", self.folder / "service-account.pub"
        tokens = new_key()
        signing.write_bytes(private_pem(tokens))
        checking.write_bytes(public_pem(tokens))
        command = [
            *_kube("apiserver"),
            f"--etcd-servers=http://{LOOPBACK}:{self._ports['etcd']}",
            *_serving(int(self.server.rpartition(":")[2]), cert, key),
            f"--client-ca-file={ca}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer={self.server}",
            f"--service-account-key-file={checking}",
            f"--service-account-signing-key-file={signing}",
            "--allow-privileged=true",
        ]
        if not self._node_lifecycle:
            # It taints new nodes and leaves it to the switched-off controller to lift the taint.
            command.append("--disable-admission-plugins=TaintNodesByCondition")
        if self.feature_gates:
            gates = (f"{name}={str(on).lower()}" for name, on in self.feature_gates.items())
            command.append(f"--feature-gates={','.join(gates)}")
        if self._audited:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(yaml.safe_dump(_AUDIT_POLICY))
            command += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        self.run("kube-apiserver", command).wait_until(self.answers)

    def _start_controllers(self) -> None:
        pair = self.authority.client("system:kube-controller-manager")
        path = self._write_kubeconfig("controllers", kubeconfig(self.server, self.authority.cert, pair=pair))
        off = [] if self._node_lifecycle else _SILENT_NODES_ARE_FINE
        command = [
            *_kube("controller-manager"),
            f"--kubeconfig={path}",
            f"--controllers={','.join(['*', *off])}",
            f"--service-account-private-key-file={self.folder / 'service-account.key'}",
            f"--root-ca-file={self.folder / 'ca.crt'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            f"--bind-address={LOOPBACK}",
            "--secure-port=0",
        ]
        # Pods are refused until their namespace has its default service account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.run("kube-controller-manager", command).wait_until(lambda: self.api.find(account) is not None)

    # Small pieces.

    def _write_kubeconfig(self, name: str, text: str) -> Path:
        path = self.folder / f"{name.replace(':', '-')}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _allows(self, review: Json) -> bool:
        answer = self.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def answers(self) -> bool:
        with contextlib.suppress(OSError, ApiError):
            return self.api.text("/readyz") == "ok"
        return False

    def _answers(self, name: str, path: str) -> bool:
        with contextlib.suppress(OSError, ApiError), self._anonymous(f"https://{LOOPBACK}:{self._ports[name]}") as api:
            return api.text(path) == "ok"
        return False

    def _anonymous(self, server: str) -> Api:
        return Api(server, ssl.create_default_context(cadata=self.authority.cert.decode()), timeout_s=5)


def scheduler_config(scheduler_name: str = "default-scheduler", **more: object) -> Json:
    """Return a plain KubeSchedulerConfiguration with one profile and the client limits out of the way."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 2000, "burst": 4000},
        "profiles": [{"schedulerName": scheduler_name}],
        **more,
    }


def free_port() -> int:
    """Return a loopback port that nobody listens on.

    It lies below the range the kernel gives to outgoing connections, so that none of the cluster's own can
    take it between this answer and its use; and no two workers of one test run share a port.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    while True:
        port = random.randrange(20000 + worker, 32000, _WORKERS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def running() -> Iterator[ControlPlane]:
    """Yield every control plane that is up, for the report of a failed test."""
    yield from _RUNNING


def _established(definition: Json) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _kube(component: str) -> list[str | Path]:
    return [binary("kube"), component]


def _serving(port: int, cert: Path, key: Path) -> list[str | Path]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
    ]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0
