"""Files in, what they say out: each file's formats are recognised by content, never by its name.

A text may be a capture of several commands; every format that recognises a part of it reads that part. Objects are
read one by one, and those of Kubernetes are kept for whoever looks at the cluster. Nothing is guessed: what cannot be
trusted is refused with file, line, column and what was expected.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atoll.adapters.formats.cluster import prometheus, resource_slice
from atoll.adapters.formats.machine.known_topology import reading_of
from atoll.adapters.formats.machine.machine_file import is_machine_file, parse_machine
from atoll.adapters.formats.nvidia_smi.failures import find_failure
from atoll.adapters.formats.nvidia_smi.header import find_header, starts_row
from atoll.adapters.formats.readers import XML_FORMATS, TextFormat, object_formats, text_formats
from atoll.adapters.formats.text.documents import Document, Value, documents, items_of, looks_structured, odd_members
from atoll.adapters.formats.text.json_weight import Scale
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.adapters.formats.text.words import words
from atoll.adapters.formats.text.xml_tree import find_xml, parse_xml
from atoll.adapters.snapshot_file import is_snapshot
from atoll.core.audit.picture import Metric
from atoll.core.errors import DumpError
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Disagreement, Machine
from atoll.core.evidence.reading import Format, Reading, Source
from atoll.core.topology import NodeTopology

FILES_MAX = 32
TEXT_IN_OBJECTS_MAX = 1 << 20
EXPECTED = (
    "the output of nvidia-smi, rocm-smi, amd-smi, npu-smi, mx-smi, lstopo, lspci, numactl or lscpu, a sysfs listing, "
    "an NCCL topology, objects of Kubernetes, a file of the kubelet, or a machine file"
)
_OBJECT = re.compile(r"""["']?\bkind["']?\s{0,9}:\s{0,9}["']?(?:GPU|PlacementPolicy|List\b)""")
REMEDY = "Are these files from one node, taken with the same GPUs visible?"

__all__ = ["DumpFile", "FileContent", "read_file", "read_topology"]


class UnknownFormatError(DumpError):
    """Nothing in the file is of a kind that is read here. In a folder that is ordinary."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """What one file says.

    Attributes:
        objects: every API object in it, in order; some of them gave readings too.
        metrics: samples about GPUs, as Prometheus prints them.
        refused: parts that cannot be trusted, beside others that can.
    """

    readings: tuple[Reading, ...] = ()
    objects: tuple[Document, ...] = ()
    refused: tuple[DumpError, ...] = ()
    metrics: tuple[Metric, ...] = ()


def read_file(file: DumpFile, scale: Scale | None = None) -> FileContent:
    """Read everything that is recognised in a file. `scale` knows what was kept of others.

    Raises:
        DumpError: nothing in it can be used.
    """
    text = decode(file)
    if is_snapshot(text.raw[:4096].encode(errors="replace")):
        raise DumpError(
            text.name, 0, 0, found="a snapshot", expected="files of nodes",
            remedy="Give it alone to `atoll audit` or `atoll topology show`.",
        )  # fmt: skip
    if is_machine_file(text) and not _is_object_of_ours(text):
        return FileContent((reading_of(Source(Format.MACHINE_FILE, text.name), parse_machine(text)),))
    begins_xml = next((line for line in text.lines if line.strip()), "").lstrip("\ufeff \t").startswith("<")
    if not begins_xml and looks_structured(text):
        return _structured(text, scale)
    if prometheus.recognises(text):
        metrics, refused = prometheus.read_metrics(text)
        if not metrics and not refused:
            raise UnknownFormatError(text.name, 1, 1, found="no metric of a GPU", expected=prometheus.EXPECTED)
        return FileContent(metrics=metrics, refused=refused)
    found = text_formats(text)
    if not found and find_xml(text) is not None:
        return _xml(text)
    if not found:
        raise find_failure(text) or _unknown(text)
    failure = find_failure(text) if all(form.fails_as_nvidia_smi for form in found) else None
    if failure is not None:
        raise failure
    return _from_texts(text, found)


def _from_texts(text: DumpText, found: Sequence[TextFormat]) -> FileContent:
    readings: list[Reading] = []
    refused: list[DumpError] = []
    for form in found:
        try:
            readings += form.read(text)
        except DumpError as error:
            refused.append(error)
    if refused and not readings:
        raise refused[0]
    if not readings:
        raise _unknown(text)
    return FileContent(tuple(sorted(readings, key=lambda reading: reading.source.line)), refused=tuple(refused))


def _xml(text: DumpText) -> FileContent:
    root = parse_xml(text)
    for form in XML_FORMATS:
        if form.recognises(root):
            return FileContent(form.read(text.name, root))
    found = f"XML that begins with <{root.tag[:60]}>"
    expected = "XML of lstopo, nvidia-smi -q -x or NCCL"
    raise UnknownFormatError(text.name, root.line, 1, found=found, expected=expected)


def _structured(text: DumpText, scale: Scale | None) -> FileContent:
    """Objects; or text that only looks like some, where it is broken as objects and a reader of text knows it."""
    try:
        found = documents(text, scale)
    except DumpError:
        forms = text_formats(text)
        if not forms:
            raise
        return _from_texts(text, forms)
    readings: list[Reading] = []
    objects: list[Document] = []
    refused: list[DumpError] = []
    metrics: list[Metric] = []
    slices: list[tuple[Value, int]] = []  # of one node in several objects, so they are read together
    for document in found:
        refused += odd_members(text.name, document)
        for item in items_of(document):
            if prometheus.recognises_json(item.value):
                metrics += prometheus.read_json(item.value)
            if resource_slice.recognises(item.value):
                slices.append((item.value, item.line))
            try:
                readings += _of_object(text.name, item)
            except DumpError as error:
                refused.append(error)
            if isinstance(item.value, dict) and "kind" in item.value:
                objects.append(item)
    try:
        readings += resource_slice.readings(text.name, slices)
    except DumpError as error:
        refused.append(error)
    found_nothing = not readings and not objects and not metrics
    if found_nothing and refused:
        raise refused[0]
    small = len(text.raw) <= TEXT_IN_OBJECTS_MAX  # `lscpu -J`, which is read line by line
    if found_nothing and small and (forms := text_formats(text)):
        return _from_texts(text, forms)
    if found_nothing:
        line = found[0].line
        raise UnknownFormatError(text.name, line, 1, found="objects of an unknown kind", expected=EXPECTED)
    return FileContent(tuple(readings), tuple(objects), tuple(refused), prometheus.latest(metrics))


def _of_object(name: str, document: Document) -> Iterator[Reading]:
    for form in object_formats(document.value):
        yield from form.read(name, document.value, document.line)


def _is_object_of_ours(text: DumpText) -> bool:
    """Whether it is what a cluster prints of Atoll's kinds, which a machine file is not."""
    return _OBJECT.search(text.raw, 0, 1 << 16) is not None


def _unknown(text: DumpText) -> DumpError:
    try:
        find_header(text)  # a heading that is too damaged to be recognised says itself what is wrong
    except DumpError as damaged:
        return damaged
    for number, line in enumerate(text.lines, 1):
        if "GPU" in line and starts_row(words(line)):
            return text.line_refusal(
                number, found="rows of a matrix without its heading", expected="the line GPU0 GPU1 … above them",
                remedy="Is the dump truncated?",
            )  # fmt: skip
    return UnknownFormatError(text.name, 1, 1, found="no topology", expected=EXPECTED)


def read_topology(files: Sequence[DumpFile]) -> NodeTopology:
    """The topology of the one node that the files were taken on: all of them must be right and agree.

    Raises:
        DumpError: a file is no topology, is damaged, or contradicts another.
    """
    if not 0 < len(files) <= FILES_MAX:
        raise DumpError("-", 1, 1, found=f"{len(files)} files", expected=f"1 to {FILES_MAX} files of one node")
    readings: list[Reading] = []
    for file in files:
        content = read_file(file)
        if content.refused:
            raise content.refused[0]
        _refuse_second_matrix(content.readings)
        readings += content.readings
    machine = join("", readings)
    _check_one_node(readings, machine)
    if machine.topology is None or not machine.topology.devices:
        kinds = ", ".join(dict.fromkeys(str(reading.source.format) for reading in readings))
        raise DumpError(
            files[0].name, 1, 1, found=f"only {kinds}" if kinds else "no topology",
            expected="a file that names the GPUs too",
        )  # fmt: skip
    return machine.topology


def _refuse_second_matrix(readings: Sequence[Reading]) -> None:
    """Matrices name no node, so nothing shows that two outputs of one command in a file are of one node."""
    seen: set[object] = set()
    for reading in readings:
        command = reading.extras.get("command")
        if reading.source.format != Format.NVIDIA_SMI_TOPO:
            continue
        if command in seen:
            raise DumpError(
                reading.source.file, reading.source.line, 1, found=f"a second matrix of {command}",
                expected="one matrix", remedy="Give each command's output of each node as a file of its own.",
            )  # fmt: skip
        seen.add(command)


def _check_one_node(readings: Sequence[Reading], machine: Machine) -> None:
    """Refuse what cannot be of one node, or of which a part is missing."""
    nodes: dict[str, Source] = {}
    for reading in readings:
        if reading.node:
            nodes.setdefault(reading.node, reading.source)
    if len(nodes) > 1:
        (first, by), (second, other) = list(nodes.items())[:2]
        raise DumpError(other.file, other.line, 1, found=f"the node {second}", expected=f"{first}, as in {by.file}")
    if machine.disagreements:
        raise _refusal(machine, machine.disagreements[0])
    for seen in machine.remarks:
        if seen.remark.code in {"Unmatched", "IncompleteInventory"}:
            line = seen.remark.line or seen.source.line
            raise DumpError(
                seen.source.file, line, 1, found=seen.remark.text.rstrip("."), expected="all GPUs of one node",
                remedy=REMEDY,
            )  # fmt: skip


def _refusal(machine: Machine, disagreement: Disagreement) -> DumpError:
    (by, believed), (source, said) = disagreement.said[0], disagreement.said[-1]
    index = [device.index for device in machine.topology.devices] if machine.topology else []
    gpus = " and ".join(str(index[at]) for at in disagreement.gpus)
    what = disagreement.fact.replace("_", " ") + (f" of GPU {gpus}" if gpus else "")
    return DumpError(
        source.file, source.line, 1, found=f"{said} as {what}", expected=f"{believed}, as {by.file} says",
        remedy=REMEDY,
    )  # fmt: skip
