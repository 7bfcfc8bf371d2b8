"""The messages of the device plugin interface as far as the shim reads them; all else goes through as it came.

A message is rewritten field by field, so that what a newer kubelet or plugin adds is neither lost nor understood.

Source: k8s.io/kubelet v0.37.2, pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from atoll.adapters.formats.kubelet.protobuf import Field, Malformed, field, message_field, parsed
from atoll.core.shim.values import PluginDevice, PluginOptions, Question

VERSION = "v1beta1"
REGISTER = "/v1beta1.Registration/Register"
PLUGIN = "/v1beta1.DevicePlugin"
HEALTHY, UNHEALTHY = b"Healthy", b"Unhealthy"

DEVICES_MAX = 4096
ID_MAX = 255
"""Longer than any id that a kubelet takes, and short enough to be kept."""

NAME_MAX = 253
_DEVICE, _ID, _HEALTH, _TOPOLOGY, _NUMA, _NUMA_ID = 1, 1, 2, 3, 1, 1
_VERSION, _ENDPOINT, _RESOURCE, _OPTIONS = 1, 2, 3, 4
_PRE_START, _PREFERS = 1, 2
_CONTAINER, _AVAILABLE, _MUST, _SIZE, _IDS = 1, 1, 2, 3, 1


@dataclass(frozen=True, slots=True)
class Registration:
    """A plugin that makes itself known. Attributes: endpoint: name of its socket beside ours."""

    version: str
    endpoint: str
    resource: str
    options: PluginOptions


def registration_of(message: bytes) -> Registration:
    """Read a RegisterRequest.

    Raises:
        Malformed: it is none.
    """
    told = {each.number: each for each in parsed(message)}
    version, endpoint, resource = (_text(told.get(number)) for number in (_VERSION, _ENDPOINT, _RESOURCE))
    return Registration(version, endpoint, resource, options_of(_content(told.get(_OPTIONS))))


def registration_message(endpoint: str, resource: str, options: PluginOptions) -> bytes:
    """A RegisterRequest."""
    return (
        field(_VERSION, VERSION.encode())
        + field(_ENDPOINT, endpoint.encode())
        + field(_RESOURCE, resource.encode())
        + message_field(_OPTIONS, options_message(options))
    )


def options_of(message: bytes) -> PluginOptions:
    """Read DevicePluginOptions. Raises: Malformed."""
    on = {each.number for each in parsed(message) if each.value}
    return PluginOptions(_PRE_START in on, _PREFERS in on)


def options_message(options: PluginOptions) -> bytes:
    return field(_PRE_START, int(options.pre_start)) + field(_PREFERS, int(options.prefers))


def devices_of(message: bytes) -> tuple[PluginDevice, ...]:
    """The devices of a ListAndWatchResponse, in its order.

    Raises:
        Malformed: it is none, names a device twice or without an id, or has more of them than any node.
    """
    found: dict[str, PluginDevice] = {}
    for each in parsed(message):
        if each.number == _DEVICE:
            device = _device(_content(each))
            if device.id in found or len(found) >= DEVICES_MAX:
                raise Malformed
            found[device.id] = device
    return tuple(found.values())


def _device(message: bytes) -> PluginDevice:
    told = {each.number: each for each in parsed(message)}
    identity = _text(told.get(_ID), ID_MAX)
    if not identity:
        raise Malformed
    health = told.get(_HEALTH)
    nodes = (_content(each) for each in parsed(_content(told.get(_TOPOLOGY))) if each.number == _NUMA)
    return PluginDevice(identity, health is not None and health.value == HEALTHY, tuple(map(_numa, nodes)))


def _numa(node: bytes) -> int:
    """A number that is zero is not written at all."""
    numbers = (each.value for each in parsed(node) if each.number == _NUMA_ID)
    return next((number for number in numbers if isinstance(number, int)), 0)


def shown(message: bytes, *, strip: bool = False, sick: frozenset[str] = frozenset(), down: bool = False) -> bytes:
    """A ListAndWatchResponse as the kubelet is to see it.

    Args:
        strip: name no NUMA nodes. sick: ids that are to be called unhealthy. down: all are.
    """

    def one(device: bytes) -> bytes:
        told = list(parsed(device))
        masked = down or any(each.number == _ID and _text(each, ID_MAX) in sick for each in told)
        dropped = {*([_TOPOLOGY] if strip else []), *([_HEALTH] if masked else [])}
        kept = b"".join(each.raw for each in told if each.number not in dropped)
        return kept + (field(_HEALTH, UNHEALTHY) if masked else b"")

    return b"".join(
        message_field(_DEVICE, one(_content(each))) if each.number == _DEVICE else each.raw for each in parsed(message)
    )


def questions_of(message: bytes) -> tuple[Question, ...]:
    """The container requests of a PreferredAllocationRequest. Raises: Malformed."""
    return tuple(map(_question, _containers(message)))


def _question(message: bytes) -> Question:
    ids: dict[int, set[str]] = {_AVAILABLE: set(), _MUST: set()}
    size = 0
    for each in parsed(message):
        if each.number in ids:
            ids[each.number].add(_text(each, ID_MAX))
        elif each.number == _SIZE and isinstance(each.value, int):
            size = each.value
    if len(ids[_AVAILABLE]) > DEVICES_MAX:
        raise Malformed
    return Question(frozenset(ids[_AVAILABLE]), frozenset(ids[_MUST]), size)


def preferences_message(answers: Iterable[Iterable[str]]) -> bytes:
    """A PreferredAllocationResponse: per container the ids."""
    return b"".join(message_field(_CONTAINER, _ids(ids)) for ids in answers)


def allocated_of(message: bytes) -> tuple[frozenset[str], ...]:
    """Per container the ids of an AllocateRequest. Raises: Malformed."""
    return tuple(frozenset(_each_id(each)) for each in _containers(message))


def _containers(message: bytes) -> Iterator[bytes]:
    return (_content(each) for each in parsed(message) if each.number == _CONTAINER)


def _each_id(message: bytes) -> Iterator[str]:
    return (_text(each, ID_MAX) for each in parsed(message) if each.number == _IDS)


def _ids(ids: Iterable[str]) -> bytes:
    return b"".join(field(_IDS, each.encode()) for each in ids)


def _content(told: Field | None) -> bytes:
    """Of a field that may be missing."""
    if told is None:
        return b""
    if not isinstance(told.value, bytes):
        raise Malformed
    return told.value


def _text(told: Field | None, length_max: int = NAME_MAX) -> str:
    content = _content(told)
    if len(content) > length_max:
        raise Malformed
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed from None
