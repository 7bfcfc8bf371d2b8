"""Models: nodes that are alike but for their UUIDs share what follows from their hardware."""

from dataclasses import replace

from atoll.core.audit.models import Models
from atoll.core.topology import NodeTopology
from tests.core.audit.pictures import topology


def test_nodes_that_differ_in_uuids_alone_are_of_one_model_and_keep_their_own() -> None:
    models = Models()

    (own, first), (other, second) = (models.of(topology(name, "0000 1111")) for name in ("n1", "n2"))

    assert first is second
    assert own.devices != other.devices
    assert own.links is other.links


def test_a_gpu_without_uuid_or_on_another_node_makes_another_model() -> None:
    models, whole = Models(), topology("n1", "0011")
    unnamed = whole.with_devices((replace(whole.devices[0], uuid=None), *whole.devices[1:]))

    found = {models.of(each)[1] for each in (whole, unnamed, topology("n1", "0001"))}

    assert len(found) == 3


def test_devices_come_in_the_order_of_the_shape_on_every_node_of_the_model() -> None:
    models, plain = Models(), topology("n1", "01")
    turned = NodeTopology(plain.devices[::-1], plain.links)
    again = turned.with_devices(tuple(replace(device, uuid=f"GPU-n2-{device.index}") for device in turned.devices))

    (first, model), (second, same) = models.of(turned), models.of(again)

    assert model is same
    assert [device.uuid for device in first.devices] == ["GPU-n1-0", "GPU-n1-1"]
    assert [device.uuid for device in second.devices] == ["GPU-n2-0", "GPU-n2-1"]
