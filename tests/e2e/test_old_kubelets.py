"""Kubelets that write nothing of GPUs into the status of pods, as those before Kubernetes 1.36: they are asked.

The agent asks the kubelet's PodResources socket for each pod once, and compares with its checkpoint.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.observed_site import RESTRICTED, Site, observed_site
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.binaries import KUBERNETES
from tests.realkube.fake_plugin import VISIBLE
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_node import FEATURES

pytestmark = [pytest.mark.e2e, needs_mounts]

NODE = "n-restricted"
SILENT = {"ResourceHealthStatus": False}
if KUBERNETES != "v1.34":
    SILENT["ResourceHealthStatusMessage"] = False  # it builds on the other, and is newer


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with observed_site(["restricted"], {**FEATURES, **SILENT}) as whole:
        yield whole


@pytest.fixture(autouse=True)
def empty(site: Site) -> Iterator[None]:
    yield
    fleet.remove_all(site.atoll.api)


def sees(site: Site, name: str) -> frozenset[str]:
    """What the pod's container sees, once it runs."""
    pod = site.atoll.api.wait_for(f"{fleet.pods_in()}/{name}", lambda pod: pod["status"].get("phase") == "Running")
    assert "allocatedResourcesStatus" not in pod["status"]["containerStatuses"][0]
    return frozenset(site.nodes[NODE].cri.running()[pod["metadata"]["uid"], "c0"][VISIBLE].split(","))


def test_two_fours_get_two_whole_islands_and_a_third_takes_the_place_of_the_first(site: Site) -> None:
    box = site.boxes[NODE]
    for name in ("first", "second", "third"):
        site.atoll.pod(name, 4, [box], annotations=RESTRICTED)
    islands = {name: sees(site, name) for name in ("first", "second")}
    assert set(islands.values()) == set(box.islands)
    wait_until(lambda: site.held(NODE) == islands, "both to be read back", 60, lambda: str(site.told(NODE)))

    fleet.remove(site.atoll.api, "first")

    assert sees(site, "third") == islands["first"]


def init_runs(pod: Json) -> bool:
    return any("running" in each["state"] for each in pod["status"].get("initContainerStatuses", ()))


def test_what_init_containers_hold_is_read_from_the_checkpoint(site: Site) -> None:
    init = {"name": "prepare", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod = fleet.gpu_pod("warm", 2, nodeName=NODE, initContainers=[init])
    made = site.atoll.api.create(fleet.pods_in(), pod)
    # Not sooner: of a container that ends as it starts, a kubelet may only see the start.
    site.atoll.api.wait_for(f"{fleet.pods_in()}/warm", init_runs)
    site.nodes[NODE].cri.end(made["metadata"]["uid"])

    seen = sees(site, "warm")

    wait_until(lambda: seen <= site.held(NODE).get("warm", frozenset()), "it to be read back", 60)
    containers = {each["container"] for each in site.told(NODE)["containers"]}
    assert containers == {"prepare", "c0"}
