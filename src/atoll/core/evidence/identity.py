"""By what a GPU is known: a UUID that can be one, or its PCI address. A masked or repeated UUID names nothing.

Names are compared as text. Real UUIDs hold letters that are no hex digits, so only what cannot tell two GPUs apart is
refused: one that its author blanked out, one that several GPUs bear, one that is a stub.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from atoll.core.evidence.reading import SeenGpu

NAME_MIN = 8
"""Shorter names are numbers of a list ("0", "npu1") and not identities."""

NAMES_KEPT = 1 << 14
"""The same names are asked of many times while a node is joined."""

_BLANKED = re.compile(r"\*|\.\.|…|x{4}|redact|mask|hidden|removed|^n/?a$|unknown|not.supported", re.IGNORECASE)
_HEX_UUID = re.compile(r"(?:(gpu|mig)-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_SHARE = re.compile(r"((?:GPU|MIG)-[0-9a-zA-Z]{8}(?:-[0-9a-zA-Z]{4}){3}-[0-9a-zA-Z]{12})(?:::\d{1,6}|[-_]\d{1,6})?")
_ADDRESS = re.compile(r"(?:([0-9A-Fa-f]{1,8}):)?([0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7])")


@lru_cache(maxsize=NAMES_KEPT)
def plain_uuid(uuid: str) -> str:
    """A UUID in the spelling by which it is compared and granted: hex digits in lower case, others as they are."""
    found = _HEX_UUID.fullmatch(uuid.strip())
    return uuid.strip() if found is None else (f"{found[1].upper()}-" if found[1] else "") + found[2].lower()


def is_hexadecimal(uuid: str) -> bool:
    """Whether it is a UUID as its standard writes it."""
    return _HEX_UUID.fullmatch(uuid) is not None


def shared_uuid(device_id: str) -> str | None:
    """The UUID in a device id: GPU-…::3 and GPU-…-1 are shares of GPU-…; None for what holds no UUID."""
    found = _SHARE.fullmatch(device_id)
    return found[1] if found else None


def is_masked(uuid: str) -> bool:
    """Whether its digits were blanked out: one character throughout, or stars, dots and the like."""
    body = uuid.strip().lower().removeprefix("gpu-").removeprefix("mig-")
    digits = {char for char in body if char.isalnum()}
    return len(digits) < 2 or _BLANKED.search(body) is not None


@lru_cache(maxsize=NAMES_KEPT)
def is_name(uuid: str | None) -> bool:
    """Whether it could be an identity, apart from other GPUs bearing it too."""
    return uuid is not None and not is_masked(uuid) and sum(map(str.isalnum, uuid)) >= NAME_MIN


def usable_uuids(gpus: Sequence[SeenGpu]) -> tuple[str | None, ...]:
    """Each entry's UUID where it is an identity. One that entries at different PCI addresses bear is none."""
    plain = [plain_uuid(gpu.uuid) if gpu.uuid is not None and is_name(gpu.uuid) else None for gpu in gpus]
    places: dict[str, set[str]] = {}
    for at, (gpu, uuid) in enumerate(zip(gpus, plain, strict=True)):
        if uuid is not None:
            places.setdefault(uuid, set()).add(address_of(gpu) or f"entry {at}")
    return tuple(uuid if uuid is not None and len(places[uuid]) == 1 else None for uuid in plain)


def repeated_uuids(gpus: Sequence[SeenGpu]) -> tuple[str, ...]:
    """UUIDs that look like identities but that several GPUs bear."""
    usable = usable_uuids(gpus)
    borne = Counter(
        plain_uuid(gpu.uuid)
        for gpu, uuid in zip(gpus, usable, strict=True)
        if uuid is None and gpu.uuid is not None and is_name(gpu.uuid)
    )
    return tuple(borne)


def pci_address(text: str) -> str | None:
    """The address in its one spelling, 0000:19:00.0, by which sources are joined; None when the text is none.

    nvidia-smi prints eight digits of domain and capitals, lspci leaves the domain 0 out, sysfs prints four digits or
    more.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}"


@lru_cache(maxsize=NAMES_KEPT)
def plain_address(address: str) -> str:
    """An address in its one spelling, and what is none as it is."""
    return pci_address(address) or address.strip().lower()


def address_of(gpu: SeenGpu) -> str | None:
    """The PCI address of the physical GPU that the entry is, or is a part of."""
    address = gpu.physical or gpu.pci_address
    return None if address is None else plain_address(address)
