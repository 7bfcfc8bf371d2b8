"""Which defects are found in which components."""

from atoll.core.audit.defects import Defect, matching
from atoll.core.audit.picture import Component, Role


def defect(
    identifier, since="", before="", *, role=Role.DEVICE_PLUGIN, component="nvidia-device-plugin", severity="info"
):
    return Defect(identifier, role, component, since, before, severity, "title", "effect", "fix", "source")


def plugin(version, name="nvidia-device-plugin"):
    return Component(Role.DEVICE_PLUGIN, name, version)


def found(defects, *components):
    return [match.defect.identifier for match in matching(defects, components).found]


def test_a_defect_is_found_from_its_first_version_until_its_fix():
    known = [defect("a", "0.7.0", "0.14.4")]
    assert found(known, plugin("v0.6.0")) == []
    assert found(known, plugin("v0.7.0")) == ["a"]
    assert found(known, plugin("v0.14.4-rc.1")) == ["a"]
    assert found(known, plugin("v0.14.4")) == []


def test_a_defect_of_another_role_or_component_is_not_found():
    known = [defect("a"), defect("b", role=Role.DRIVER, component="")]
    assert found(known, plugin("1.0.0", name="amd-device-plugin")) == []
    assert found(known, plugin("0.17.0")) == ["a"]


def test_the_vendor_before_a_name_may_be_left_out():
    assert found([defect("a")], plugin("0.17.0", name="device-plugin")) == ["a"]
    assert found([defect("a", component="device-plugin")], plugin("0.17.0")) == ["a"]


def test_an_unreadable_version_matches_nothing_and_is_told():
    known = [defect("a", "0.7.0"), defect("b", "", "0.20.0")]
    answer = matching(known, [plugin("latest"), plugin("0.17.0")])
    assert [match.component.version for match in answer.found] == ["0.17.0", "0.17.0"]
    assert answer.unknown == (plugin("latest"),)


def test_a_defect_of_every_version_needs_no_version():
    answer = matching([defect("a")], [plugin("")])
    assert [(match.defect.identifier, match.certain) for match in answer.found] == [("a", True)]
    assert answer.unknown == ()


def test_a_version_that_is_too_coarse_is_found_and_called_uncertain():
    (match,) = matching([defect("a", "", "0.14.4")], [plugin("0.14")]).found
    assert not match.certain


def test_a_vendors_build_is_marked():
    ours, theirs = matching([defect("a", "", "0.20.0")], [plugin("0.17.0"), plugin("0.17.0-acme.3")]).found
    assert (ours.vendor_build, theirs.vendor_build) == (False, True)


def test_the_most_severe_comes_first():
    known = [
        defect("c"),
        defect("b", severity="warning"),
        defect("a", severity="warning"),
        defect("d", severity="critical"),
    ]
    assert found(known, plugin("0.17.0")) == ["d", "a", "b", "c"]


def test_a_dra_driver_counted_by_year_is_older_than_one_counted_from_zero():
    known = [defect("a", "", "0.4.0", role=Role.DRA_DRIVER, component="nvidia-dra-driver")]
    assert found(known, Component(Role.DRA_DRIVER, "nvidia-dra-driver", "v25.12.0")) == ["a"]
    assert found(known, Component(Role.DRA_DRIVER, "nvidia-dra-driver", "v0.4.1")) == []
