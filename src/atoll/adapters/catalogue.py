"""Well-known machines by name, from machine files that ship with the package; for demo, simulation and tests.

The files hold hardware facts and no identity. A loaded machine gets UUIDs made from the name of its node, so that two
nodes never share one and every run shows the same.
"""

from dataclasses import replace
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from atoll.adapters.formats.read import read_topology
from atoll.adapters.formats.text.text import DumpFile
from atoll.core.errors import AtollError, quoted
from atoll.core.topology import NodeTopology

_FOLDER = files("atoll") / "catalogue"
_SUFFIX = ".yaml"


@cache
def names() -> tuple[str, ...]:
    """The machines that exist, sorted."""
    found = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def load(name: str, node: str) -> NodeTopology:
    """A machine as the node of that name would be.

    Raises:
        AtollError: no machine has this name; the message lists those that exist.
    """
    machine = _machine(name)
    return machine.with_devices(tuple(replace(device, uuid=_uuid(node, device.index)) for device in machine.devices))


@cache
def _machine(name: str) -> NodeTopology:
    if name not in names():
        raise AtollError(f"no machine {quoted(name)} in the catalogue; there are: {', '.join(names())}")
    file = _FOLDER / (name + _SUFFIX)
    return read_topology([DumpFile(name + _SUFFIX, file.read_bytes())])


def _uuid(node: str, index: int) -> str:
    digits = blake2b(f"{node}/{index}".encode(), digest_size=16).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
