"""What a printed GPU UUID is worth: a masked, repeated or misspelt one is a finding, and is kept as it was printed."""

import re
from collections.abc import Iterable

from atoll.core.errors import quoted
from atoll.core.evidence.reading import Remark, SeenGpu

_HEX = re.compile(r"(?:GPU|MIG)-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MASK = re.compile(r"(?i:GPU-|MIG-)?(?:[0-]+|[xX*#?-]+|.*(?i:redacted|masked|removed).*)")


def as_printed(uuid: str) -> str:
    """The UUID as it was printed, its digits in the lower case in which sources are compared."""
    return uuid[:4] + uuid[4:].lower() if _HEX.fullmatch(uuid) else uuid


def is_masked(uuid: str) -> bool:
    """Whether an author wrote zeros or a mark over it, so that it names no GPU."""
    return _MASK.fullmatch(uuid) is not None


def uuid_remarks(gpus: Iterable[tuple[SeenGpu, int]]) -> tuple[Remark, ...]:
    """What is odd about the UUIDs of one list; each GPU comes with its line."""
    remarks: list[Remark] = []
    owner: dict[str, str] = {}
    for gpu, line in gpus:
        if gpu.uuid is None:
            continue
        if is_masked(gpu.uuid):
            text = f"{gpu.name} has the masked UUID {quoted(gpu.uuid)}, which is no identity."
            remarks.append(Remark("MaskedUUID", text, line))
        elif _HEX.fullmatch(gpu.uuid) is None:
            text = f"{gpu.name} has the UUID {quoted(gpu.uuid)}, which is not hexadecimal."
            remarks.append(Remark("MalformedUUID", text, line))
        if gpu.uuid in owner:
            text = f"{gpu.name} has the UUID {quoted(gpu.uuid)} of {owner[gpu.uuid]}."
            remarks.append(Remark("RepeatedUUID", text, line))
        owner.setdefault(gpu.uuid, gpu.name)
    return tuple(remarks)
