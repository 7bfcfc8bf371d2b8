"""Every parser with what it is fuzzed by: the registry's formats by the name of their module, and those beside it.

A format that is new in the registry is fuzzed as soon as it has seeds here, and a test fails until it has.
"""

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import yaml

from atoll.adapters.catalogue import load, names
from atoll.adapters.formats.cluster import prometheus, resource_slice
from atoll.adapters.formats.kubelet.allocate_response import visible_devices
from atoll.adapters.formats.machine import machine_file
from atoll.adapters.formats.nvidia_smi.render import render_matrix
from atoll.adapters.formats.read import read_file, read_topology
from atoll.adapters.formats.readers import OBJECT_FORMATS, TEXT_FORMATS, XML_FORMATS
from atoll.adapters.formats.text.documents import documents, items_of
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.adapters.formats.text.xml_tree import parse_xml
from atoll.adapters.snapshot_file import lines_of
from atoll.adapters.snapshot_file import load as load_snapshot
from atoll.core.audit.picture import AuditEvent, Blind, Component, Metric, Role
from atoll.core.errors import DumpError
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Disagreement, SeenRemark
from atoll.core.evidence.reading import CpuLayout, Format, Remark, Source
from tests.core.audit.pictures import node, picture, pod
from tests.fuzz.markup import markup_mutant
from tests.fuzz.messages import answer_mutant
from tests.fuzz.mutations import mutant
from tests.fuzz.seeds import cluster, machines, nvidia, vendors
from tests.fuzz.values import object_mutant, text_of_changed

FILE = "mutant"
_SEEN_BY = Source(Format.LSPCI, "lspci.txt", 7)

TEXT_SEEDS: dict[str, Sequence[str]] = {
    "amd_smi": vendors.AMD,
    "gpu_list": nvidia.GPU_LIST,
    "lscpu": machines.LSCPU,
    "lspci": machines.LSPCI,
    "mx_smi": vendors.METAX,
    "npu_smi": vendors.NPU,
    "numactl": machines.NUMACTL,
    "p2p": nvidia.P2P,
    "query_text": nvidia.QUERY,
    "query_xml": nvidia.QUERY_XML,
    "rocm_smi": vendors.ROCM,
    "sysfs": machines.SYSFS,
    "topo": nvidia.TOPO,
}
XML_SEEDS: dict[str, Sequence[str]] = {"lstopo": machines.LSTOPO, "nccl": machines.NCCL}
OBJECT_SEEDS: dict[str, Sequence[Any]] = {
    "amd_smi": vendors.AMD_JSON,
    "gpu_node": cluster.GPU_NODE,
    "hami": cluster.HAMI,
    "koordinator": cluster.KOORDINATOR,
    "checkpoint": cluster.CHECKPOINT,
    "configuration": cluster.KUBELET_CONFIG,
    "state": cluster.KUBELET_STATE,
    "labels": cluster.LABELS,
    "node_resource_topology": cluster.NODE_RESOURCES,
    "numatopology": cluster.NUMATOPOLOGY,
    "pod_resources": cluster.POD_RESOURCES,
    "rocm_smi": vendors.ROCM_JSON,
}


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser.

    Args:
        mutate: (seed, random source) -> an input as bytes.
        read: an input -> whether it parsed. What it may raise is a DumpError.
    """

    name: str
    seeds: Sequence[Any]
    mutate: Callable[[Any, Random], bytes]
    read: Callable[[bytes], bool]


def _text(seed: str, rng: Random) -> bytes:
    return mutant(seed, rng).encode(errors="surrogatepass")


def _strict_text(seed: str, rng: Random) -> bytes:
    """Few mutations, for a format in which almost each is an error."""
    return mutant(seed, rng, most=2).encode(errors="surrogatepass")


def _lines(seed: str, rng: Random) -> bytes:
    """One object per line: one of them is changed, or several change places, or the text is."""
    if rng.random() < 0.3:
        return _strict_text(seed, rng)
    header, *lines = seed.splitlines()
    rng.shuffle(lines)
    at = rng.randrange(len(lines) * 3)
    if at < len(lines):
        lines[at] = text_of_changed(json.loads(lines[at]), rng).replace("\n", " ")
    return "\n".join((header, *lines, "")).encode(errors="surrogatepass")


def _read_text(recognises: Callable[[DumpText], bool], read: Callable[[DumpText], Any], content: bytes) -> bool:
    text = decode(DumpFile(FILE, content))
    return recognises(text) and bool(read(text))


def _read_xml(recognises: Callable[[Any], bool], read: Callable[[str, Any], Any], content: bytes) -> bool:
    root = parse_xml(decode(DumpFile(FILE, content)))
    return recognises(root) and bool(read(FILE, root))


def _read_objects(recognises: Callable[[Any], bool], read: Callable[[str, Any, int], Any], content: bytes) -> bool:
    found = False
    for document in documents(decode(DumpFile(FILE, content))):
        for item in items_of(document):
            if recognises(item.value):
                read(FILE, item.value, item.line)
                found = True
    return found


def _read_documents(content: bytes) -> bool:
    return bool([item for found in documents(decode(DumpFile(FILE, content))) for item in items_of(found)])


def _read_whole(content: bytes) -> bool:
    """As the audit reads a file, up to the one machine that its readings tell of."""
    found = read_file(DumpFile(FILE, content))
    join(FILE, found.readings)
    return True


def _read_snapshot(content: bytes) -> bool:
    return bool(load_snapshot(FILE, io.BytesIO(content)))


def _read_answer(content: bytes) -> bool:
    return visible_devices(content.decode(errors="surrogatepass")) is not None


def _module(read: Callable[..., Any]) -> str:
    return read.__module__.rpartition(".")[2]


def _of_registry() -> list[Parser]:
    found = []
    for text in TEXT_FORMATS:
        name = _module(text.read)
        mutate = markup_mutant if name == "query_xml" else _text
        found.append(Parser(name, _seeds(TEXT_SEEDS, name), mutate, partial(_read_text, text.recognises, text.read)))
    for xml in XML_FORMATS:
        name, read = _module(xml.read), partial(_read_xml, xml.recognises, xml.read)
        found.append(Parser(name, _seeds(XML_SEEDS, name), markup_mutant, read))
    taken = {parser.name for parser in found}
    for form in OBJECT_FORMATS:
        name, read = _module(form.read), partial(_read_objects, form.recognises, form.read)
        shown = f"{name}-json" if name in taken else name
        found.append(Parser(shown, _seeds(OBJECT_SEEDS, name), object_mutant, read))
    return found


def _seeds(known: dict[str, Sequence[Any]], name: str) -> Sequence[Any]:
    assert name in known, f"{name} is read and not fuzzed: it has no seeds"
    return known[name]


def _read_machine_file(text: DumpText) -> Any:
    return machine_file.parse_machine(text).devices


def _read_metrics_json(_name: str, value: Any, _line: int) -> Any:
    return prometheus.read_json(value)


def _read_topology(content: bytes) -> bool:
    return bool(read_topology([DumpFile(FILE, content)]).devices)


def _dumps() -> list[str]:
    """What nvidia-smi would print on the machines of the catalogue."""
    return [*nvidia.TOPO, *nvidia.GPU_LIST, *(render_matrix(load(name, "fuzz")) for name in names())]


def _snapshots() -> list[str]:
    """One with every kind of line, and one whose machine has every kind of fact."""
    pods = (pod("a", "n1", (0, 1)), pod("w", "", 4, phase="Pending"))
    told = node(
        "n1",
        "01",
        cpus=CpuLayout({0: 3, 1: 12}, {0: 0, 1: 1}, 2),
        provenance={(0, "numa"): _SEEN_BY, (1, "links"): _SEEN_BY},
        remarks=(SeenRemark(_SEEN_BY, Remark("OfflineCPU", "CPU 3 is offline", 4)),),
        disagreements=(Disagreement((0,), "numa", ((_SEEN_BY, "0"), (_SEEN_BY, "1"))),),
    )
    seen = (
        picture(
            node("n1", "0"),
            pods=pods,
            events=(AuditEvent("Pod", "team", "w", "FailedScheduling", "0/2 nodes", 7),),
            metrics=(Metric("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0"}, 12.5),),
            blind=(Blind("events", "forbidden"),),
        ),
        picture(told, components=(Component(Role.DEVICE_PLUGIN, "x", "v1", settings=(("MIG_STRATEGY", "none"),)),)),
    )
    return [b"".join(lines_of(each)).decode() for each in seen]


def _beside_registry() -> list[Parser]:
    """Parsers of what is no reading, of text below the formats, and of whole files above them."""
    objects = [value for seeds in OBJECT_SEEDS.values() for value in seeds]
    texts = [text for seeds in (*TEXT_SEEDS.values(), *XML_SEEDS.values()) for text in seeds]
    as_json = [json.dumps(value, indent=1) for value in objects]
    as_yaml = [str(yaml.safe_dump(value, sort_keys=False)) for value in objects if isinstance(value, dict)]
    slices = partial(_read_objects, resource_slice.recognises, resource_slice.read)
    answers = partial(_read_objects, prometheus.recognises_json, _read_metrics_json)
    metrics = partial(_read_text, prometheus.recognises, lambda text: prometheus.read_metrics(text)[0])
    ours = partial(_read_text, machine_file.is_machine_file, _read_machine_file)
    return [
        Parser("allocate_response", cluster.ANSWERS, answer_mutant, _read_answer),
        Parser("json", as_json, _text, _read_documents),
        Parser("machine_file", cluster.MACHINE_FILES, _strict_text, ours),
        Parser("prometheus", cluster.METRICS, _text, metrics),
        Parser("prometheus-json", cluster.PROMETHEUS, object_mutant, answers),
        Parser("resource_slice", cluster.RESOURCE_SLICE, object_mutant, slices),
        Parser("snapshot_file", _snapshots(), _lines, _read_snapshot),
        Parser("topology", _dumps(), _text, _read_topology),
        Parser("whole_file", [*texts, *as_json, *cluster.MACHINE_FILES], _text, _read_whole),
        Parser("yaml", as_yaml, _text, _read_documents),
    ]


def parsers() -> tuple[Parser, ...]:
    """All of them, by name."""
    return tuple(sorted((*_of_registry(), *_beside_registry()), key=lambda parser: parser.name))


def unchanged(seed: Any) -> bytes:
    """The seed as an input."""
    if isinstance(seed, bytes):
        return base64.b64encode(seed)
    return (seed if isinstance(seed, str) else json.dumps(seed)).encode()


def check_place(refused: DumpError) -> None:
    """A refusal names the file and, where it names a line, one that can be."""
    assert str(refused).startswith(FILE), f"a refusal without its place: {refused}"
    assert refused.line >= 0
    assert refused.column >= 0
