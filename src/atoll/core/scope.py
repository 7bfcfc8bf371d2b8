"""Scopes: the kinds of topology domain that a pod can ask for.

The chain PCIeSwitch, PCIeRoot, NUMANode, Socket, Node runs from narrow to wide. NVLink and Partition stand beside it:
an NVLink domain is a set of pairwise linked GPUs, a Partition is a set that an administrator declared. In a list they
come before the chain, so that one order is legal and a typing error is refused.
"""

from enum import StrEnum


class Scope(StrEnum):
    """Where the GPUs of one grant must lie. The spelling is API; the order of the members is the order of a list."""

    PARTITION = "Partition"
    NVLINK = "NVLink"
    PCIE_SWITCH = "PCIeSwitch"
    PCIE_ROOT = "PCIeRoot"
    NUMA_NODE = "NUMANode"
    SOCKET = "Socket"
    NODE = "Node"

    @property
    def width(self) -> int:
        """Position from narrow (0) to wide; between nodes the smaller width is preferred."""
        return WIDTH[self]


WIDTH: dict[Scope, int] = {scope: width for width, scope in enumerate(Scope)}

CHAIN: tuple[Scope, ...] = (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE)
"""Scopes that partition a node's GPUs, narrow to wide."""

DEFAULT_SCOPES: tuple[Scope, ...] = (Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE)
"""The built-in list for pods that ask for no scope."""
