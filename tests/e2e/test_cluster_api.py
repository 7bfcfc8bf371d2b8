"""The real adapter on a real API server, as a service account with exactly the printed roles."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from atoll.adapters.kube import manifests, names, wire_policy
from atoll.adapters.kube.api import KubeClusterApi
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.codec_policy import policy_of
from atoll.adapters.kube.credentials import access_from
from atoll.adapters.kube.lease import leadership
from atoll.core.effects import SetPlaced
from atoll.core.events import LeadershipChanged
from atoll.core.facts import NodeFacts, PodFacts
from atoll.core.placement_policy import PolicyObject
from atoll.core.request import ContainerAsk, PodAsk
from tests.contract import cluster_api
from tests.realkube import fleet
from tests.realkube.api import Api, ApiError, wait_until
from tests.realkube.harness import LOOPBACK, ControlPlane

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        plane.apply(manifests.yaml_of(manifests.rbac()))
        wait_for_roles(plane)
        yield plane


def wait_for_roles(plane: ControlPlane) -> None:
    account = plane.connect(plane.service_account(manifests.SERVICE_ACCOUNT, manifests.NAMESPACE))
    wait_until(lambda: _may_list(account), "the printed roles to be in force")


def _may_list(account: Api) -> bool:
    with contextlib.suppress(ApiError):
        return account.items(names.GPU_LEDGERS) == []
    return False


class CutLine:
    """A TCP forwarder between client and API server that can be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._forward, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server:
            self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._to)
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            writer.close()  # nobody pumps into it while the far end is down

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            self._open.discard(writer)
            writer.close()


class RealOutside:
    def __init__(self, plane: ControlPlane, client: KubeClient, line: CutLine) -> None:
        self.client, self.api = client, KubeClusterApi(client)
        self._plane, self._admin, self._line = plane, plane.api, line

    async def create_node(self, name: str, gpus: int) -> NodeFacts:
        node = self._admin.create(fleet.NODES, fleet.gpu_node(name, gpus))
        labels = tuple(sorted(node["metadata"]["labels"].items()))
        return NodeFacts(name, node["metadata"]["uid"], gpus, gpus, labels)

    async def delete_node(self, name: str) -> None:
        self._admin.delete(f"{fleet.NODES}/{name}")

    async def create_pod(self, name: str, gpus: int, *, gated: bool = False) -> PodFacts:
        more = {"schedulingGates": [{"name": "test.example/gate"}]} if gated else {}
        pod = self._admin.create(fleet.pods_in(), fleet.gpu_pod(name, gpus, scheduler="nobody", **more))
        metadata = pod["metadata"]
        return PodFacts(
            uid=metadata["uid"],
            namespace="default",
            name=name,
            version=metadata["resourceVersion"],
            ask=PodAsk((ContainerAsk("c0", gpus),), {}),
            gates=("test.example/gate",) if gated else (),
            scheduler="nobody",
            created=metadata["creationTimestamp"],
        )

    async def delete_pod(self, pod: PodFacts) -> None:
        self._admin.delete(f"{fleet.pods_in()}/{pod.name}", grace_s=0)

    async def edit_pod(self, pod: PodFacts) -> PodFacts:
        patch = {"metadata": {"annotations": {"example.com/note": "edited"}}}
        edited = self._admin.patch(f"{fleet.pods_in()}/{pod.name}", patch)
        return cluster_api.replace(pod, version=edited["metadata"]["resourceVersion"])

    async def delete_ledger(self, node: str) -> None:
        self._admin.delete(f"{names.GPU_LEDGERS}/{node}")

    async def create_policy(self, name: str) -> PolicyObject:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "PlacementPolicy",
            "metadata": {"name": name},
            "spec": {"rules": [{"name": "all", "match": {"gpus": {"min": 2}}, "set": {"scope": ["NUMANode", "Node"]}}]},
        }
        made = self._admin.create(names.PLACEMENT_POLICIES, body)
        return policy_of(msgspec.convert(made, wire_policy.PlacementPolicy))

    async def allocation(self, pod: PodFacts) -> str | None:
        annotations = self._admin.get(f"{fleet.pods_in()}/{pod.name}")["metadata"].get("annotations", {})
        text = annotations.get(names.ALLOCATION)
        return json.loads(text)["node"] if text else None

    @contextlib.asynccontextmanager
    async def unwatched(self) -> AsyncIterator[None]:
        await self._line.cut()
        yield
        # A new API server remembers nothing of before its start, so a watch from then is told 410.
        self._plane.restart_apiserver()
        await self._line.mend()

    def clear(self) -> None:
        fleet.remove_all(self._admin)
        for path in (fleet.NODES, names.GPU_LEDGERS, names.PLACEMENT_POLICIES):
            for item in self._admin.items(path):
                self._admin.delete(f"{path}/{item['metadata']['name']}")


def _through(line: CutLine, plane: ControlPlane) -> Path:
    account = plane.service_account(manifests.SERVICE_ACCOUNT, manifests.NAMESPACE)
    through = account.with_suffix(".cut")
    through.write_text(account.read_text().replace(plane.server, f"https://{LOOPBACK}:{line.port}"))
    return through


@contextlib.asynccontextmanager
async def outside_of(plane: ControlPlane) -> AsyncIterator[RealOutside]:
    line = CutLine(int(plane.server.rpartition(":")[2]))
    await line.mend()
    async with KubeClient(access_from(_through(line, plane))) as client:
        outside = RealOutside(plane, client, line)
        outside.clear()
        yield outside
    await line.cut()


@pytest.mark.parametrize("sentence", cluster_api.sentence.bodies, ids=cluster_api.sentence.names)
def test_the_real_cluster_keeps_the_contract(plane: ControlPlane, sentence: cluster_api.Sentence) -> None:
    async def told() -> None:
        async with outside_of(plane) as outside:
            await sentence(outside)

    asyncio.run(told())


def test_placed_leaves_the_other_conditions_as_they_are(plane: ControlPlane) -> None:
    async def told() -> None:
        async with outside_of(plane) as outside:
            pod = await outside.create_pod("p", 1)
            path = f"{fleet.pods_in()}/p"
            scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2"}
            plane.api.patch(f"{path}/status", {"status": {"conditions": [scheduled]}}, "strategic")

            for reason in ("Fragmented", "InsufficientGPUs"):
                await outside.api.perform(SetPlaced(pod.uid, "default", "p", False, reason, "text"))

            found = {each["type"]: each for each in plane.api.get(path)["status"]["conditions"]}
            assert {each: scheduled[each] for each in scheduled} == {k: found["PodScheduled"][k] for k in scheduled}
            assert found[names.PLACED]["reason"] == "InsufficientGPUs"
            assert found[names.PLACED]["status"] == "False"

    asyncio.run(told())


def test_the_printed_role_is_enough_to_lead_and_a_second_candidate_waits(plane: ControlPlane) -> None:
    async def told() -> None:
        async with outside_of(plane) as outside, asyncio.timeout(20):
            first, second = (leadership(outside.client, "kube-system", name, 0.1) for name in ("first", "second"))
            assert await anext(first) == LeadershipChanged(leading=True)
            waiting = asyncio.create_task(anext(second))
            done, _ = await asyncio.wait({waiting}, timeout=0.5)
            assert not done
            await first.aclose()
            assert await waiting == LeadershipChanged(leading=True)
            await second.aclose()

    asyncio.run(told())
    spec = plane.api.get(f"{names.leases_path('kube-system')}/{names.LEASE}")["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", 1)
