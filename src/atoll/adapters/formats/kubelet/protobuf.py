"""The wire form of protobuf messages, read and written without their schema: enough for the kubelet's few messages.

Nothing is allocated beyond slices of the given bytes, and every number is checked against their end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MESSAGE_MAX = 1 << 20
_VARINT_BYTES = 10
_FIXED = {1: 8, 5: 4}


class Malformed(ValueError):
    """The bytes are no protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        value: the content of a length-delimited field, else the number. raw: the whole field, as it came.
    """

    number: int
    value: int | bytes
    raw: bytes


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Field number and content of each length-delimited field, in order; numbers are skipped.

    Raises:
        Malformed: see `parsed`.
    """
    return ((each.number, each.value) for each in parsed(message) if isinstance(each.value, bytes))


def parsed(message: bytes) -> Iterator[Field]:
    """Every field, in order.

    Raises:
        Malformed: the bytes end within a field, or have a wire type that no message has.
    """
    if len(message) > MESSAGE_MAX:
        raise Malformed
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise Malformed
        value: int | bytes
        if wire == 0:
            value, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
            if size > len(message) - at:
                raise Malformed
            value = message[at : at + size]
            at += size
        elif wire in _FIXED and len(message) - at >= _FIXED[wire]:
            value = int.from_bytes(message[at : at + _FIXED[wire]], "little")
            at += _FIXED[wire]
        else:
            raise Malformed
        yield Field(number, value, message[start:at])


def field(number: int, value: int | bytes) -> bytes:
    """One field; nothing where it has its type's zero, as protobuf 3 writes it."""
    if isinstance(value, int):
        return b"" if value == 0 else _number(number << 3) + _number(value)
    return b"" if not value else _number(number << 3 | 2) + _number(len(value)) + value


def message_field(number: int, message: bytes) -> bytes:
    """A message within a message, which is written also where it is empty."""
    return field(number, message) or _number(number << 3 | 2) + b"\0"


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_BYTES):
        if at + shift >= len(message):
            raise Malformed
        byte = message[at + shift]
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise Malformed
