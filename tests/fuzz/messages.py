"""Ways in which a protobuf message in base64 goes wrong: bytes lost, changed, doubled, lengths that lie."""

import base64
from random import Random

BYTES = (0, 1, 2, 8, 10, 13, 0x12, 0x2A, 0x7F, 0x80, 0xFF)
ENDS = (b"\x18\x01", b"\x08" + b"\xff" * 9 + b"\x01", b"\x0d\x00\x00\x00\x00", b"\x09" + b"\x00" * 8, b"\x0a\x00")


def answer_mutant(seed: bytes, rng: Random) -> bytes:
    """Between none and three changes of the bytes, then base64, which is damaged too now and then."""
    message = bytearray(seed)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(message) + 1)
        match rng.randrange(6):
            case 0 if at < len(message):
                message[at] = rng.choice(BYTES)
            case 1 if at < len(message):
                message[at] = rng.randrange(32, 127)
            case 2:
                del message[at : at + rng.randrange(1, 4)]
            case 3:
                message += rng.choice(ENDS)
            case 4:
                message += bytes(message)
            case _:
                message += seed[: seed[1] + 2]
    encoded = base64.b64encode(message).decode()
    if rng.random() < 0.2:
        at = rng.randrange(len(encoded) + 1)
        encoded = encoded[:at] + rng.choice(("\n", " ", "=", "-", "é", "A", "\ud800")) + encoded[at:]
    return encoded.encode(errors="surrogatepass")
