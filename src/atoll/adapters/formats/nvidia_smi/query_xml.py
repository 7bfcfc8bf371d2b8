"""`nvidia-smi -q -x` and `ixsmi -q -x`: the tree of `-q` as XML, perhaps in the middle of a pasted session."""

import re

from atoll.adapters.formats.nvidia_smi.query_fields import BUS, QueriedGpu, QueryLog
from atoll.adapters.formats.text.sections import Span, cut
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.xml_tree import Element, parse_xml
from atoll.core.evidence.reading import Reading

LOGS_MAX = 64

_BEGIN = re.compile(r"<(?:nvidia_smi|ixsmi)_log[\s>]")
_END = re.compile(r"</(?:nvidia_smi|ixsmi)_log")


def recognises(text: DumpText) -> bool:
    """Whether an answer of `-q -x` is somewhere in the text."""
    return any("smi_log" in line and _BEGIN.search(line) for line in text.lines)


def read(text: DumpText) -> tuple[Reading, ...]:
    """Every answer of `-q -x` in the text, in order.

    Raises:
        DumpError: the XML is damaged or cut, or an answer contradicts itself.
    """
    return tuple(_log(part, parse_xml(part)).reading() for part in cut(text, _spans(text)))


def _spans(text: DumpText) -> list[Span]:
    """From each root's start tag to its end tag, or to the next root where the end is missing."""
    spans: list[Span] = []
    begin = 0
    for number, line in enumerate(text.lines, 1):
        if "smi_log" not in line:
            continue
        if _BEGIN.search(line):
            if begin:
                spans.append((begin, number - 1))
            begin = number
        if begin and _END.search(line):
            spans.append((begin, number))
            begin = 0
        if len(spans) > LOGS_MAX:
            raise text.line_refusal(
                number, found=f"more than {LOGS_MAX} answers of `nvidia-smi -q -x`", expected="a capture of one node"
            )
    if begin:
        spans.append((begin, len(text.lines)))
    return spans


def _log(text: DumpText, root: Element) -> QueryLog:
    log = QueryLog(text, root.line)
    for element in root.children:
        if element.tag == "gpu":
            _take_gpu(log, element)
        else:
            log.fields.add(element.tag, element.text)
    return log


def _take_gpu(log: QueryLog, element: Element) -> None:
    bus = next((words for name in BUS if (words := element.words(*name.split("/")))), "")
    gpu = log.begin_gpu(element.get("id") or bus or f"GPU{len(log.gpus)}", element.line)
    for child in element.children:
        if child.tag == "mig_devices":
            for device in child.all("mig_device"):
                _take_mig_device(log, gpu, device)
        elif child.children:
            for leaf in child.children:
                gpu.add(f"{child.tag}/{leaf.tag}".lower(), leaf.text)
        else:
            gpu.add(child.tag, child.text)


def _take_mig_device(log: QueryLog, gpu: QueriedGpu, element: Element) -> None:
    fields = log.begin_mig_device(gpu, element.line)
    for leaf in element.children:
        fields.add(leaf.tag, leaf.text)
