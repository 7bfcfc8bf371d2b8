"""The page about the model of kube-scheduler says of every plugin of the default profile how it is modelled."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kube-filter.md"
PLUGINS = [
    "SchedulingGates",
    "PrioritySort",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
    "DeferredPodScheduling",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
]
"""pkg/scheduler/apis/config/v1/default_plugins.go of Kubernetes v1.37.2: all gates off, and what each gate adds."""
WAYS = {"exact", "exact, else unsure", "conservative", "unsure", "not modelled", "no filter"}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_plugin_has_a_row_that_says_how_it_is_modelled(plugin: str) -> None:
    found = re.findall(rf"^\| {plugin} \| ([^|]*) \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)

    assert len(found) == 1
    assert found[0] in WAYS


def test_no_row_is_about_a_plugin_that_is_not_there() -> None:
    rows = re.findall(r"^\| ([A-Z]\w+) \|", PAGE.read_text(), re.MULTILINE)

    assert set(rows) == set(PLUGINS)
