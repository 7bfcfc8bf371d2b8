"""The list of known defects that ships with the package."""

import re
from pathlib import Path

import pytest

from atoll.adapters.defects import defects_in, known_defects
from atoll.core.audit.defects import matching
from atoll.core.audit.picture import Component, Role

SOURCE = re.compile(r"https://[^\s]+|[\w.-]+/[\w.-]+#\d+")
GOOD = "role: driver\ndefects:\n- {id: a, severity: info, title: t, effect: e, fix: f, source: o/r#1}\n"


@pytest.mark.parametrize("defect", known_defects(), ids=lambda defect: defect.identifier)
def test_each_entry_says_what_where_and_how_it_is_known(defect):
    assert re.fullmatch(r"[\w.-]+", defect.identifier)
    assert SOURCE.fullmatch(defect.source)
    assert defect.effect.endswith(".")
    assert defect.fix.endswith(".")
    assert not defect.title.endswith(".")
    assert len(defect.title) <= 110


def test_the_list_is_sorted_by_role_and_identifier():
    keys = [(defect.role.value, defect.identifier) for defect in known_defects()]
    assert keys == sorted(keys)
    assert len(keys) > 40


def test_a_driver_entry_never_matches_the_numbers_of_another_vendor():
    amd = Component(Role.DRIVER, "amdgpu", "6.10.5")
    assert matching(known_defects(), [amd]).found == ()


@pytest.mark.parametrize(
    ("component", "has", "has_not"),
    [
        (Component(Role.DRIVER, "nvidia", "570.133.20"), "gpu-operator-1361", "CVE-2025-33221-R580"),
        (
            Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.18.1"),
            "k8s-device-plugin-2038",
            "k8s-device-plugin-439",
        ),
        (Component(Role.GPU_OPERATOR, "gpu-operator", "v24.6.1"), "CVE-2024-0132-operator", "gpu-operator-1109"),
        (Component(Role.CONTAINER_TOOLKIT, "nvidia-container-toolkit", "1.17.7-1"), "CVE-2025-23266", "CVE-2025-23359"),
        (Component(Role.KUBERNETES, "kubernetes", "v1.33.1-eks-1"), "CVE-2025-4563-1.33", "CVE-2025-4563-1.32"),
        (
            Component(Role.DRA_DRIVER, "nvidia-dra-driver", "v25.8.0"),
            "dra-driver-nvidia-gpu-951",
            "dra-driver-nvidia-gpu-1242",
        ),
    ],
    ids=lambda value: value.version if isinstance(value, Component) else "",
)
def test_well_known_versions_have_their_defects(component, has, has_not):
    found = {match.defect.identifier for match in matching(known_defects(), [component]).found}
    assert has in found
    assert has_not not in found


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1", "driver.yaml: "),
        ("role: driver", "driver.yaml: expected the keys role and defects"),
        ("role: kubelet\ndefects: []", "expected a role that names the file, found 'kubelet'"),
        ("role: driver\ndefects: {}", "expected a list of defects"),
        ("role: driver\ndefects: [x]", "driver.yaml, entry 1: expected a mapping"),
        (GOOD.replace("}", ", cause: c}"), r"entry 1 \(a\): unknown keys: cause"),
        (GOOD.replace("}", ", since: 1.30}"), r"entry 1 \(a\): since must be a text, found 1.3"),
        (GOOD.replace("fix: f, ", ""), r"entry 1 \(a\): fix missing"),
        (GOOD.replace("info", "grave"), "severity must be one of critical, warning, info, found 'grave'"),
        (GOOD.replace("}", ", before: soon}"), "'soon' is no version"),
        (GOOD.replace("}", ", since: '2.0', before: '1.0'}"), "no version lies between 2.0 and 1.0"),
    ],
)
def test_a_malformed_entry_is_told_by_file_and_entry(tmp_path: Path, content, told):
    file = tmp_path / "driver.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=told):
        defects_in(file)
