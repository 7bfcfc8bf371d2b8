"""What is recognised in a file, however it was saved, and what is refused."""

import gzip
import json
import time

import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.formats.machine.machine_file import render_machine
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.adapters.formats.read import DumpFile, FileContent, UnknownFormatError, read_file, read_topology
from atoll.adapters.formats.text.text import FILE_BYTES_MAX, decode
from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format
from atoll.core.facts import Inventory, Source

MACHINE = load("l40s-2x4", "n1")
MATRIX, LIST = render_matrix(MACHINE), render_list(MACHINE)
NUMACTL = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1 MB\nnode 1 cpus: 2 3\nnode 1 size: 1 MB\n"


def read(content: bytes | str) -> FileContent:
    return read_file(DumpFile("f", content.encode() if isinstance(content, str) else content))


def formats(content: bytes | str) -> list[Format]:
    return [reading.source.format for reading in read(content).readings]


SAVED = {
    "as printed": MATRIX.encode(),
    "with carriage returns": MATRIX.replace("\n", "\r\n").encode(),
    "with carriage returns alone": MATRIX.replace("\n", "\r").encode(),
    "with two of them": MATRIX.replace("\n", "\r\r\n").encode(),
    "in UTF-16 as PowerShell redirects": MATRIX.encode("utf-16"),
    "in big-endian UTF-16": b"\xfe\xff" + MATRIX.encode("utf-16-be"),
    "with a byte order mark": MATRIX.encode("utf-8-sig"),
    "packed": gzip.compress(MATRIX.encode()),
    "packed in two parts": gzip.compress(MATRIX[:100].encode()) + gzip.compress(MATRIX[100:].encode()),
    "with a byte of an old code page beside it": b"# taken by J\xfcrgen\n" + MATRIX.encode(),
}


@pytest.mark.parametrize("content", SAVED.values(), ids=SAVED.keys())
def test_a_dump_says_the_same_however_it_was_saved(content: bytes) -> None:
    assert read_topology([DumpFile("f", content)]) == read_topology([DumpFile("f", MATRIX.encode())])


def test_a_capture_of_several_tools_is_read_whole() -> None:
    capture = f"$ nvidia-smi topo -m\n{MATRIX}\n$ nvidia-smi -L\n{LIST}\n$ numactl -H\n{NUMACTL}"

    assert set(formats(capture)) == {Format.NVIDIA_SMI_TOPO, Format.NVIDIA_SMI_LIST, Format.NUMACTL}


def test_a_table_of_addresses_needs_no_path_to_be_one_of_sysfs() -> None:
    table = "BDF            NUMA  ROOT\n0000:17:00.0   0     pci0000:16\n0000:2a:00.0   1     pci0000:29\n"

    assert formats(table) == [Format.SYSFS]


def test_a_damaged_part_leaves_the_others() -> None:
    content = read(f"$ numactl -H\n{NUMACTL}$ nvidia-smi -L\n{LIST[:-10]}")

    assert [reading.source.format for reading in content.readings] == [Format.NUMACTL]
    assert [error.line for error in content.refused] == [NUMACTL.count("\n") + 10]


def test_objects_are_kept_and_read_with_their_lines() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "8"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}
    text = "apiVersion: v1\nkind: List\nitems:\n" + "".join(f"- {json.dumps(each)}\n" for each in (node, pod))

    content = read(text)

    assert [(each.value["kind"], each.line) for each in content.objects] == [("Node", 4), ("Pod", 5)]
    assert [(reading.source.format, reading.node) for reading in content.readings] == [(Format.LABELS, "n1")]


def test_slices_of_one_node_are_one_reading() -> None:
    def piece(number: int) -> dict[str, object]:
        device = {"name": f"gpu-{number}", "attributes": {"uuid": {"string": f"GPU-{number:08x}-1-2-3-4"}}}
        return {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"s{number}"},
            "spec": {"nodeName": "n1", "driver": "gpu.nvidia.com", "devices": [device],
                     "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2}},
        }  # fmt: skip

    content = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": [piece(1), piece(2)]}))

    assert [(reading.node, len(reading.gpus or ())) for reading in content.readings] == [("n1", 2)]


def test_the_inventory_of_a_node_is_a_source_too() -> None:
    text = gpu_node_json(Inventory("n1", "uid-1", Source.PUBLISHED, MACHINE)).decode()

    content = read(text)

    assert [(reading.source.format, reading.node) for reading in content.readings] == [(Format.GPU_NODE, "n1")]
    assert read_topology([DumpFile("f", text.encode())]) == MACHINE


@pytest.mark.parametrize("status", ['"x"', '{"devices": 7}', '{"nodeUID": "u", "source": "agent", "links": [[1]]}'])
def test_a_broken_inventory_is_refused(status: str) -> None:
    text = f'{{"apiVersion": "atoll.dev/v1alpha1", "kind": "GPUNode", "metadata": {{"name": "n"}}, "status": {status}}}'

    assert [error.found[:16] for error in read(text).refused] == ["a broken GPUNode"]


def test_a_machine_file_is_read_by_its_kind() -> None:
    assert formats(render_machine("m", MACHINE)) == [Format.MACHINE_FILE]


@pytest.mark.parametrize(
    "content", ["hello\n", '{"a": 1}\n', "<html><body>Not found</body></html>\n", "a: b\n", "[1, 2, 3]\n"]
)
def test_other_files_are_of_an_unknown_kind(content: str) -> None:
    with pytest.raises(UnknownFormatError):
        read(content)


REFUSED = {
    "a gzip bomb": (gzip.compress(b"\0" * (FILE_BYTES_MAX + 1), 1), "unpacks to more than 256 MiB"),
    "half a gzip file": (gzip.compress(MATRIX.encode())[:-12], "ends early"),
    "a broken gzip file": (b"\x1f\x8b\x08" + b"x" * 100, "broken gzip"),
    "a large text": (b"x" * (17 << 20), "16,777,216 bytes"),
    "a large XML": (b"<topology>" + b" " * (33 << 20), "33,554,432 bytes"),
    "a binary": (b"\x7fELF\x02\x01\x00", "control byte"),
    "a picture": (b"\x89PNG" + b"\xff\xd8" * 100, "not UTF-8"),
    "cut UTF-16": (MATRIX.encode("utf-16")[:-1], "broken UTF-16"),
    "an entity bomb": (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>',
        "",
    ),
    "a YAML bomb": (b"kind: List\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias"),
    "deep JSON": (b"[" * 100_000, ""),
}


@pytest.mark.parametrize(("content", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_hostile_and_oversized_files_are_refused(content: bytes, says: str) -> None:
    started = time.monotonic()

    with pytest.raises(DumpError, match=says or ".") as refused:
        read(content)

    assert refused.value.file == "f"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "junk",
    [b"GPU0 " * 200_000, b"\t" * 1_000_000, b"[{" * 500_000, b"<a " * 300_000, b"a: b\n" * 200_000,
             b"GPU 0: x\n" * 100_000, b"\x1b[" * 500_000, b"0000:17:00.0 " * 80_000, b"|-+-" * 250_000,
     b"card0\n" * 160_000]
)  # fmt: skip
def test_a_megabyte_of_junk_is_refused_quickly(junk: bytes) -> None:
    started = time.monotonic()

    with pytest.raises(DumpError):
        read(junk)

    assert time.monotonic() - started < 5


def test_lines_keep_their_numbers_whatever_ends_them() -> None:
    text = decode(DumpFile("f", b"one\r\ntwo\rthree\nfour"))

    assert text.lines == ("one", "two", "three", "four")
    assert text.line_refusal(3, found="x", expected="y").line == 3
