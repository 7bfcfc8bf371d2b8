"""The GPUs of one machine in an hwloc XML: which PCI functions they are, which are parts of others, what is odd.

A driver's devices on a function (nvml0, cuda0, rsmi4) make it a GPU where class and vendor do not, and carry its
identity. Several of them on one function, as AMD's partitions have, are one GPU.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from atoll.adapters.formats.hwloc.tree import Function, Objects, infos, number
from atoll.adapters.formats.pci.kinds import Kind, is_accelerator, is_gpu_class, kind_of
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.evidence.identity import is_masked
from atoll.core.evidence.reading import CpuLayout, Remark, SeenGpu
from atoll.core.id_list import id_text

_API = re.compile(r"(nvml|rsmi|cuda|ze|opencl)(\d{1,5})((?:[d.]\d{1,5})*)")
_MODEL_FROM = ("nvml", "rsmi", "cuda", "ze", "opencl")
_AMD_DIGITS = 16


def is_gpu_function(function: Function) -> bool:
    """Whether it is a GPU by its ids, or by a driver's device on it: OpenCL runs on FPGAs and network cards too."""
    told = infos(function.element)
    description = f"{told.get('PCIVendor', '')} {told.get('PCIDevice', '')}".strip()
    if kind_of(function.address, description, function.class_code, function.vendor, function.device) == Kind.GPU:
        return True
    apis = {api for device in function.devices if (api := api_of(device))}
    return bool(apis - {"opencl"}) or (bool(apis) and is_gpu_class(function.class_code or ""))


def api_of(device: Element) -> str | None:
    """By which interface an OS device is a GPU: nvml, cuda …; None where it is something else."""
    match = _API.fullmatch(device.get("name") or "")
    if match is None:
        return None
    other = match[1] == "opencl" and not infos(device).get("OpenCLDeviceType", "GPU").startswith("GPU")
    return None if other else match[1]


def virtual_functions(found: Sequence[Function]) -> dict[str, str]:
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


def seen_gpus(
    found: Sequence[Function], objects: Objects, layout: CpuLayout | None, physical_of: Mapping[str, str]
) -> tuple[SeenGpu, ...]:
    """The functions as GPUs, in their order."""
    return _without_repeated([_gpu(function, objects, layout, physical_of.get(function.address)) for function in found])


def _gpu(function: Function, objects: Objects, layout: CpuLayout | None, physical: str | None) -> SeenGpu:
    devices = {name: device for device in function.devices if api_of(device) and (name := device.get("name"))}
    by_api: dict[str, list[Element]] = {}
    for device in devices.values():
        by_api.setdefault(api_of(device) or "", []).append(device)
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
        numa_affinity=id_text(nodes) or None,
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


def _without_repeated(gpus: Sequence[SeenGpu]) -> tuple[SeenGpu, ...]:
    """nvml0 and rsmi0 are two tools' positions: where both count, neither is the machine's."""
    times = Counter(gpu.index for gpu in gpus)
    return tuple(replace(gpu, index=None) if times[gpu.index] > 1 else gpu for gpu in gpus)


def logical_count(function: Function) -> int:
    """How many devices the most divided interface shows on one function; each OpenCL platform counts for itself."""
    counts: Counter[str] = Counter()
    for device in function.devices:
        match = _API.fullmatch(device.get("name") or "")
        if match is not None and "." not in match[3]:
            counts[match[1] + (match[2] if match[1] == "opencl" else "")] += 1
    return max(counts.values(), default=1)


def remarks_on(objects: Objects, found: Sequence[Function], physical_of: Mapping[str, str]) -> Iterator[Remark]:
    """What a person should know of the GPUs, and of what may be one."""
    for function in found:
        line = function.element.line
        if function.address in physical_of:
            whole = physical_of[function.address]
            yield Remark("DuplicateDevice", f"{function.address} is a virtual function of {whole}.", line)
        elif (count := logical_count(function)) > 1:
            yield Remark("SharedAddress", f"{count} logical devices share the GPU {function.address}.", line)
        yield from _identity_remarks(function)
    whole_gpus = [function for function in found if function.address not in physical_of]
    bare = [function for function in whole_gpus if not any(map(api_of, function.devices))]
    if bare:
        text = f"No driver's device is on {len(bare)} of {len(whole_gpus)} GPUs: hwloc saw no UUID of them."
        yield Remark("NotSupported", text, bare[0].element.line)
    taken = {function.address for function in found}
    for function in objects.functions:
        if is_accelerator(function.class_code or "") and function.address not in taken:
            text = f"{function.address} is an accelerator of an unknown vendor and was left out."
            yield Remark("UnknownModel", text, function.element.line)


def _identity_remarks(function: Function) -> Iterator[Remark]:
    """One for each oddity of a GPU, however many of its devices show it."""
    seen: dict[str, Remark] = {}
    for device in function.devices:
        told = infos(device)
        unique, uuid = told.get("AMDUUID"), told.get("NVIDIAUUID")
        if any(word and is_masked(word) for word in (unique, uuid)):
            text = f"The identity of {function.address} is blanked out and names no GPU."
            seen.setdefault("MaskedUUID", Remark("MaskedUUID", text, device.line))
        if unique and len(unique) < _AMD_DIGITS:
            text = f"The unique id of {function.address} has {len(unique)} digits: leading zeros were left out."
            seen.setdefault("MalformedUUID", Remark("MalformedUUID", text, device.line))
    yield from seen.values()
