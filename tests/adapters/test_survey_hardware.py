"""Machines of many nodes: what nodes of one model share, and what they never share."""

import json
from typing import Any

import msgspec

from atoll.adapters.formats.cluster import resource_slice as slices
from atoll.adapters.kube.survey.hardware import Hardware
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine
from tests.adapters.survey_objects import gpu_uuid, resource_slice

Json = dict[str, Any]


def renamed(on: str, first: int, **changed: Json) -> Json:
    """A node's slice with UUIDs of its own, and with attributes of all its GPUs changed."""
    made = resource_slice(on)
    for n, device in enumerate(made["spec"]["devices"]):
        device["attributes"] |= {"uuid": {"string": gpu_uuid(first + n)}, **changed}
    return made


def machines(*objects: Json) -> dict[str, Machine]:
    told: list[str] = []
    hardware = Hardware(lambda what, why: told.append(f"{what}: {why}"))
    for each in objects:
        hardware.keep(each["spec"]["nodeName"], "ResourceSlice", msgspec.json.encode(each["spec"]))
    found = {name: hardware.machine(name) for name in list(hardware.nodes)}
    assert told == []
    return {name: machine for name, machine in found.items() if machine is not None}


def uuids(machine: Machine) -> list[str | None]:
    assert machine.topology is not None
    return [device.uuid for device in machine.topology.devices]


def test_nodes_of_one_model_differ_in_name_and_uuids_alone():
    found = machines(renamed("n1", 0), renamed("n2", 8), renamed("another", 16))

    assert [machine.name for machine in found.values()] == ["n1", "n2", "another"]
    assert uuids(found["n2"]) == [gpu_uuid(8 + n) for n in range(8)]
    assert [gpu.uuid for gpu in found["another"].gpus] == [gpu_uuid(16 + n) for n in range(8)]
    assert found["n2"].provenance is found["n1"].provenance


def test_a_node_that_is_like_another_is_what_it_would_be_alone():
    made = renamed("n2", 8)
    spec = {"kind": "ResourceSlice", "spec": made["spec"]}

    alone = join("n2", slices.readings("ResourceSlice", [(spec, 1)]))

    assert machines(renamed("n1", 0), made)["n2"] == alone


def test_a_node_with_another_numa_layout_is_another_model():
    found = machines(renamed("n1", 0), renamed("n2", 8, **{"resource.kubernetes.io/numaNode": {"int": 5}}))

    topology = found["n2"].topology
    assert topology is not None
    assert {device.numa for device in topology.devices} == {5}


def test_masked_uuids_are_no_identities_of_any_node():
    masked = {"uuid": {"string": "GPU-00000000-0000-0000-0000-000000000000"}}

    found = machines(renamed("n1", 0, **masked), renamed("n2", 8, **masked), renamed("n3", 16))

    assert uuids(found["n2"]) == [None] * 8
    assert uuids(found["n3"]) == [gpu_uuid(16 + n) for n in range(8)]


def test_a_uuid_that_two_gpus_bear_is_told_of_each_node_by_its_own_name():
    twice = {"uuid": {"string": gpu_uuid(99)}}

    found = machines(renamed("n1", 0, **twice), renamed("n2", 0, uuid={"string": gpu_uuid(77)}))

    texts = " ".join(each.remark.text for each in found["n2"].remarks)
    assert gpu_uuid(77) in texts
    assert gpu_uuid(99) not in texts


def test_objects_that_cannot_be_read_are_told_and_make_no_machine():
    told: list[str] = []
    hardware = Hardware(lambda what, _: told.append(what))
    hardware.keep("n1", "ResourceSlice", json.dumps({"devices": "x"}).encode())
    hardware.keep("n1", "Device", b'{"spec": {"devices": [3]}}')

    machine = hardware.machine("n1")

    assert machine is None or machine.topology is None
    assert sorted(told) == ["Device n1", "ResourceSlices of n1"]
