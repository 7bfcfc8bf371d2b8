"""A topology for people: islands as tiles, the link matrix, the domains of each scope, and what is unknown."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from atoll.cli.tiles import FREE, OUT, WIDTH, Island, Tile, draw, plain
from atoll.cli.topology.document import members
from atoll.cli.topology.notes import print_blind, print_notes
from atoll.core.audit.picture import Blind
from atoll.core.domains import Domains, domains_of, nvlink_graph
from atoll.core.errors import printable
from atoll.core.evidence.machine import Machine
from atoll.core.id_list import ranges
from atoll.core.scope import Scope
from atoll.core.topology import Device, Health, NodeTopology, PairLink, PcieLink
from atoll.core.unknowns import unknowns_of

_STYLE = {PcieLink.PIX: "green", PcieLink.PXB: "green", PcieLink.PHB: "yellow", PcieLink.NODE: "yellow"}


def print_machines(machines: Sequence[Machine], blind: Sequence[Blind], console: Console, *, wide: bool) -> None:
    """Print every machine of a folder, each under its name, and what was not read."""
    for machine in machines:
        console.print(Text(printable(machine.name), "bold reverse"), soft_wrap=True)
        print_machine(machine, console, wide=wide)
        console.print()
    console.print(Text(f"{len(machines)} machine{'' if len(machines) == 1 else 's'}", "bold"), soft_wrap=True)
    print_blind(blind, console, wide=wide)


def print_machine(machine: Machine, console: Console, *, wide: bool) -> None:
    """Print one machine; `wide` adds a line per GPU with everything known of it."""
    if machine.topology is None:
        console.print(Text("GPUs unknown: no source lists them", "magenta"), soft_wrap=True)
    elif not machine.topology.devices:
        console.print(Text("no GPU", "bold"), soft_wrap=True)
    else:
        print_topology(machine.topology, console, wide=wide)
    print_notes(machine, console, wide=wide)


def print_topology(topology: NodeTopology, console: Console, *, wide: bool) -> None:
    """Print the topology; `wide` adds a line per GPU with everything known of it."""
    console.print(_headline(topology), soft_wrap=True)
    for line in draw(_islands(topology), min(WIDTH, console.width)):
        console.print(plain(line, console.encoding), soft_wrap=True)
    console.print()
    console.print(_matrix(topology), soft_wrap=True)
    console.print()
    _print_domains(topology, console)
    if wide:
        console.print()
        console.print(Text(_devices(topology)), soft_wrap=True)
    for unknown in unknowns_of(topology):
        gpus = ranges(unknown.gpus)
        console.print(
            Text(f"unknown {unknown.fact} of GPU {gpus}: {unknown.matters}; {unknown.remedy}", "magenta"),
            soft_wrap=True,
        )


def _headline(topology: NodeTopology) -> Text:
    models = sorted({device.model for device in topology.devices if device.model})
    nics = f", {len(topology.nics)} NICs" if topology.nics else ""
    return Text(f"{len(topology.devices)} GPUs{nics}" + (f": {printable(', '.join(models))}" if models else ""), "bold")


def _islands(topology: NodeTopology) -> list[Island]:
    """One island per NUMA domain; a lost, sick or split GPU is marked, and the foot tells the PCIe switches inside."""
    domains = domains_of(topology)
    numa, switch = domains[Scope.NUMA_NODE], domains[Scope.PCIE_SWITCH]
    index = [device.index for device in topology.devices]
    islands = []
    for block in _sorted(numa):
        tiles = tuple(
            Tile(device.index, OUT if device.mig or device.health != Health.HEALTHY else FREE)
            for position, device in enumerate(topology.devices)
            if block >> position & 1
        )
        inside = [members(index, group & block) for group in _sorted(switch)]
        shared = " ".join(f"{{{ranges(group)}}}" for group in inside if len(group) > 1)
        foot = f"PCIe switch {shared}" if shared else ""
        islands.append(Island(_title(topology, block, known=block in numa.closed), tiles, foot))
    return islands


def _sorted(domains: Domains) -> list[int]:
    """All blocks by their lowest GPU."""
    return sorted(domains.closed + domains.open, key=lambda mask: mask & -mask)


def _title(topology: NodeTopology, block: int, *, known: bool) -> str:
    inside = [device for position, device in enumerate(topology.devices) if block >> position & 1]
    nodes, sockets = {device.numa for device in inside}, {device.socket for device in inside}
    node = nodes.pop() if len(nodes) == 1 else None
    socket = sockets.pop() if len(sockets) == 1 else None
    name = "NUMA ?" if node is None and not known else "NUMA domain" if node is None else f"NUMA {node}"
    return name if socket is None else f"{name} · socket {socket}"


def _matrix(topology: NodeTopology) -> Text:
    """The matrix as nvidia-smi would print it, with both facts of a pair where both are known."""
    labels = [f"GPU{device.index}" for device in topology.devices] + [printable(nic.name) for nic in topology.nics]
    words = [[_word(link) if a != b else "X" for b, link in enumerate(row)] for a, row in enumerate(topology.links)]
    for at, row in enumerate(words):
        row += [str(nic.links[at] or "?") for nic in topology.nics]
    width = max(len(word) for word in [*labels, *(word for row in words for word in row)]) + 2
    text = Text(" " * width + "".join(f"{label:<{width}}" for label in labels).rstrip() + "\n", "bold")
    for at, row in enumerate(words):
        text.append(f"{labels[at]:<{width}}", "bold")
        for other, word in enumerate(row):
            link = topology.links[at][other] if other < len(topology.links) else None
            text.append(f"{word:<{width}}", _style(link) if link and other != at else "")
        text.rstrip()
        text.append("\n")
    text.rstrip()
    return text


def _word(link: PairLink) -> str:
    if link.nvlinks:
        return f"{link}" + (f"/{link.pcie}" if link.pcie else "")
    return str(link.pcie or "?")


def _style(link: PairLink) -> str:
    if link.nvlinks:
        return "bold green"
    return "" if link.pcie is None else _STYLE.get(link.pcie, "red")


def _print_domains(topology: NodeTopology, console: Console) -> None:
    index = [device.index for device in topology.devices]
    for scope, domains in domains_of(topology).items():
        console.print(Text(f"{scope:<11} ", "bold") + Text(_sets(index, domains)), soft_wrap=True)
    graph = nvlink_graph(topology)
    pairs = sum(mask.bit_count() for mask in graph.linked) // 2
    unknown = sum(mask.bit_count() for mask in graph.unknown) // 2
    everyone = len(index) * (len(index) - 1) // 2
    told = f"{pairs} of {everyone} pairs linked" + (f", {unknown} unknown" if unknown else "")
    console.print(Text(f"{Scope.NVLINK:<11} ", "bold") + Text(told), soft_wrap=True)


def _sets(index: list[int], domains: Domains) -> str:
    """Closed blocks in braces; blocks that may belong to another one's domain get a question mark."""
    return " ".join(
        "{" + ranges(members(index, block)) + "}" + ("" if block in domains.closed else "?")
        for block in _sorted(domains)
    )


def _devices(topology: NodeTopology) -> str:
    """One line per GPU; as wide as it needs to be, because a cut UUID is of no use."""
    rows: list[tuple[str, ...]] = [("GPU", "UUID", "PCI", "NUMA", "SOCKET", "CPUS", "ROOT", "SWITCH", "MODEL", "STATE")]
    rows += [
        tuple("?" if fact is None else printable(str(fact)) for fact in _facts(device)) for device in topology.devices
    ]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    return "\n".join(
        "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _facts(device: Device) -> tuple[object, ...]:
    numa = device.numa if device.numa is not None else device.numa_affinity
    state = "MIG" if device.mig else "" if device.health == Health.HEALTHY else str(device.health)
    return (
        device.index, device.uuid, device.pci_address, numa, device.socket, device.cpu_affinity, device.pcie_root,
        device.pcie_switch, device.model, state,
    )  # fmt: skip
