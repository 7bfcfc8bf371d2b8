"""The agent's adapter on a real API server, as a service account with exactly the printed roles."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll.adapters.kube import manifests, manifests_agent, names
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import access_from
from atoll.adapters.kube.own.api import KubeNodeApi
from tests.contract import node_api
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        plane.apply(manifests.yaml_of(manifests_agent.agent_rbac()))
        yield plane


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Path:
    user = f"system:serviceaccount:{manifests.NAMESPACE}:{manifests_agent.AGENT_ACCOUNT}"
    lease = {"group": "coordination.k8s.io", "resource": "leases", "verb": "create", "namespace": manifests.NAMESPACE}
    review = {"spec": {"user": user, "resourceAttributes": lease}}
    asked = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: plane.api.create(asked, review)["status"]["allowed"], "the printed roles to be in force")
    return plane.service_account(manifests_agent.AGENT_ACCOUNT, manifests.NAMESPACE)


class RealOutside:
    def __init__(self, plane: ControlPlane, client: KubeClient) -> None:
        self.api = KubeNodeApi(client, node_api.NODE, manifests.NAMESPACE, "test", ("nvidia.com/gpu",))
        self._admin = plane.api

    async def create_node(self, name: str, gpus: int) -> str:
        uid: str = self._admin.create(fleet.NODES, fleet.gpu_node(name, gpus))["metadata"]["uid"]
        return uid

    async def delete_node(self, name: str) -> None:
        self._admin.delete(f"{fleet.NODES}/{name}")

    async def run_pod(self, name: str, gpus: int, node: str) -> str:
        uid: str = self._admin.create(fleet.pods_in(), fleet.gpu_pod(name, gpus, nodeName=node))["metadata"]["uid"]
        return uid

    async def delete_pod(self, name: str) -> None:
        self._admin.delete(f"{fleet.pods_in()}/{name}", grace_s=0)

    async def delete_inventory(self, node: str) -> None:
        self._admin.delete(f"{names.GPU_NODES}/{node}")

    def clear(self) -> None:
        fleet.remove_all(self._admin)
        leases = names.leases_path(manifests.NAMESPACE)
        # Before the node, which would take it along.
        if self._admin.find(f"{leases}/{names.agent_lease(node_api.NODE)}"):
            self._admin.delete(f"{leases}/{names.agent_lease(node_api.NODE)}")
        for path in (names.GPU_NODES, fleet.NODES):
            for item in self._admin.items(path):
                self._admin.delete(f"{path}/{item['metadata']['name']}")
            wait_until(lambda path=path: not self._admin.items(path), f"{path} to be empty")  # type: ignore[misc]


@pytest.mark.parametrize("sentence", node_api.sentence.bodies, ids=node_api.sentence.names)
def test_the_real_adapter_keeps_the_contract(plane: ControlPlane, account: Path, sentence: node_api.Sentence) -> None:
    async def run() -> None:
        async with KubeClient(access_from(account)) as client:
            outside = RealOutside(plane, client)
            try:
                await sentence(outside)
            finally:
                outside.clear()

    asyncio.run(run())
