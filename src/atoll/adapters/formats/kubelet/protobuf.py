"""The wire form of protobuf messages, read without their schema: enough for the few fields that a checkpoint hides.

Nothing is allocated beyond slices of the given bytes, and every number is checked against their end.
"""

from collections.abc import Iterator

MESSAGE_MAX = 1 << 20
_VARINT_BYTES = 10
_FIXED = {1: 8, 5: 4}


class Malformed(ValueError):
    """The bytes are no protobuf message."""


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Field number and content of each length-delimited field, in order; numbers are skipped.

    Raises:
        Malformed: the bytes end within a field, or have a wire type that no message has.
    """
    if len(message) > MESSAGE_MAX:
        raise Malformed
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise Malformed
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
            if size > len(message) - at:
                raise Malformed
            yield number, message[at : at + size]
            at += size
        elif wire in _FIXED and len(message) - at >= _FIXED[wire]:
            at += _FIXED[wire]
        else:
            raise Malformed


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
