"""A topology for people: islands as tiles, the link matrix, the domains of each scope, and what is unknown."""

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from atoll.cli.topology_document import members
from atoll.core.domains import Domains, domains_of, nvlink_graph
from atoll.core.scope import Scope
from atoll.core.topology import Device, Health, NodeTopology, PairLink, PcieLink
from atoll.core.unknowns import unknowns_of

_STYLE = {PcieLink.PIX: "green", PcieLink.PXB: "green", PcieLink.PHB: "yellow", PcieLink.NODE: "yellow"}


def print_tiles(topology: NodeTopology, console: Console, *, wide: bool) -> None:
    """Print the topology; `wide` adds a line per GPU with everything known of it."""
    console.print(_headline(topology), soft_wrap=True)
    console.print(Columns(_islands(topology), padding=(0, 1)))
    console.print(_matrix(topology), soft_wrap=True)
    console.print()
    _print_domains(topology, console)
    if wide:
        console.print()
        console.print(_devices(topology), soft_wrap=True)
    for unknown in unknowns_of(topology):
        gpus = ranges(unknown.gpus)
        console.print(
            Text(f"unknown {unknown.fact} of GPU {gpus}: {unknown.matters}; {unknown.remedy}", "magenta"),
            soft_wrap=True,
        )


def _headline(topology: NodeTopology) -> Text:
    models = sorted({device.model for device in topology.devices if device.model})
    nics = f", {len(topology.nics)} NICs" if topology.nics else ""
    return Text(f"{len(topology.devices)} GPUs{nics}" + (f": {', '.join(models)}" if models else ""), "bold")


def _islands(topology: NodeTopology) -> list[RenderableType]:
    """One tile per NUMA domain; its lines are the PCIe switches (or single GPUs) in it."""
    domains = domains_of(topology)
    numa, switch = domains[Scope.NUMA_NODE], domains[Scope.PCIE_SWITCH]
    index = [device.index for device in topology.devices]
    tiles: list[RenderableType] = []
    for block in sorted(numa.closed + numa.open, key=lambda mask: mask & -mask):
        lines = [
            Text("  ".join(f"GPU{number}" for number in members(index, group & block)), "cyan")
            for group in sorted(switch.closed + switch.open, key=lambda mask: mask & -mask)
            if group & block
        ]
        tiles.append(Panel(Group(*lines), title=_title(topology, block, known=block in numa.closed), expand=False))
    return tiles


def _title(topology: NodeTopology, block: int, *, known: bool) -> str:
    inside = [device for position, device in enumerate(topology.devices) if block >> position & 1]
    nodes, sockets = {device.numa for device in inside}, {device.socket for device in inside}
    node = nodes.pop() if len(nodes) == 1 else None
    socket = sockets.pop() if len(sockets) == 1 else None
    name = "NUMA ?" if node is None and not known else "NUMA domain" if node is None else f"NUMA {node}"
    return name if socket is None else f"{name} · socket {socket}"


def _matrix(topology: NodeTopology) -> Text:
    """The matrix as nvidia-smi would print it, with both facts of a pair where both are known."""
    labels = [f"GPU{device.index}" for device in topology.devices] + [nic.name for nic in topology.nics]
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
        return f"NV{link.nvlinks}" + (f"/{link.pcie}" if link.pcie else "")
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
    blocks = sorted(domains.closed + domains.open, key=lambda mask: mask & -mask)
    return " ".join(
        "{" + ranges(tuple(members(index, block))) + "}" + ("" if block in domains.closed else "?") for block in blocks
    )


def ranges(numbers: tuple[int, ...]) -> str:
    """0,1,2,5 as 0-2,5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _devices(topology: NodeTopology) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("GPU", "UUID", "PCI", "NUMA", "SOCKET", "CPUS", "ROOT", "SWITCH", "MODEL", "STATE"):
        table.add_column(heading, no_wrap=True, overflow="ignore")
    for device in topology.devices:
        table.add_row(*(str(value) if value is not None else "?" for value in _facts(device)))
    return table


def _facts(device: Device) -> tuple[object, ...]:
    numa = device.numa if device.numa is not None else device.numa_affinity
    state = "MIG" if device.mig else "" if device.health == Health.HEALTHY else str(device.health)
    return (
        device.index, device.uuid, device.pci_address, numa, device.socket, device.cpu_affinity, device.pcie_root,
        device.pcie_switch, device.model, state,
    )  # fmt: skip
