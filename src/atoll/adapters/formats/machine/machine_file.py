"""The machine file: a node's topology as a person writes it, and as the catalogue is written.

    apiVersion: atoll.dev/v1alpha1
    kind: Machine
    name: two-by-two
    gpus:
    - {index: 0, numa: 0, socket: 0, cpus: "0-15"}
    - …
    pcie: |          # one row per GPU, in the order of `gpus`; "?" is unknown
      X    PIX  SYS  SYS
      …
    nvlink: |        # number of links
      X 4 0 0
      …
    nics:
    - {name: NIC0, device: mlx5_0, links: PIX PIX SYS SYS}

Every fact but a GPU's index may be left out, and is then unknown; the file can add to a dump what the dump lacks.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import yaml

from atoll.adapters.formats.nvidia_smi.header import GPUS_MAX, NICS_MAX
from atoll.adapters.formats.nvidia_smi.tokens import PCIE, SELF
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.yaml_fields import Fields, compose
from atoll.core.errors import quoted
from atoll.core.id_list import ID_MAX, single_id
from atoll.core.topology import Device, Health, Nic, NodeTopology, PairLink

API_VERSION = "atoll.dev/v1alpha1"
KIND = "Machine"
NVLINKS_MAX = 64
UNKNOWN = "?"

NAME = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PCI_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
ID_LIST = r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*"
WORD = r"[\w:./-]+"


def is_machine_file(text: DumpText) -> bool:
    """Whether the text says of itself that it is one, in YAML or JSON."""
    keys = [line.strip().lstrip('{"').replace('"', "").replace(" ", "") for line in text.lines[:200]]
    return any(key.startswith(("apiVersion:atoll.dev/", f"kind:{KIND}")) for key in keys)


def parse_machine(text: DumpText) -> NodeTopology:
    """Read a machine file.

    Raises:
        DumpError: broken, unknown version or key, or facts that contradict each other.
    """
    fields = compose(text)
    fields.allow("apiVersion", "kind", "name", "description", "model", "memoryMiB", "gpus", "pcie", "nvlink", "nics")
    if (version := fields.text("apiVersion")) != API_VERSION or (kind := fields.text("kind")) != KIND:
        found = f"apiVersion {version}" if version != API_VERSION else f"kind {kind}"
        raise fields.refusal(None, found=found, expected=f"apiVersion {API_VERSION}, kind {KIND}")
    fields.text("name", most=63, pattern=NAME)
    fields.text("description", most=2000, pattern=r"(?s:.*)")
    model, memory_mib = fields.text("model"), fields.number("memoryMiB", most=1 << 24)
    entries = fields.list_of("gpus", most=GPUS_MAX)
    if not entries:
        raise fields.refusal("gpus", found="no GPU", expected="a list of GPUs")
    devices = tuple(_device(entry, model, memory_mib) for entry in entries)
    for at, device in enumerate(devices):
        earlier = devices[:at]
        if any(device.index == other.index or (device.uuid and device.uuid == other.uuid) for other in earlier):
            raise entries[at].refusal("uuid", found="an index or UUID twice", expected="each GPU once")
    links = _links(_matrix(fields, "pcie", len(devices)), _matrix(fields, "nvlink", len(devices)))
    nics = tuple(_nic(entry, len(devices)) for entry in fields.list_of("nics", most=NICS_MAX))
    if len({nic.name for nic in nics}) != len(nics):
        raise fields.refusal("nics", found="a NIC name twice", expected="each NIC once")
    order = sorted(range(len(devices)), key=lambda at: devices[at].index)
    return NodeTopology(
        devices=tuple(devices[at] for at in order),
        links=tuple(tuple(links[a][b] for b in order) for a in order),
        nics=tuple(Nic(nic.name, tuple(nic.links[at] for at in order), nic.device) for nic in nics),
        nics_known=bool(nics),
    )


def _device(entry: Fields, model: str | None, memory_mib: int | None) -> Device:
    entry.allow("index", "uuid", "pci", "numa", "numaAffinity", "cpus", "pcieRoot", "pcieSwitch", "socket", "model",
                "memoryMiB", "mig", "health")  # fmt: skip
    index = entry.number("index", most=999)
    if index is None:
        raise entry.refusal(None, found="a GPU without index", expected="index: nvidia-smi's number of the GPU")
    health = entry.text("health", pattern="|".join(Health)) or Health.HEALTHY
    affinity = entry.text("numaAffinity", most=400, pattern=ID_LIST)
    numa = entry.number("numa", most=ID_MAX)
    own_memory = entry.number("memoryMiB", most=1 << 24)
    return Device(
        index=index,
        uuid=entry.text("uuid", pattern=UUID),
        pci_address=entry.text("pci", pattern=PCI_ADDRESS),
        numa=numa if numa is not None else single_id(affinity),
        numa_affinity=affinity,
        cpu_affinity=entry.text("cpus", most=400, pattern=ID_LIST),
        pcie_root=entry.text("pcieRoot", most=64, pattern=WORD),
        pcie_switch=entry.text("pcieSwitch", most=64, pattern=WORD),
        socket=entry.number("socket", most=1023),
        model=entry.text("model") or model,
        memory_mib=memory_mib if own_memory is None else own_memory,
        mig=entry.flag("mig"),
        health=Health(health),
    )


def _matrix(fields: Fields, name: str, count: int) -> list[list[str]]:
    """The words of a square, symmetric matrix; all "?" when it is absent."""
    rows = fields.rows(name)
    if rows is None:
        return [[UNKNOWN] * count for _ in range(count)]
    if len(rows) != count:
        raise fields.refusal(name, found=f"{len(rows)} rows", expected=f"{count}, one per GPU")
    known = {*PCIE} if name == "pcie" else {str(links) for links in range(NVLINKS_MAX + 1)}
    for a, (line, row) in enumerate(rows):
        if len(row) != count:
            at = min(len(row), count) - 1
            raise fields.cell_refusal(line, row, at, found=f"{len(row)} cells", expected=f"{count}, one per GPU")
        for b, cell in enumerate(row):
            expected = (
                "X" if a == b else f"{'PIX, PXB, PHB, NODE or SYS' if name == 'pcie' else 'a number of links'} or ?"
            )
            if cell != SELF if a == b else cell not in known and cell != UNKNOWN:
                raise fields.cell_refusal(line, row, b, found=quoted(cell), expected=expected)
            if b < a and cell != rows[b][1][a]:
                raise fields.cell_refusal(line, row, b, found=cell, expected=f"{rows[b][1][a]}: a matrix is symmetric")
    return [row for _, row in rows]


def _links(pcie: list[list[str]], nvlink: list[list[str]]) -> tuple[tuple[PairLink, ...], ...]:
    return tuple(
        tuple(
            PairLink() if a == b else PairLink(PCIE.get(cell), None if nvlink[a][b] == UNKNOWN else int(nvlink[a][b]))
            for b, cell in enumerate(row)
        )
        for a, row in enumerate(pcie)
    )


def _nic(entry: Fields, count: int) -> Nic:
    entry.allow("name", "device", "links")
    name = entry.text("name", most=64, pattern=WORD)
    links = (entry.text("links", most=6 * GPUS_MAX) or "").split()
    if name is None or len(links) != count or any(link not in PCIE and link != UNKNOWN for link in links):
        expected = f"name and {count} links of PIX, PXB, PHB, NODE, SYS or ?"
        raise entry.refusal("links", found="another NIC", expected=expected)
    return Nic(name, tuple(PCIE.get(link) for link in links), entry.text("device", most=64, pattern=WORD))


def render_machine(name: str, topology: NodeTopology, description: str = "") -> str:
    """Write a topology as a machine file; reading it gives the same topology."""
    head: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "name": name}
    if description:
        head["description"] = description
    parts = [yaml.safe_dump(head, sort_keys=False, width=110), "gpus:\n"]
    parts += [f"- {_flow(_device_fields(device))}\n" for device in topology.devices]
    pairs = [topology.links[a][b] for a, b in combinations(range(len(topology.devices)), 2)]
    if any(pair.pcie for pair in pairs):
        parts.append(_block("pcie", topology, lambda link: str(link.pcie or UNKNOWN)))
    if any(pair.nvlinks is not None for pair in pairs):
        parts.append(_block("nvlink", topology, lambda link: UNKNOWN if link.nvlinks is None else str(link.nvlinks)))
    if topology.nics:
        parts.append("nics:\n")
        parts += [f"- {_flow(_nic_fields(nic))}\n" for nic in topology.nics]
    return "".join(parts)


def _device_fields(device: Device) -> dict[str, Any]:
    fields = {
        "index": device.index,
        "uuid": device.uuid,
        "pci": device.pci_address,
        "numa": device.numa,
        "numaAffinity": device.numa_affinity,
        "cpus": device.cpu_affinity,
        "pcieRoot": device.pcie_root,
        "pcieSwitch": device.pcie_switch,
        "socket": device.socket,
        "model": device.model,
        "memoryMiB": device.memory_mib,
        "mig": device.mig or None,
        "health": None if device.health == Health.HEALTHY else str(device.health),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _nic_fields(nic: Nic) -> dict[str, Any]:
    links = " ".join(UNKNOWN if link is None else str(link) for link in nic.links)
    return {"name": nic.name, **({"device": nic.device} if nic.device else {}), "links": links}


def _flow(fields: dict[str, Any]) -> str:
    return yaml.safe_dump(fields, default_flow_style=True, sort_keys=False, width=10_000).strip()


def _block(name: str, topology: NodeTopology, word: Callable[[PairLink], str]) -> str:
    rows = [
        "  " + " ".join(f"{SELF if a == b else word(link):<4}" for b, link in enumerate(row)).rstrip() + "\n"
        for a, row in enumerate(topology.links)
    ]
    return f"{name}: |\n" + "".join(rows)
