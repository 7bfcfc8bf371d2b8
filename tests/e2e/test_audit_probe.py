"""`atoll audit probe` on real kubelets: what its pods got is what their containers see and what was foreseen."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from atoll.adapters.kube import manifests
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import access_from
from atoll.adapters.kube.probe_pods import LABEL, KubeProbeApi
from tests.contract import probe_api
from tests.e2e.installation import ATOLL, atoll
from tests.e2e.observed_site import Site, observed_site
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

NODES = ("n-none", "n-restricted")
NODE = "n-none"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with observed_site(["none", "restricted"]) as whole:
        for name in NODES:
            cordon(whole, name)
        yield whole


@pytest.fixture(scope="module")
def prober(site: Site) -> Path:
    """The service account that `atoll manifests audit-rbac --probe` prints, and nothing more."""
    plane = site.atoll.plane
    plane.apply(atoll("manifests", "audit-rbac", "--probe", "default"))
    path = plane.service_account(manifests.AUDIT_ACCOUNT, manifests.NAMESPACE)
    account = plane.connect(path)
    wait_until(lambda: fleet.allowed(lambda: account.items(fleet.pods_in())), "the prober's rights to be in force")
    return path


@pytest.fixture(autouse=True)
def empty(site: Site) -> Iterator[None]:
    yield
    fleet.remove_all(site.atoll.api)
    for name in NODES:
        cordon(site, name)
        wait_until(lambda name=name: not site.held(name), f"{name} to be idle", 60)  # type: ignore[misc]


def cordon(site: Site, name: str, *, closed: bool = True) -> None:
    site.atoll.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}})


def words(prober: Path, node: str, *more: str) -> list[str]:
    return [*map(str, ATOLL), "audit", "probe", node, "--kubeconfig", str(prober), "--yes", *more]


def ran(prober: Path, node: str, *more: str) -> tuple[int, str, str]:
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        words(prober, node, *more), capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def probes(site: Site) -> list[Json]:
    return [pod for pod in site.atoll.api.items(fleet.pods_in()) if LABEL in (pod["metadata"].get("labels") or {})]


@pytest.mark.parametrize("node", NODES)
def test_every_pod_got_what_was_foreseen_and_the_node_is_as_it_was(site: Site, prober: Path, node: str) -> None:
    code, out, err = ran(prober, node, "-o", "json")

    assert code == 0, err
    report = json.loads(out)
    assert [(pod["gpus"], pod["nth"]) for pod in report["pods"]] == [
        *((2, n) for n in range(1, 5)),
        *((4, n) for n in range(1, 3)),
        (8, 1),
    ]
    assert [pod["foreseen"] for pod in report["pods"]] == [True] * 7
    assert all(len(pod["uuids"]) == pod["gpus"] for pod in report["pods"])
    for size in (2, 4, 8):
        got = [uuid for pod in report["pods"] if pod["gpus"] == size for uuid in pod["uuids"]]
        assert sorted(got) == sorted(site.boxes[node].uuids)
    assert probes(site) == []


def test_a_person_reads_which_gpus_each_pod_got(prober: Path) -> None:
    code, out, err = ran(prober, NODE, "--size", "8", "-o", "wide")

    assert code == 0, err
    assert "0 1 2 3 4 5 6 7" in out
    assert "Every pod got what was foreseen. None is split." in out
    assert "GPU-00000000-" in out


def test_a_node_that_is_open_to_other_pods_is_refused(site: Site, prober: Path) -> None:
    cordon(site, NODE, closed=False)

    code, _, err = ran(prober, NODE)

    assert code == 1
    assert f"kubectl cordon {NODE}" in err
    assert probes(site) == []


def test_a_node_where_somebody_holds_gpus_is_refused_by_his_name(site: Site, prober: Path) -> None:
    fleet.create_pods(site.atoll.api, [fleet.gpu_pod("tenant", 1, nodeName=NODE)])
    site.running("tenant")

    code, _, err = ran(prober, NODE)

    assert code == 1
    assert "default/tenant holds 1" in err
    assert probes(site) == []


@pytest.mark.parametrize(
    ("node", "more", "said"),
    [("nowhere", (), "there is no node nowhere"), (NODE, ("--size", "9"), "offers 8 GPUs")],
    ids=["a node that is not there", "more GPUs than there are"],
)
def test_what_cannot_be_probed_is_refused(prober: Path, node: str, more: tuple[str, ...], said: str) -> None:
    code, _, err = ran(prober, node, *more)

    assert code in (1, 2)
    assert said in " ".join(err.replace("│", " ").split())


def test_without_the_right_to_make_pods_the_probe_says_so_and_ends(site: Site, prober: Path) -> None:
    plane = site.atoll.plane
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/atoll-audit-probe"
    plane.api.patch(role, {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]})
    account = plane.connect(prober)
    made = lambda: account.create(f"{fleet.pods_in()}?dryRun=All", fleet.gpu_pod("none", 1))  # noqa: E731
    wait_until(lambda: not fleet.allowed(made), "the prober to have lost a right")

    code, _, err = ran(prober, NODE)

    plane.apply(atoll("manifests", "audit-rbac", "--probe", "default"))
    wait_until(lambda: fleet.allowed(made), "the prober to have it again")
    assert code == 1
    assert "refused the pod: 403" in err
    assert "atoll manifests audit-rbac --probe default" in err


def test_on_ctrl_c_it_takes_its_pods_away(site: Site, prober: Path) -> None:
    # Whoever runs the tests may ignore the signal, as their workers do, and children take that over.
    command = ["env", "--default-signal=INT", *words(prober, NODE, "--size", "1")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: bool(probes(site)), "a pod of the probe")

    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)

    assert running.returncode != 0
    assert b"Traceback" not in err
    assert probes(site) == []


def test_what_a_killed_probe_left_is_taken_away_by_the_next(site: Site, prober: Path) -> None:
    running = subprocess.Popen(words(prober, NODE, "--size", "1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: bool(probes(site)), "a pod of the probe")
    running.kill()
    running.communicate()

    code, out, err = ran(prober, NODE, "--size", "8", "-o", "json")

    assert code == 0, err
    assert [pod["foreseen"] for pod in json.loads(out)["pods"]] == [True]
    assert probes(site) == []


class RealOutside:
    def __init__(self, api: KubeProbeApi, uuids: frozenset[str]) -> None:
        self.api, self.uuids = api, uuids


@contextlib.asynccontextmanager
async def outside(site: Site, prober: Path) -> AsyncIterator[RealOutside]:
    async with KubeClient(access_from(prober)) as client:
        yield RealOutside(KubeProbeApi(client, NODE, "default", "nvidia.com/gpu"), site.boxes[NODE].uuids)


@pytest.mark.parametrize("sentence", probe_api.sentence.bodies, ids=probe_api.sentence.names)
def test_the_real_adapter_keeps_the_contract(site: Site, prober: Path, sentence: probe_api.Sentence) -> None:
    async def kept() -> None:
        async with outside(site, prober) as real:
            await sentence(real)

    asyncio.run(kept())
