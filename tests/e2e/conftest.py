"""One control plane with Atoll per test module: starting both takes seconds."""

from collections import Counter
from collections.abc import Generator, Iterator

import pytest

from tests.e2e.fault_load import make_boxes
from tests.e2e.installation import Box, Installation
from tests.realkube import fleet
from tests.realkube.harness import ControlPlane

LOST = 4
"""So many tests of a module may fail before the others are not tried: whatever they share is broken, and each would
wait its time."""

_failed: Counter[str] = Counter()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _failed[_module(item)] >= LOST:
        pytest.fail(f"not tried: {LOST} tests of this module failed before it", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _failed[_module(item)] += report.failed
    return report


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane)


@pytest.fixture
def boxes(cluster: Installation) -> tuple[list[Box], Box]:
    """Of the load under which services die."""
    return make_boxes(cluster)


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
