"""All formats that are read: how each recognises its own, and what reads it. A new format is one line here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from atoll.adapters.formats.amd import amd_smi, rocm_smi
from atoll.adapters.formats.cluster import gpu_node, hami, koordinator, labels, node_resource_topology, numatopology
from atoll.adapters.formats.hwloc import lstopo
from atoll.adapters.formats.kubelet import checkpoint as kubelet_checkpoint
from atoll.adapters.formats.kubelet import configuration as kubelet_config
from atoll.adapters.formats.kubelet import pod_resources
from atoll.adapters.formats.kubelet import state as kubelet_state
from atoll.adapters.formats.machine import lscpu, numactl
from atoll.adapters.formats.nccl import nccl
from atoll.adapters.formats.nvidia_smi import gpu_list, p2p, query_text, query_xml, topo
from atoll.adapters.formats.pci import lspci, sysfs
from atoll.adapters.formats.squares import mx_smi, npu_smi
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.evidence.reading import Reading


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A tool's text.

    Attributes:
        vendor: "" = any. Rows of vendors' tools look alike, and no node has GPUs of two: the first vendor counts.
        fails_as_nvidia_smi: an error of nvidia-smi in the file means that this output is not whole.
        marks: one of these is in every such text, which is cheaper to ask of a large file; () = none is known.
    """

    recognises: Callable[[DumpText], bool]
    read: Callable[[DumpText], tuple[Reading, ...]]
    vendor: str = ""
    fails_as_nvidia_smi: bool = False
    marks: tuple[str, ...] = ()

    def is_in(self, text: DumpText) -> bool:
        return (not self.marks or any(mark in text.raw for mark in self.marks)) and self.recognises(text)


@dataclass(frozen=True, slots=True)
class XmlFormat:
    """A tool's XML, by its root element."""

    recognises: Callable[[Element], bool]
    read: Callable[[str, Element], tuple[Reading, ...]]


@dataclass(frozen=True, slots=True)
class ObjectFormat:
    """An object of JSON or YAML: (file, value, line). ResourceSlices are not here: `read` takes them together.

    Attributes:
        kinds: the kinds of Kubernetes in which it occurs, so that a hundred thousand Pods are not asked for more.
        bare: whether it also occurs without a kind.
    """

    recognises: Callable[[Any], bool]
    read: Callable[[str, Any, int], tuple[Reading, ...]]
    kinds: tuple[str, ...] = ()
    bare: bool = True


TEXT_FORMATS = (
    TextFormat(topo.recognises, topo.read, "NVIDIA", fails_as_nvidia_smi=True, marks=("GPU",)),
    TextFormat(gpu_list.recognises, gpu_list.read, "NVIDIA", fails_as_nvidia_smi=True, marks=("GPU",)),
    TextFormat(p2p.recognises, p2p.read, "NVIDIA", fails_as_nvidia_smi=True, marks=("GPU",)),
    TextFormat(query_text.recognises, query_text.read, "NVIDIA", marks=("GPU", "SMI LOG")),
    TextFormat(query_xml.recognises, query_xml.read, "NVIDIA", marks=("smi_log",)),
    TextFormat(lscpu.recognises, lscpu.read, marks=("CPU", "NUMA")),
    TextFormat(numactl.recognises, numactl.read, marks=("node", "NUMA")),
    TextFormat(lspci.recognises, lspci.read),
    TextFormat(sysfs.recognises, sysfs.read, marks=("/", "pci")),
    TextFormat(rocm_smi.recognises, rocm_smi.read, "AMD"),
    TextFormat(amd_smi.recognises, amd_smi.read, "AMD"),
    TextFormat(npu_smi.recognises, npu_smi.read, "Huawei"),
    TextFormat(mx_smi.recognises, mx_smi.read, "MetaX"),
)


def text_formats(text: DumpText) -> tuple[TextFormat, ...]:
    """The formats of which something is in the text."""
    found: list[TextFormat] = []
    vendor = ""
    for form in TEXT_FORMATS:
        if (not form.vendor or vendor in {"", form.vendor}) and form.is_in(text):
            found.append(form)
            vendor = vendor or form.vendor
    return tuple(found)


XML_FORMATS = (XmlFormat(lstopo.recognises, lstopo.read), XmlFormat(nccl.recognises, nccl.read))

OBJECT_FORMATS = (
    ObjectFormat(rocm_smi.recognises_json, rocm_smi.read_json),
    ObjectFormat(amd_smi.recognises_json, amd_smi.read_json),
    ObjectFormat(kubelet_checkpoint.recognises, kubelet_checkpoint.read),
    ObjectFormat(kubelet_state.recognises, kubelet_state.read),
    ObjectFormat(pod_resources.recognises, pod_resources.read),
    ObjectFormat(kubelet_config.recognises, kubelet_config.read, kinds=("KubeletConfiguration", "ConfigMap")),
    ObjectFormat(
        node_resource_topology.recognises, node_resource_topology.read, kinds=("NodeResourceTopology",), bare=False
    ),
    ObjectFormat(numatopology.recognises, numatopology.read, kinds=("Numatopology",), bare=False),
    ObjectFormat(hami.recognises, hami.read, kinds=("Node", "Pod")),
    ObjectFormat(labels.recognises, labels.read, kinds=("Node",)),
    ObjectFormat(gpu_node.recognises, gpu_node.read, kinds=("GPUNode",), bare=False),
    ObjectFormat(koordinator.recognises, koordinator.read, kinds=("Device",), bare=False),
)

_BY_KIND = {
    kind: tuple(form for form in OBJECT_FORMATS if kind in form.kinds) for form in OBJECT_FORMATS for kind in form.kinds
}
_BARE = tuple(form for form in OBJECT_FORMATS if form.bare)


def object_formats(value: object) -> tuple[ObjectFormat, ...]:
    """The formats that the value is of."""
    kind = value.get("kind") if isinstance(value, dict) else None
    candidates = _BY_KIND.get(kind, ()) if isinstance(kind, str) and kind else _BARE
    return tuple(form for form in candidates if form.recognises(value))
