"""What was read of one machine's sysfs so far, by PCI address, by name of an interface, and by NUMA node."""

import re
from dataclasses import dataclass, field

from atoll.adapters.formats.pci.functions import PciFunction
from atoll.adapters.formats.pci.sysfs.paths import Chain, address_of, chain_in, cpu_of, interface_of, node_of
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.reading import CpuLayout
from atoll.core.gpuset import positions
from atoll.core.id_list import ID_MAX, id_mask

FUNCTIONS_MAX = 65_536
ATTRIBUTES = ("numa_node", "vendor", "device", "class", "cpulist", "physical_package_id")

_NUMA = re.compile(r"-?\d{1,5}")
_HEX = re.compile(r"0x([0-9a-f]{4})(?:[0-9a-f]{2})?", re.IGNORECASE)


@dataclass(slots=True)
class Facts:
    """Everything read.

    Attributes:
        by_name: interfaces whose PCI address is not known yet; they carry a made-up address that is never shown.
        aliases: name of an interface -> PCI address.
        root_ports: function -> its root port, where no more of the path is told.
        current: the function that lines without an address speak of.
    """

    text: DumpText
    functions: dict[str, PciFunction] = field(default_factory=dict)
    by_name: dict[tuple[str, str], PciFunction] = field(default_factory=dict)
    aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    root_ports: dict[str, str] = field(default_factory=dict)
    node_cpus: dict[int, int] = field(default_factory=dict)
    package_of_cpu: dict[int, int] = field(default_factory=dict)
    first: int = 0
    current: PciFunction | None = None

    def function(self, address: str, number: int) -> PciFunction:
        """The function at an address, new where it is the first time."""
        if address not in self.functions and len(self.functions) == FUNCTIONS_MAX:
            raise self.refusal(number, f"more than {FUNCTIONS_MAX} functions", "one machine")
        self.first = self.first or number
        return self.functions.setdefault(address, PciFunction(address, number))

    def attribute(self, number: int, path: str, name: str, value: str) -> None:
        """One file of sysfs and what it holds."""
        if name == "cpulist":
            if (node := node_of(path)) is not None:
                self._cpulist(number, node, value)
        elif name == "physical_package_id":
            cpu = cpu_of(path)
            if cpu is not None and cpu <= ID_MAX and _NUMA.fullmatch(value) and int(value) >= 0:
                self.package_of_cpu[cpu] = int(value)
        elif owner := self._owner(number, path):
            self.note(number, owner, name, value)

    def _owner(self, number: int, path: str) -> PciFunction | None:
        interface = interface_of(path)
        if address := address_of(path):
            function = self.function(address, number)
            if chain := chain_in(path):
                self.route(number, function, chain)
            return function
        if interface and len(self.by_name) < FUNCTIONS_MAX:
            self.first = self.first or number
            return self.by_name.setdefault(interface, PciFunction("0000:00:00.0", number))
        return None

    def note(self, number: int, function: PciFunction, name: str, value: str) -> None:
        """One attribute of one function."""
        if name == "numa_node":
            self.numa(number, function, value)
            return
        match = _HEX.fullmatch(value)
        if match is None:
            return  # `device` is also a folder, and `class` a word of many tools
        code = match[1].lower()
        if name == "vendor":
            function.vendor = code
        elif name == "device":
            function.device = code
        elif name == "class":
            function.class_code = code

    def numa(self, number: int, function: PciFunction, value: str) -> None:
        """The NUMA node as printed; -1 is the kernel's word for unknown."""
        if not _NUMA.fullmatch(value) or int(value) > ID_MAX:
            raise self.refusal(number, f"numa_node {quoted(value)}", "a number, or -1 for unknown")
        if int(value) < 0:
            return
        if function.numa not in {None, int(value)}:
            raise self.refusal(number, f"NUMA node {value}", f"{function.numa}, as an earlier line says")
        function.numa = int(value)

    def route(self, number: int, function: PciFunction, chain: Chain) -> None:
        """The root complex of a function, and the bridges where the chain ends at the function itself."""
        if function.pcie_root not in {None, chain.root}:
            raise self.refusal(number, f"{function.address} below {chain.root}", f"{function.pcie_root}, as before")
        function.pcie_root = chain.root
        if function.address in chain.functions:
            function.pcie_path = chain.functions[: chain.functions.index(function.address)]
        elif chain.functions:
            self.root_ports[function.address] = chain.functions[0]

    def alias(self, address: str, interface: tuple[str, str] | None) -> None:
        if interface:
            self.aliases[interface] = address

    def _cpulist(self, number: int, node: int, value: str) -> None:
        cpus = id_mask(value) if value else 0
        if cpus is None:
            raise self.refusal(number, f"the CPUs {quoted(value)}", "a list such as 0-31,64-95")
        if self.node_cpus.get(node, cpus) != cpus:
            raise self.refusal(number, f"other CPUs of node {node}", "one list for each node")
        if any(cpus & other for known, other in self.node_cpus.items() if known != node):
            raise self.refusal(number, f"CPUs of node {node} that another node has", "each CPU once")
        self.first = self.first or number
        self.node_cpus[node] = cpus

    def named(self) -> list[PciFunction]:
        """Give functions the names of their interfaces. What is left are interfaces of unknown address."""
        for (kind, name), address in self.aliases.items():
            self._name(self.functions[address], kind, name)
        unplaced: list[PciFunction] = []
        for (kind, name), facts in self.by_name.items():
            place = self.aliases.get((kind, name))
            if place is None:
                self._name(facts, kind, name)
                unplaced.append(facts)
            else:
                function = self.functions[place]
                for attribute in ("numa", "vendor", "device", "class_code"):
                    if getattr(function, attribute) is None:
                        setattr(function, attribute, getattr(facts, attribute))
        return unplaced

    @staticmethod
    def _name(function: PciFunction, kind: str, name: str) -> None:
        if kind == "net":
            function.interface = function.interface or name
        else:
            function.rdma = function.rdma or name

    def layout(self) -> CpuLayout | None:
        """NUMA nodes with their CPUs, and their sockets where every CPU names its package."""
        if not self.node_cpus:
            return None
        packages: dict[int, int] = {}
        for node, cpus in self.node_cpus.items():
            told = cpus.bit_count() <= len(self.package_of_cpu)
            found = {self.package_of_cpu.get(cpu) for cpu in positions(cpus)} if told else set()
            if len(found) == 1 and (package := found.pop()) is not None:
                packages[node] = package
        whole = all(node in packages for node, cpus in self.node_cpus.items() if cpus)
        sockets = len(set(packages.values())) if whole and packages else None
        return CpuLayout(dict(sorted(self.node_cpus.items())), packages, sockets)

    def refusal(self, number: int, found: str, expected: str) -> DumpError:
        return self.text.line_refusal(
            number, found=found, expected=expected, remedy="Give the listings of two machines as two files."
        )
