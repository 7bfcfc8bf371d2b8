"""What a printed GPU UUID is worth: a masked, repeated or misspelt one is a finding, and is kept as it was printed."""

from collections.abc import Iterable

from atoll.core.errors import quoted
from atoll.core.evidence.identity import is_hexadecimal, is_masked
from atoll.core.evidence.reading import Remark, SeenGpu


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
        elif not is_hexadecimal(gpu.uuid):
            text = f"{gpu.name} has the UUID {quoted(gpu.uuid)}, which is not hexadecimal."
            remarks.append(Remark("MalformedUUID", text, line))
        if gpu.uuid in owner:
            text = f"{gpu.name} has the UUID {quoted(gpu.uuid)} of {owner[gpu.uuid]}."
            remarks.append(Remark("RepeatedUUID", text, line))
        owner.setdefault(gpu.uuid, gpu.name)
    return tuple(remarks)
