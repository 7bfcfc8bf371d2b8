"""Atoll's own `GPUNode`: the inventory that the agent or `topology publish` wrote, read like any other source."""

import msgspec

from atoll.adapters.formats.machine.known_topology import reading_of
from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import text_at
from atoll.adapters.kube import wire_atoll as wire
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.reading import Format, Reading, Source


def recognises(value: Value) -> bool:
    return text_at(value, "kind") == "GPUNode" and text_at(value, "apiVersion").partition("/")[0] == "atoll.dev"


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """One reading; none while the object has no status yet.

    Raises:
        DumpError: the object is not what Atoll writes, or contradicts itself.
    """
    try:
        inventory = inventory_of(msgspec.convert(value, wire.GpuNode))
    except (msgspec.ValidationError, ValueError) as error:
        found = f"a broken GPUNode ({quoted(str(error))})"
        raise DumpError(name, line, 1, found=found, expected="a GPUNode as Atoll writes it") from None
    if inventory is None:
        return ()
    return (reading_of(Source(Format.GPU_NODE, name, line), inventory.topology, inventory.node),)
