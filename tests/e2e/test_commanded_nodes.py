"""Command mode on real kubelets: a container gets exactly the UUIDs that were granted, behind an unmodified plugin."""

from collections.abc import Iterator

import pytest

from tests.e2e.commanded_site import CommandedSite, commanded_site
from tests.e2e.observed_site import PREFERRED, RESTRICTED
from tests.realkube import fleet
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

POLICIES = ("none", "restricted")
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
