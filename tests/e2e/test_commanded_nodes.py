"""Command mode on real kubelets: a container gets exactly the UUIDs that were granted, behind an unmodified plugin."""

from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.commanded_site import CommandedSite, commanded_site
from tests.e2e.observed_site import PREFERRED, RESTRICTED
from tests.realkube import fleet
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

POLICIES = ("none", "restricted")
CHURNED = 250
each_policy = pytest.mark.parametrize("policy", POLICIES)


@pytest.fixture(scope="module")
def site() -> Iterator[CommandedSite]:
    with commanded_site(POLICIES) as whole:
        yield whole


@pytest.fixture(autouse=True)
def empty(site: CommandedSite) -> Iterator[None]:
    yield
    fleet.remove_all(site.atoll.api)


@each_policy
def test_each_size_gets_what_was_granted(site: CommandedSite, policy: str) -> None:
    box = site.boxes[f"n-{policy}-strip"]
    for name, gpus in {"one": 1, "two": 2, "four": 4, "last": 1}.items():
        site.atoll.pod(name, gpus, [box], annotations=RESTRICTED)
        assert site.running(name)[1] == site.granted(name)
    assert site.running("four")[1] in box.islands


@each_policy
def test_a_preferred_four_over_two_broken_islands_gets_what_was_granted(site: CommandedSite, policy: str) -> None:
    box = site.boxes[f"n-{policy}-strip"]
    for name in ("a", "b"):
        site.atoll.pod(name, 3, [box], annotations=RESTRICTED)
        site.running(name)

    site.atoll.pod("two", 2, [box], annotations=PREFERRED)

    assert site.running("two")[1] == site.granted("two")
    assert site.atoll.allocation("two")["degraded"] is True


@each_policy
def test_pods_of_one_size_and_one_rule_start_together_and_the_ledger_follows_who_got_what(
    site: CommandedSite, policy: str
) -> None:
    box = site.boxes[f"n-{policy}-strip"]
    names = ["a", "b", "c", "d"]
    for name in names:
        site.atoll.pod(name, 2, [box], annotations=RESTRICTED)

    held = {name: site.running(name)[1] for name in names}

    assert all(any(uuids <= island for island in box.islands) for uuids in held.values())
    for name in names:
        site.until_granted(name, held[name])


@each_policy
def test_pods_of_one_size_and_different_rules_come_one_after_the_other(site: CommandedSite, policy: str) -> None:
    box = site.boxes[f"n-{policy}-strip"]
    for name, annotations in {"a": RESTRICTED, "b": PREFERRED, "c": RESTRICTED}.items():
        site.atoll.pod(name, 2, [box], annotations=annotations)

    for name in ("a", "b", "c"):
        site.until_granted(name, site.running(name)[1])


@each_policy
def test_a_stranger_takes_nothing_that_was_granted(site: CommandedSite, policy: str) -> None:
    box = site.boxes[f"n-{policy}-strip"]
    site.atoll.pod("four", 4, [box], annotations=RESTRICTED)
    fleet.create_pods(site.atoll.api, [fleet.gpu_pod("stranger", 2, nodeName=box.name)])

    four, stranger = site.running("four")[1], site.running("stranger")[1]

    site.until_granted("four", four)
    assert not four & stranger
    assert four in box.islands


def test_over_churned_pods_of_every_size_each_gets_what_was_granted(site: CommandedSite) -> None:
    chance, api = Random(11), site.atoll.api
    live: list[str] = []
    for number in range(CHURNED):
        name, gpus = f"churn-{number}", chance.choice([1, 1, 2, 2, 3, 4, 5, 6, 8])
        site.atoll.pod(name, gpus, annotations=chance.choice([RESTRICTED, RESTRICTED, PREFERRED]))
        live.append(name)
        while len(live) > 10:
            fleet.remove(api, live.pop(chance.randrange(len(live))))
        if number % 20 == 19:
            site.check()
    site.check()
