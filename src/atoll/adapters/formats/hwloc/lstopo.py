"""`lstopo` as XML (hwloc 1, 2 and 3): GPUs with NUMA node, socket and the bridges above them, NICs, CPUs, GPU links.

A GPU is a PCI function, told by class and vendor or by what a driver put on it (nvml0, rsmi4). Several logical devices
on one function are one GPU, and a virtual function is a part of the physical one that is seen beside it.
"""

from collections.abc import Iterator

from atoll.adapters.formats.hwloc.gpus import (
    api_of,
    is_gpu_function,
    logical_count,
    remarks_on,
    seen_gpus,
    virtual_functions,
)
from atoll.adapters.formats.hwloc.links import Matrix, links_of, matrices
from atoll.adapters.formats.hwloc.tree import Objects, infos, number, objects_of
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, Reading, Remark, SeenNic, Source

GPUS_MAX = 1024
"""With virtual functions: ten cards of 32 each are real."""
_NET_AND_RDMA, _NET_AND_RDMA_BITS, _VERSION_OF_BITS = (2, 3), (1 << 4, 1 << 5), 3
_NVSWITCH = "0680"


def recognises(root: Element) -> bool:
    """Whether this is a topology of hwloc; `root` was the name of its first versions."""
    return root.tag in {"topology", "root"} and any(
        child.get("type") in {"Machine", "System"} for child in root.all("object")
    )


def read(name: str, root: Element) -> tuple[Reading, ...]:
    """One reading for each machine in the topology.

    Raises:
        DumpError: there is no machine, a PCI function has no address or occurs twice, or there are more GPUs than any
            machine has.
    """
    tops = list(root.all("object"))
    inner = [part for top in tops for part in (top.all("object") if top.get("type") == "System" else (top,))]
    machines = [part for part in inner if part.get("type") == "Machine"]
    if not machines:
        raise DumpError(name, root.line, 1, found="a topology without a Machine", expected="output of `lstopo`")
    return tuple(_read_machine(name, root, machine) for machine in machines)


def _read_machine(name: str, root: Element, machine: Element) -> Reading:
    objects = objects_of(name, machine)
    found = [function for function in objects.functions if is_gpu_function(function)]
    if len(found) > GPUS_MAX:
        raise DumpError(
            name, found[GPUS_MAX].element.line, 1, found=f"more than {GPUS_MAX} GPUs", expected="one machine"
        )
    physical_of = virtual_functions(found)
    found.sort(key=lambda function: (function.address in physical_of, function.address))
    layout = objects.layout()
    gpus = seen_gpus(found, objects, layout, physical_of)
    tables = list(matrices(root))
    owners = {
        index: at for at, function in enumerate(found) for part in function.element.walk()
        if (index := part.get("gp_index")) is not None
    }  # fmt: skip
    switches = frozenset(
        index for function in objects.functions
        if function.class_code == _NVSWITCH and (index := function.element.get("gp_index")) is not None
    )  # fmt: skip
    links, shown = links_of([table for table in tables if isinstance(table, Matrix)], owners, switches, len(gpus))
    about = infos(root) | infos(machine)
    version = about.get("hwlocVersion")
    return Reading(
        source=Source(Format.LSTOPO, name, machine.line),
        node=about.get("HostName", ""),
        gpus=gpus if gpus or (objects.functions and not any(map(api_of, objects.loose_devices))) else None,
        links=links,
        tables=shown,
        nics=tuple(_nics(objects, root)) if objects.functions else None,
        cpus=layout,
        versions=(("hwloc", version),) if version else (),
        remarks=(*(table for table in tables if isinstance(table, Remark)), *remarks_on(objects, found, physical_of)),
        extras={
            "hwloc_xml_version": root.get("version") or "1",
            "numa_nodes": tuple(sorted(node.index for node in objects.nodes)),
            "root_buses": objects.buses,
            "logical_devices": {f.address: logical_count(f) for f in found if f.address not in physical_of},
        },
    )


def _nics(objects: Objects, root: Element) -> Iterator[SeenNic]:
    """PCI functions with a network device on them, by the name of its RDMA device where it has one."""
    version = number((root.get("version") or "1").partition(".")[0]) or 1
    net, rdma = _NET_AND_RDMA_BITS if version >= _VERSION_OF_BITS else _NET_AND_RDMA
    for function in objects.functions:
        names: dict[int, list[str]] = {net: [], rdma: []}
        for device in function.devices:
            kind = number(device.get("osdev_type")) or 0
            for one in {net, rdma}:
                if kind & one if version >= _VERSION_OF_BITS else kind == one:
                    names[one].append(device.get("name") or "")
        first = next((name for name in (*names[rdma], *names[net]) if name), None)
        if first is None:
            continue
        nodes = (function.place.nodes or 0) & (objects.plain_nodes or -1)
        yield SeenNic(
            name=first,
            device=first,
            pci_address=function.address,
            numa=nodes.bit_length() - 1 if nodes.bit_count() == 1 else None,
            pcie_root=function.place.root,
            pcie_path=function.place.path,
        )
