"""One control plane with Atoll per test module: starting both takes seconds."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.harness import ControlPlane


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane)


@pytest.fixture
def cluster(atoll_cluster: Installation) -> Iterator[Installation]:
    """The module's installation; the test's pods, nodes and configuration are gone afterwards."""
    yield atoll_cluster
    api = atoll_cluster.api
    fleet.remove_all(api)
    for path in ("/apis/atoll.dev/v1alpha1/gpunodeconfigs", "/apis/atoll.dev/v1alpha1/gpunodes", fleet.NODES):
        for item in api.items(path):
            api.delete(f"{path}/{item['metadata']['name']}")
    for item in api.items("/apis/atoll.dev/v1alpha1/gpuledgers"):
        api.delete(f"/apis/atoll.dev/v1alpha1/gpuledgers/{item['metadata']['name']}")
