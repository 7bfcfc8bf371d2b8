"""`lstopo` as XML (hwloc 1, 2 and 3): GPUs with NUMA node, socket and the bridges above them, NICs, CPUs, GPU links.

A GPU is a PCI function, told by class and vendor or by what a driver put on it (nvml0, rsmi4). Several logical devices
on one function are one GPU, and a virtual function is a part of the physical one that is seen beside it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atoll.adapters.formats.hex_mask import id_ranges
from atoll.adapters.formats.lstopo_links import Matrix, links_of, matrices
from atoll.adapters.formats.lstopo_objects import Function, Objects, infos, number, objects_of
from atoll.adapters.formats.pci_class import is_gpu, is_gpu_class
from atoll.adapters.formats.xml_tree import Element
from atoll.core.errors import DumpError
from atoll.core.reading import CpuLayout, Format, Reading, Remark, SeenGpu, SeenNic, Source

GPUS_MAX = 256
_API = re.compile(r"(nvml|rsmi|cuda|ze|opencl)(\d{1,5})((?:[d.]\d{1,5})*)")
_MODEL_FROM = ("nvml", "rsmi", "cuda", "ze", "opencl")
_NET_AND_RDMA, _NET_AND_RDMA_BITS, _VERSION_OF_BITS = (2, 3), (1 << 4, 1 << 5), 3
_AMD_DIGITS = 16
_NVSWITCH = 0x0680


def recognises(root: Element) -> bool:
    """Whether this is a topology of hwloc; `root` was the name of its first versions."""
    return root.tag in {"topology", "root"} and any(
        child.get("type") in {"Machine", "System"} for child in root.all("object")
    )


def read(name: str, root: Element) -> tuple[Reading, ...]:
    """One reading for each machine in the topology.

    Raises:
        DumpError: a PCI function has no address or occurs twice, or there are more GPUs than any machine has.
    """
    tops = list(root.all("object"))
    machines = [m for top in tops for m in (top.all("object") if top.get("type") == "System" else (top,))]
    return tuple(_read_machine(name, root, machine) for machine in machines if machine.get("type") == "Machine")


def _read_machine(name: str, root: Element, machine: Element) -> Reading:
    objects = objects_of(name, machine)
    found = [function for function in objects.functions if _is_gpu(function)]
    if len(found) > GPUS_MAX:
        raise DumpError(
            name, found[GPUS_MAX].element.line, 1, found=f"more than {GPUS_MAX} GPUs", expected="one machine"
        )
    physical_of = _virtual(found)
    found.sort(key=lambda function: (function.address in physical_of, function.address))
    layout = objects.layout()
    gpus = _without_repeated_indices(
        [_gpu(function, objects, layout, physical_of.get(function.address)) for function in found]
    )
    tables = list(matrices(root))
    owners = {
        index: at for at, function in enumerate(found) for part in function.element.walk()
        if (index := part.get("gp_index")) is not None
    }  # fmt: skip
    switches = frozenset(
        index for function in objects.functions
        if function.code == _NVSWITCH and (index := function.element.get("gp_index")) is not None
    )  # fmt: skip
    links, shown = links_of([table for table in tables if isinstance(table, Matrix)], owners, switches, len(gpus))
    about = infos(root) | infos(machine)
    version = about.get("hwlocVersion")
    return Reading(
        source=Source(Format.LSTOPO, name, machine.line),
        node=about.get("HostName", ""),
        gpus=gpus if gpus or (objects.functions and not any(map(_api, objects.loose_devices))) else None,
        links=links,
        tables=shown,
        nics=tuple(_nics(objects, root)) if objects.functions else None,
        cpus=layout,
        versions=(("hwloc", version),) if version else (),
        remarks=(*(table for table in tables if isinstance(table, Remark)), *_remarks(objects, found, physical_of)),
        extras={
            "hwloc_xml_version": root.get("version") or "1",
            "numa_nodes": tuple(sorted(node.index for node in objects.nodes)),
            "root_buses": objects.buses,
            "logical_devices": {f.address: _logical_count(f) for f in found if f.address not in physical_of},
        },
    )


def _is_gpu(function: Function) -> bool:
    if is_gpu(function.code, function.vendor, function.device):
        return True
    apis = {api for device in function.devices if (api := _api(device))}
    return bool(apis - {"opencl"}) or (bool(apis) and is_gpu_class(function.code))


def _api(device: Element) -> str | None:
    """By which interface an OS device is a GPU: nvml, cuda …; None where it is something else."""
    match = _API.fullmatch(device.get("name") or "")
    if match is None:
        return None
    other = match[1] == "opencl" and not infos(device).get("OpenCLDeviceType", "GPU").startswith("GPU")
    return None if other else match[1]


def _virtual(found: Sequence[Function]) -> dict[str, str]:
    """Virtual functions -> the physical one.

    Below one port of a PCIe switch there is one card. Of its functions the virtual ones have no link of their own.
    """
    heads = {
        (function.address[:-4], function.vendor): function
        for function in found
        if function.linked and function.place.path and function.address.endswith("00.0")
    }
    virtual = {}
    for function in found:
        head = heads.get((function.address[:-4], function.vendor))
        if head is not None and head.place.path == function.place.path and function.linked is False:
            virtual[function.address] = head.address
    return virtual


def _gpu(function: Function, objects: Objects, layout: CpuLayout | None, physical: str | None) -> SeenGpu:
    devices = {name: device for device in function.devices if _api(device) and (name := device.get("name"))}
    by_api: dict[str, list[Element]] = {}
    for device in devices.values():
        by_api.setdefault(_api(device) or "", []).append(device)
    told: dict[str, str] = {}
    for api in _MODEL_FROM:
        for device in by_api.get(api, []):
            told = infos(device) | told
    counted = [*by_api.get("nvml", []), *by_api.get("rsmi", [])]
    nodes = (function.place.nodes or 0) & (objects.plain_nodes or -1)
    numa = nodes.bit_length() - 1 if nodes.bit_count() == 1 else None
    return SeenGpu(
        name=function.address,
        index=number((counted[0].get("name") or "")[len("nvml") :]) if len(counted) == 1 else None,
        uuid=told.get("NVIDIAUUID") or None,
        unique_id=told.get("AMDUUID") or None,
        serial=told.get("NVIDIASerial") or told.get("AMDSerial") or None,
        pci_address=function.address,
        physical=physical,
        numa=numa,
        numa_affinity=id_ranges(nodes) or None,
        socket=_socket(function, layout, numa),
        pcie_root=function.place.root,
        pcie_path=function.place.path,
        model=told.get("GPUModel") or infos(function.element).get("PCIDevice") or None,
        os_devices=tuple(devices),
    )


def _socket(function: Function, layout: CpuLayout | None, numa: int | None) -> int | None:
    if function.place.package is not None:
        return function.place.package
    if layout is None or numa is None:
        return None
    return layout.socket_of_node.get(numa)


def _without_repeated_indices(gpus: Sequence[SeenGpu]) -> tuple[SeenGpu, ...]:
    """nvml0 and rsmi0 are two tools' positions: where both count, neither is the machine's."""
    times = Counter(gpu.index for gpu in gpus)
    return tuple(replace(gpu, index=None) if times[gpu.index] > 1 else gpu for gpu in gpus)


def _logical_count(function: Function) -> int:
    """How many devices the most divided interface shows on one function; each OpenCL platform counts for itself."""
    counts: Counter[str] = Counter()
    for device in function.devices:
        match = _API.fullmatch(device.get("name") or "")
        if match is not None and "." not in match[3]:
            counts[match[1] + (match[2] if match[1] == "opencl" else "")] += 1
    return max(counts.values(), default=1)


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


def _remarks(objects: Objects, found: Sequence[Function], physical_of: dict[str, str]) -> Iterator[Remark]:
    for function in found:
        line = function.element.line
        if function.address in physical_of:
            whole = physical_of[function.address]
            yield Remark("DuplicateDevice", f"{function.address} is a virtual function of {whole}.", line)
        elif (count := _logical_count(function)) > 1:
            yield Remark("SharedAddress", f"{count} logical devices share the GPU {function.address}.", line)
        yield from _identity_remarks(function)
    bare = [function for function in found if not any(map(_api, function.devices))]
    if bare:
        text = f"No driver's device is on {len(bare)} of {len(found)} GPUs: hwloc saw no UUID of them."
        yield Remark("NotSupported", text, bare[0].element.line)
    for function in objects.functions:
        if is_gpu_class(function.code) and function.code >> 8 == 0x12 and function not in found:
            text = f"{function.address} is an accelerator of an unknown vendor and was left out."
            yield Remark("UnknownDevice", text, function.element.line)


def _identity_remarks(function: Function) -> Iterator[Remark]:
    """One for each oddity of a GPU, however many of its devices show it."""
    seen: dict[str, Remark] = {}
    for device in function.devices:
        told = infos(device)
        unique, uuid = told.get("AMDUUID"), told.get("NVIDIAUUID")
        if any(word and not word.removeprefix("GPU-").strip("0-") for word in (unique, uuid)):
            text = f"The identity of {function.address} is all zeros."
            seen.setdefault("MaskedUUID", Remark("MaskedUUID", text, device.line))
        if unique and len(unique) < _AMD_DIGITS:
            text = f"The unique id of {function.address} has {len(unique)} digits: leading zeros were left out."
            seen.setdefault("MalformedUUID", Remark("MalformedUUID", text, device.line))
    yield from seen.values()
