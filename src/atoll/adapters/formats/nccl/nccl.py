"""The topology XML of NCCL and RCCL, dumped (`NCCL_TOPO_DUMP_FILE`) or written by hand: GPUs, NICs, NVLink and xGMI.

NCCL's PCIe tree begins at the topmost switch below a NUMA node. Root complexes are not named in it, and root ports and
the ports of switches are left out. So two functions under one topmost element surely share a switch, and under two of
them surely share none; whether those meet in one root complex is not known.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atoll.adapters.formats.hwloc.hex_mask import hex_mask
from atoll.adapters.formats.nccl.links import Fabric, fabric_of
from atoll.adapters.formats.nccl.tree import Function, functions_of, number
from atoll.adapters.formats.pci.kinds import Kind, kind_of
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.errors import DumpError
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, Reading, Remark, SeenGpu, SeenNic, Source
from atoll.core.id_list import id_text
from atoll.core.topology import PairLink, PcieLink

GPUS_MAX = 256
_PARTS = {"cpu", "pci", "gpu"}
_ROOT_BUS = ":00"


def recognises(root: Element) -> bool:
    """Whether this is a topology for NCCL."""
    return root.tag == "system" and any(child.tag in _PARTS for child in root.children)


def read(name: str, root: Element) -> tuple[Reading, ...]:
    """One reading for each host; a dump of a multi-node NVLink system holds several.

    Raises:
        DumpError: a GPU has no address, two have one, or there are more than any machine has.
    """
    hosts: dict[str, list[Element]] = {}
    for child in root.children:
        if child.tag not in _PARTS:
            continue
        hosts.setdefault(child.get("host_hash") or "", []).append(child)
    return tuple(_read_host(name, root, host, parts) for host, parts in hosts.items())


def _read_host(name: str, root: Element, host: str, parts: Sequence[Element]) -> Reading:
    functions = functions_of(name, parts)
    found = [function for function in functions if _is_gpu(function)]
    if len(found) > GPUS_MAX:
        raise DumpError(
            name, found[GPUS_MAX].element.line, 1, found=f"more than {GPUS_MAX} GPUs", expected="one machine"
        )
    fabric = fabric_of(found)
    torn = _torn(found)
    gpus, remarks = _with_indices([_gpu(function, torn) for function in found])
    return Reading(
        source=Source(Format.NCCL, name, root.line),
        gpus=gpus or None,  # it lists what a job used, so none is not "none there"
        links=tuple(
            tuple(
                replace(fabric.pair(a, b), pcie=_class(one, other)) if a != b else PairLink()
                for b, other in enumerate(found)
            )
            for a, one in enumerate(found)
        ),
        nics=tuple(_nics(parts, functions, found)) or None,
        remarks=(*remarks, *fabric.remarks, *_remarks(found)),
        extras={
            "version": root.get("version") or "",
            "host_hash": host,
            "parents": {function.address: function.path for function in functions},
            "fabric": _facts(fabric),
        },
    )


def _facts(fabric: Fabric) -> dict[str, object] | None:
    if fabric.kind is None:
        return None
    return {"kind": str(fabric.kind), "degrees": fabric.degrees, "switch": fabric.switched}


def _is_gpu(function: Function) -> bool:
    kind = kind_of(function.address, "", function.class_code, function.vendor, function.device)
    return function.element.child("gpu") is not None or kind == Kind.GPU


def _torn(found: Sequence[Function]) -> frozenset[str]:
    """Topmost elements that stand below several NUMA nodes: a made-up address was used twice, or a node is wrong."""
    nodes: dict[str, set[int | None]] = {}
    for function in found:
        nodes.setdefault(function.top, set()).add(function.numa)
    return frozenset(top for top, numas in nodes.items() if len(numas) > 1)


def _gpu(function: Function, torn: frozenset[str]) -> SeenGpu:
    gpu = function.element.child("gpu")
    cpus = hex_mask(function.affinity)
    return SeenGpu(
        name=function.address,
        index=None if gpu is None else number(gpu.get("dev")),
        pci_address=function.address,
        numa=function.numa,
        cpu_affinity=id_text(cpus) if cpus else None,
        pcie_switch=None if function.top in torn or _is_made_up(function) else function.top,
    )


def _is_made_up(function: Function) -> bool:
    """Whether it hangs on the root bus itself, as only a hypervisor shows a GPU: the switches are hidden then."""
    return not function.path and function.address[: -len(":00.0")].endswith(_ROOT_BUS)


def _with_indices(gpus: Sequence[SeenGpu]) -> tuple[tuple[SeenGpu, ...], list[Remark]]:
    """A number that several GPUs bear is the position of none: each process counted what it saw."""
    times = Counter(gpu.index for gpu in gpus if gpu.index is not None)
    repeated = sorted(index for index, count in times.items() if count > 1)
    if not repeated:
        return tuple(gpus), []
    text = f"Several GPUs have the device number {', '.join(map(str, repeated))}, so it orders none of them."
    kept = tuple(replace(gpu, index=None) if gpu.index in repeated else gpu for gpu in gpus)
    return kept, [Remark("Inconsistent", text)]


def _class(one: Function, other: Function) -> PcieLink | None:
    """The class of a pair where the tree is sure of it. Without a common switch only NUMA nodes tell."""
    if one.path and other.path and one.top == other.top:
        if one.numa != other.numa:
            return None
        return PcieLink.PIX if one.path == other.path else PcieLink.PXB
    if one.numa is not None and other.numa is not None and one.numa != other.numa:
        return PcieLink.SYS
    return None


def _nics(parts: Sequence[Element], functions: Sequence[Function], gpus: Sequence[Function]) -> Iterator[SeenNic]:
    """The networks by name: those of PCI functions, then those of none, which NCCL puts below some CPU."""
    for function in functions:
        links = tuple(_class(function, gpu) for gpu in gpus)
        for name in _networks(function.element):
            yield SeenNic(name, name, pci_address(function.address), None, function.numa, links=links)
    for part in parts:
        for name in _networks(part):
            yield SeenNic(name, name, numa=number(part.get("numaid")))


def _networks(owner: Element) -> Iterator[str]:
    for nic in (owner, *owner.all("nic")):
        for net in nic.all("net"):
            if name := net.get("name"):
                yield name


def _remarks(found: Sequence[Function]) -> Iterator[Remark]:
    bare = [function for function in found if function.element.child("gpu") is None]
    if bare:
        text = f"{len(bare)} of {len(found)} GPUs are only PCI functions here: NCCL added nothing of what it saw."
        yield Remark("NotSupported", text, bare[0].element.line)
    for top in sorted(_torn(found)):
        yield Remark("Inconsistent", f"{top} stands below several NUMA nodes, so it is taken for no switch.")
