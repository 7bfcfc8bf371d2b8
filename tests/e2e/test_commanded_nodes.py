"""Command mode on real kubelets: a container gets exactly the UUIDs that were granted, behind an unmodified plugin."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

import pytest

from tests.e2e.commanded_site import CommandedSite, commanded_site
from tests.e2e.installation import Box
from tests.e2e.observed_site import PREFERRED, RESTRICTED
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import FakePlugin, Gpu
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

SPOTS = [(policy, hints) for policy in ("none", "restricted") for hints in ("strip", "keep")]
CHURNED, AT_ONCE = 500, 24
each_spot = pytest.mark.parametrize("spot", SPOTS, ids="-".join)


@pytest.fixture(scope="module")
def site() -> Iterator[CommandedSite]:
    with commanded_site(SPOTS) as whole:
        yield whole


@pytest.fixture(autouse=True)
def empty(site: CommandedSite) -> Iterator[None]:
    yield
    fleet.remove_all(site.atoll.api)


@pytest.fixture
def box(site: CommandedSite, spot: tuple[str, str]) -> Box:
    return site.boxes["-".join(["n", *spot])]


def ask(site: CommandedSite, box: Box, name: str, gpus: int, annotations: Mapping[str, str] = RESTRICTED) -> None:
    site.atoll.pod(name, gpus, [box], annotations=annotations)


def gets(site: CommandedSite, name: str) -> frozenset[str]:
    """What the pod's container sees, which is what the ledger says."""
    uuids = site.running(name)[1]
    site.until_granted(name, uuids)
    return uuids


def occupy(site: CommandedSite, box: Box, islands: dict[int, int]) -> dict[str, frozenset[str]]:
    """Take so many GPUs of each island by pods of one GPU; who holds which."""
    for n in range(8):
        ask(site, box, f"filler-{n}", 1)
    held = {f"filler-{n}": gets(site, f"filler-{n}") for n in range(8)}
    for island, count in islands.items():
        for name in [name for name, uuids in held.items() if uuids <= box.islands[island]][count:]:
            fleet.remove(site.atoll.api, name)
            del held[name]
    wait_until(lambda: site.held(box.name) == held, "the rest to be let go", 60)
    return held


# The acceptance cases.


@each_spot
def test_two_fours_get_two_whole_islands_and_the_third_waits(site: CommandedSite, box: Box) -> None:
    for name in ("first", "second"):
        ask(site, box, name, 4)
    held = {name: gets(site, name) for name in ("first", "second")}
    assert set(held.values()) == set(box.islands)
    ask(site, box, "third", 4)
    assert "Insufficient nvidia.com/gpu" in fleet.wait_refused(site.atoll.api, "third")

    fleet.remove(site.atoll.api, "first")

    assert gets(site, "third") == held["first"]


@each_spot
def test_the_only_whole_island_is_the_one_that_is_given(site: CommandedSite, box: Box) -> None:
    occupy(site, box, {0: 2, 1: 0})

    ask(site, box, "four", 4)

    assert gets(site, "four") == box.islands[1]


@each_spot
def test_a_four_over_two_broken_islands_waits_and_is_woken(site: CommandedSite, box: Box) -> None:
    held = occupy(site, box, {0: 2, 1: 2})
    ask(site, box, "four", 4)
    assert "NUMANode" in site.atoll.waits_with("four", "Fragmented")

    for name in [name for name, uuids in held.items() if uuids <= box.islands[1]]:
        fleet.remove(site.atoll.api, name)

    assert gets(site, "four") == box.islands[1]


@each_spot
def test_a_preferred_four_over_two_broken_islands_is_split_and_recorded_so_or_waits_for_the_topology_manager(
    site: CommandedSite, box: Box, spot: tuple[str, str]
) -> None:
    held = occupy(site, box, {0: 2, 1: 2})

    ask(site, box, "four", 4, PREFERRED)

    if spot == ("restricted", "keep"):
        assert "may fail the pod there" in site.atoll.waits_with("four", "Fragmented")
        return
    assert gets(site, "four") == box.uuids.difference(*held.values())
    assert site.atoll.allocation("four")["degraded"] is True


# What the acceptance cases leave out.


@each_spot
def test_each_size_gets_what_was_granted(site: CommandedSite, box: Box) -> None:
    for name, gpus in {"one": 1, "two": 2, "four": 4, "last": 1}.items():
        ask(site, box, name, gpus)
        assert site.running(name)[1] == site.granted(name)
    assert site.running("four")[1] in box.islands


@each_spot
def test_pods_of_one_size_and_one_rule_get_what_is_right_and_the_ledger_follows_who_got_what(
    site: CommandedSite, box: Box
) -> None:
    """Without hints they start together."""
    names = ["a", "b", "c", "d"]
    for name in names:
        ask(site, box, name, 2)

    held = {name: gets(site, name) for name in names}

    assert all(any(uuids <= island for island in box.islands) for uuids in held.values())


@each_spot
def test_pods_of_one_size_and_different_rules_come_one_after_the_other(site: CommandedSite, box: Box) -> None:
    for name, annotations in {"a": RESTRICTED, "b": PREFERRED, "c": RESTRICTED}.items():
        ask(site, box, name, 2, annotations)

    for name in ("a", "b", "c"):
        gets(site, name)


@each_spot
def test_a_stranger_takes_nothing_that_was_granted(site: CommandedSite, box: Box, spot: tuple[str, str]) -> None:
    api = site.atoll.api
    ask(site, box, "four", 4)
    # Not before: of two that come together, whoever is served first takes what the other is granted a moment later,
    # and the other fails by it, loudly.
    wait_until(lambda: site.atoll.grants(box.name), "four to be granted", 20)
    fleet.create_pods(api, [fleet.gpu_pod("stranger", 2, nodeName=box.name)])

    assert gets(site, "four") in box.islands
    ends = {"Running", "Failed"}
    stranger = api.wait_for(f"{fleet.pods_in()}/stranger", lambda pod: pod["status"].get("phase") in ends, 30)["status"]
    if spot == ("restricted", "keep") and stranger["phase"] == "Failed":
        # It came first, and the Topology Manager had it choose among what the other was granted.
        assert "0 devices are free for a pod without a grant, and 4 are granted" in stranger["message"]
    else:
        assert not gets(site, "four") & site.running("stranger")[1]


@pytest.mark.parametrize(
    ("resource", "ids"),
    [
        ("nvidia.com/mig-1g.10gb", [f"MIG-{n}" for n in range(4)]),
        ("nvidia.com/gpu.shared", [f"GPU-shared::{n}" for n in range(4)]),
    ],
)
def test_other_resources_pass_through_and_their_plugin_chooses(
    site: CommandedSite, resource: str, ids: list[str]
) -> None:
    node, api = site.nodes["n-restricted-keep"], site.atoll.api
    devices, last = [Gpu(each, 1) for each in ids], sorted(ids)[2:]
    endpoint = f"{resource.partition('/')[2]}.sock"
    plugin = FakePlugin(node.plugin.folder, devices, [], [], node.allocator, endpoint, resource)
    plugin.prefer = lambda _available, _must, _size: last
    plugin.start()

    api.wait_for(f"/api/v1/nodes/{node.name}", lambda seen: seen["status"]["allocatable"].get(resource) == "4")
    fleet.create_pods(api, [fleet.gpu_pod("other", 2, resource=resource, nodeName=node.name)])

    api.wait_for(f"{fleet.pods_in()}/other", lambda pod: pod["status"].get("phase") == "Running", 30)
    assert plugin.allocated == [frozenset(last)]
    plugin.stop()


def test_over_churned_pods_of_every_size_each_gets_what_was_granted(site: CommandedSite) -> None:
    """Each is looked at while it runs, and some are gone before they ever do."""
    chance, api = Random(11), site.atoll.api
    live: set[str] = set()
    ran: dict[str, str] = {}
    sizes: Counter[tuple[int, str]] = Counter()
    names = itertools.count()
    while len(ran) < CHURNED:
        while len(live) < AT_ONCE:
            name, gpus = f"churn-{next(names)}", chance.choice([1, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8])
            annotations = chance.choice([RESTRICTED, RESTRICTED, PREFERRED])
            site.atoll.pod(name, gpus, annotations=annotations)
            sizes[gpus, annotations["atoll.dev/policy"]] += 1
            live.add(name)
        found = site.check()
        ran |= found
        leaving = [name for name in sorted(found) if chance.random() < 0.8]
        waiting = sorted(live - found.keys())
        for name in [*leaving, *(name for name in waiting if chance.random() < 0.1)]:
            fleet.remove(api, name)
            live.discard(name)

    assert all(count > CHURNED // 20 for count in Counter(ran.values()).values()), Counter(ran.values())
    assert len(set(ran.values())) == len(SPOTS)
    assert len(sizes) == 8 * 2
