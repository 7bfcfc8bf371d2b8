"""A device plugin that does what nobody foresaw, on a real kubelet: its node is closed, and evictions make no loop.

The pods are those of a Deployment in all that matters here: a successor comes at once for each that is evicted.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.e2e.installation import KINDS
from tests.e2e.observed_site import RESTRICTED, Site, observed_site
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import VISIBLE, FakePlugin
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

BAD, GOOD = "n-none", "n-restricted"
Preferred = Callable[[Sequence[str], Sequence[str], int], list[str] | None]


def split(available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    """Half of the lowest and half of the highest: of two islands wherever that is possible."""
    ordered = sorted(available)
    return [*ordered[: size // 2], *ordered[len(ordered) - (size - size // 2) :]]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with observed_site(["none", "restricted"]) as whole:
        yield whole


@pytest.fixture
def rogue(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePlugin]:
    plugin = site.nodes[BAD].plugin
    monkeypatch.setattr(plugin, "preferred", split)
    yield plugin
    monkeypatch.undo()
    fleet.remove_all(site.atoll.api)
    site.atoll.configure("observed", site.nodes, mode="observe")
    for name in (BAD, GOOD):
        wait_until(lambda name=name: not site.held(name), f"{name} to be empty", 60)  # type: ignore[misc]
    reopen(site)


def reopen(site: Site) -> None:
    """What a person does: without its ledger the node is judged anew."""
    path = f"{KINDS}/gpuledgers/{BAD}"
    if site.atoll.api.find(path) is not None:
        site.atoll.api.delete(path)
    wait_until(lambda: "atoll_nodes_closed" not in closed(site), "the node to open", 60)


def closed(site: Site) -> str:
    return "\n".join(line for line in site.atoll.metrics().splitlines() if line.startswith("atoll_nodes_closed{"))


def ask(site: Site, name: str, *nodes: str) -> None:
    site.atoll.pod(name, 2, [site.boxes[node] for node in nodes or (BAD, GOOD)], annotations=RESTRICTED)


def where(site: Site, name: str) -> str:
    pod = site.atoll.api.wait_for(f"{fleet.pods_in()}/{name}", lambda seen: seen["status"].get("phase") == "Running")
    return str(pod["spec"]["nodeName"])


def is_there(site: Site, name: str) -> bool:
    return site.atoll.api.find(f"{fleet.pods_in()}/{name}") is not None


def test_one_is_evicted_and_its_successors_go_elsewhere(site: Site, rogue: FakePlugin) -> None:
    site.atoll.configure("observed", site.nodes, mode="observe", onViolation="evict")
    ask(site, "first", BAD)
    wait_until(lambda: not is_there(site, "first"), "it to be evicted", 60)

    for name in ("second", "third"):
        ask(site, name)
        assert where(site, name) == GOOD
    ask(site, "fourth", BAD)

    assert "got other GPUs here than any that were foreseen" in site.atoll.waits_with("fourth", "NodeClosed")
    assert 'atoll_reports_total{what="violation"} 1.0' in site.atoll.metrics()
    assert all(is_there(site, name) for name in ("second", "third", "fourth"))
    assert rogue.questions == []  # it was never asked as itself


def test_a_service_that_starts_anew_keeps_the_node_closed(site: Site, rogue: FakePlugin) -> None:
    site.atoll.configure("observed", site.nodes, mode="observe", onViolation="evict")
    ask(site, "first", BAD)
    wait_until(lambda: not is_there(site, "first"), "it to be evicted", 60)
    site.atoll.serve.kill()
    site.atoll.serve.start()
    site.atoll.serve.wait_until(site.atoll.ready)

    ask(site, "second", BAD)

    assert "got other GPUs" in site.atoll.waits_with("second", "NodeClosed", "Unconfirmed", timeout_s=30)


def test_one_that_is_only_reported_runs_on_and_closes_the_node(site: Site, rogue: FakePlugin) -> None:
    ask(site, "first", BAD)
    assert where(site, "first") == BAD
    uid = site.atoll.api.get(f"{fleet.pods_in()}/first")["metadata"]["uid"]
    seen = frozenset(site.nodes[BAD].cri.running()[uid, "c0"][VISIBLE].split(","))
    wait_until(lambda: site.held(BAD).get("first") == seen, "it to be read back", 60)

    ask(site, "second", BAD)

    assert "got other GPUs" in site.atoll.waits_with("second", "NodeClosed")
    assert is_there(site, "first")
    fleet.remove(site.atoll.api, "first")
    wait_until(lambda: not site.held(BAD), "it to be gone", 60)
    assert 'code="NodeClosed"' in closed(site)
    reopen(site)
    rogue.preferred = FakePlugin.preferred.__get__(rogue)  # type: ignore[method-assign]
    assert where(site, "second") == BAD
