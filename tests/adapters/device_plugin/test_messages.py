"""Messages between kubelet and device plugins: what is read of them, what is changed, and that all else stays."""

import pytest

from atoll.adapters.device_plugin import messages
from atoll.adapters.formats.kubelet.protobuf import Malformed, field, message_field, parsed
from atoll.core.shim.values import PluginDevice, PluginOptions, Question

NEWER = field(15, b"what a newer plugin adds") + field(14, 7)


def device(identity: str, *numa: int, health: bytes = b"Healthy", more: bytes = b"") -> bytes:
    nodes = b"".join(message_field(1, field(1, node)) for node in numa)
    return field(1, identity.encode()) + field(2, health) + (message_field(3, nodes) if numa else b"") + more


def listing(*devices: bytes) -> bytes:
    return b"".join(message_field(1, each) for each in devices)


def test_a_list_of_devices_is_read_with_health_and_numa_nodes() -> None:
    told = listing(device("GPU-a", 0), device("GPU-b", 1, health=b"Unhealthy"), device("GPU-c"), device("GPU-d", 0, 1))

    assert messages.devices_of(told) == (
        PluginDevice("GPU-a", numa=(0,)),
        PluginDevice("GPU-b", healthy=False, numa=(1,)),
        PluginDevice("GPU-c"),
        PluginDevice("GPU-d", numa=(0, 1)),
    )


def test_what_is_shown_as_it_came_is_the_same_bytes() -> None:
    told = listing(device("GPU-a", 0, more=NEWER), device("GPU-b", 1)) + NEWER

    assert messages.shown(told) == told


def test_numa_nodes_are_taken_away_and_nothing_else() -> None:
    told = listing(device("GPU-a", 0, more=NEWER), device("GPU-b", 1)) + NEWER

    assert messages.shown(told, strip=True) == listing(device("GPU-a", more=NEWER), device("GPU-b")) + NEWER


@pytest.mark.parametrize(
    ("words", "sick"), [({"sick": frozenset({"GPU-b"})}, {"GPU-b"}), ({"down": True}, {"GPU-a", "GPU-b"})]
)
def test_devices_are_called_unhealthy(words: dict[str, object], sick: set[str]) -> None:
    told = messages.shown(listing(device("GPU-a", 0), device("GPU-b", 1)), **words)  # type: ignore[arg-type]

    assert {each.id for each in messages.devices_of(told) if not each.healthy} == sick
    assert [each.numa for each in messages.devices_of(told)] == [(0,), (1,)]


def test_a_registration_and_its_options_are_read_as_they_are_written() -> None:
    options = PluginOptions(pre_start=True, prefers=True)

    told = messages.registration_of(messages.registration_message("nvidia-gpu.sock", "nvidia.com/gpu", options))

    assert told == messages.Registration("v1beta1", "nvidia-gpu.sock", "nvidia.com/gpu", options)
    assert messages.options_of(b"") == PluginOptions()


def test_a_question_is_read_and_its_answer_names_devices_per_container() -> None:
    one = field(1, b"GPU-a") + field(1, b"GPU-b") + field(2, b"GPU-a") + field(3, 2)

    assert messages.questions_of(message_field(1, one)) == (
        Question(frozenset({"GPU-a", "GPU-b"}), frozenset({"GPU-a"}), 2),
    )
    answer = messages.preferences_message([["GPU-a", "GPU-b"], []])
    assert messages.allocated_of(answer) == (frozenset({"GPU-a", "GPU-b"}), frozenset())


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff",
        message_field(1, b"\x0a\xff"),
        field(1, 5),
        listing(device("GPU-a"), device("GPU-a")),
        listing(device("")),
        listing(device("x" * 256)),
        message_field(1, field(1, b"\xff\xfe")),
        listing(*(device(f"GPU-{n}") for n in range(messages.DEVICES_MAX + 1))),
    ],
    ids=["no message", "cut off", "a number", "twice", "no id", "long id", "no text", "too many"],
)
def test_what_is_no_list_of_devices_is_refused(garbage: bytes) -> None:
    with pytest.raises(Malformed):
        messages.devices_of(garbage)


def test_numbers_of_any_length_and_fixed_fields_keep_their_bytes() -> None:
    fixed = b"\x21" + bytes(8) + b"\x2d" + bytes(4)
    told = field(3, 1 << 40) + fixed

    assert b"".join(each.raw for each in parsed(told)) == told
    assert [each.value for each in parsed(told)] == [1 << 40, 0, 0]
