"""Files of one node in, its topology out: each file's format is recognised by content, then all facts are combined.

Nothing is guessed. What cannot be trusted is refused with file, line, column and what was expected.
"""

from collections.abc import Sequence

from atoll.adapters.formats.combine import Source, combine, with_sockets
from atoll.adapters.formats.lscpu import Sockets, is_lscpu, parse_lscpu
from atoll.adapters.formats.machine_file import is_machine_file, parse_machine
from atoll.adapters.formats.nvidia_smi.failures import find_failure
from atoll.adapters.formats.nvidia_smi.gpu_list import lists_gpus, parse_gpu_list
from atoll.adapters.formats.nvidia_smi.header import find_header, starts_row
from atoll.adapters.formats.nvidia_smi.matrix import parse_matrix
from atoll.adapters.formats.nvidia_smi.tokens import words
from atoll.adapters.formats.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.topology import Device, NodeTopology, PairLink

FILES_MAX = 32
EXPECTED = "`nvidia-smi topo -m`, `topo -mp` or `-L`, `lscpu`, `lscpu -p`, or a machine file"

__all__ = ["DumpFile", "read_topology"]


def read_topology(files: Sequence[DumpFile]) -> NodeTopology:
    """Combine the files of one node.

    Raises:
        DumpError: a file is no topology, is damaged, or contradicts another.
    """
    if not 0 < len(files) <= FILES_MAX:
        raise DumpError("-", 1, 1, found=f"{len(files)} files", expected=f"1 to {FILES_MAX} files of one node")
    sources: list[Source] = []
    sockets: list[tuple[Sockets, DumpText]] = []
    for file in files:
        text = decode(file)
        read = _read(text)
        if isinstance(read, Sockets):
            sockets.append((read, text))
        else:
            sources.append(read)
    if not sources:
        raise DumpError(files[0].name, 1, 1, found="only lscpu", expected="a file that names the GPUs too")
    topology = combine(sources)
    for machine, text in sockets:
        topology = with_sockets(topology, machine, Source(text.name, 1, topology))
    return topology


def _read(text: DumpText) -> Source | Sockets:
    """Recognise and read one file; a file with two outputs in it is refused."""
    if is_machine_file(text):
        return Source(text.name, 1, parse_machine(text))
    if failure := find_failure(text):
        raise failure
    header = find_header(text)
    found = {"a topo matrix": header is not None, "a GPU list": lists_gpus(text), "lscpu": is_lscpu(text)}
    kinds = [kind for kind, present in found.items() if present]
    if len(kinds) > 1:
        raise DumpError(
            text.name, header.line if header else 1, 1, found=" and ".join(kinds), expected="the output of one command",
            remedy="Give each command's output as a file of its own.",
        )  # fmt: skip
    if header is not None:
        return Source(text.name, header.line, parse_matrix(text, header).topology())
    if found["a GPU list"]:
        gpus = parse_gpu_list(text)
        indices = [gpu.index for gpu in gpus]
        if indices != list(range(len(gpus))):
            listed = ", ".join(map(str, indices))
            raise text.line_refusal(
                1, found=f"a list of GPUs {listed}", expected="GPUs from 0 without a gap", remedy="Is a line missing?"
            )
        devices = tuple(Device(index=gpu.index, uuid=gpu.uuid, model=gpu.model, mig=gpu.mig) for gpu in gpus)
        return Source(text.name, 1, NodeTopology(devices, ((PairLink(),) * len(gpus),) * len(gpus)))
    if found["lscpu"]:
        return parse_lscpu(text)
    for number, line in enumerate(text.lines, 1):
        if "GPU" in line and starts_row(words(line)):
            raise text.line_refusal(
                number, found="rows of a matrix without its heading", expected="the line GPU0 GPU1 … above them",
                remedy="Is the dump truncated?",
            )  # fmt: skip
    raise text.line_refusal(1, found="no topology", expected=EXPECTED)
