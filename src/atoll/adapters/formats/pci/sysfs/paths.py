"""Paths of sysfs: which function, interface, NUMA node or CPU a path means, and which bridges its real path names."""

import re
from dataclasses import dataclass

from atoll.core.evidence.identity import pci_address

_FULL = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]"
_ADDRESS = re.compile(rf"(?<![\w:.]){_FULL}(?!\w)")
_CHAIN = re.compile(rf"\bpci([0-9A-Fa-f]{{4,8}}):([0-9A-Fa-f]{{2}})\b((?:/{_FULL}(?!\w))*)")
_DRIVER_NAME = re.compile(r"\b(net|infiniband)/([A-Za-z][\w.\-@]{0,63})")
_NODE = re.compile(r"(?:^|/)node(\d{1,4})$")
_CPU = re.compile(r"(?:^|/)cpu(\d{1,5})/topology$")
DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Chain:
    """`pci0000:15/0000:15:01.0/…`: a root complex and the functions below it, the last of which is perhaps a device."""

    root: str
    functions: tuple[str, ...]
    start: int
    end: int


def chain_in(text: str) -> Chain | None:
    """The real path in a line. Below a VMD there is a second root, which is the one that counts."""
    start, found = 0, None
    for match in _CHAIN.finditer(text):
        start, found = start if found else match.start(), match
    if found is None or found[3].count("/") > DEPTH_MAX:
        return None
    functions = tuple(filter(None, map(pci_address, found[3].split("/"))))
    return Chain(f"pci{int(found[1], 16):04x}:{found[2].lower()}", functions, start, found.end())


def addresses_in(text: str) -> list[str]:
    """PCI addresses with a domain, each once, in order."""
    return list(dict.fromkeys(filter(None, map(pci_address, _ADDRESS.findall(text)))))


def address_of(path: str) -> str | None:
    """The function that a path below /sys lies in: its last address."""
    found = addresses_in(path)
    return found[-1] if found else None


def interface_of(path: str) -> tuple[str, str] | None:
    """("net", "eth0") or ("infiniband", "mlx5_0") where the path goes through one."""
    match = _DRIVER_NAME.search(path)
    return (match[1], match[2]) if match else None


def node_of(path: str) -> int | None:
    match = _NODE.search(path)
    return int(match[1]) if match else None


def cpu_of(path: str) -> int | None:
    match = _CPU.search(path)
    return int(match[1]) if match else None
