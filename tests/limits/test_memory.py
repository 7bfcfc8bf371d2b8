"""Files of a hundred megabytes and more, each read by the program in a process of its own.

Whatever the file, the program ends by itself within a gigabyte and two minutes, and says what is wrong in one message.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.limits

BYTES_MAX = 10**9
SECONDS_MAX = 120.0
"""Of processor time, so that a busy machine changes little; the slowest takes 45 s on a slow one."""

SIZE = 100 << 20
MATRIX = b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\nGPU1\tNV12\t X \t16-31\n"
UUID = "GPU-{:08x}-1111-2222-3333-444444444444"

LAUNCHER = """
import os, resource, sys
child = os.fork()
if not child:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    os.execv(sys.executable, [sys.executable, "-m", "atoll", *sys.argv[1:]])
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
      used.ru_utime + used.ru_stime, file=sys.__stderr__)
"""
"""A small parent: the peak of a process counts from before it became the program."""


def repeated(unit: bytes, size: int = SIZE) -> bytes:
    return unit * (size // len(unit))


def listed(items: Iterator[object]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}).encode()


def pod(number: int) -> object:
    container = {"name": "c", "image": "registry/image:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": f"{number:08x}", "labels": {"app": "x"}},
        "spec": {"nodeName": f"n{number % 5000}", "containers": [container]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def checkpoint() -> bytes:
    held = {"PodUID": "p", "ContainerName": "c", "ResourceName": "nvidia.com/gpu", "AllocResp": "CkEKFk5W"}
    entries = [{**held, "DeviceIDs": {"0": [UUID.format(number)]}} for number in range(1_000_000)]
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}).encode()


def slices() -> Iterator[object]:
    """A thousand nodes of 16 GPUs, with what drivers may add to each."""
    more = {f"more{at}": {"string": "x" * 60} for at in range(60)}
    for number in range(1_000):
        devices = [
            {"name": f"gpu-{at}", "attributes": {"uuid": {"string": UUID.format(number * 16 + at)}, **more}}
            for at in range(16)
        ]
        pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": f"n{number}", "pool": pool, "devices": devices}
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}


def pod_resources() -> bytes:
    def held(number: int) -> object:
        devices = [{"resourceName": "nvidia.com/gpu", "deviceIds": [UUID.format(number)]}]
        return {"name": f"p{number}", "namespace": "d", "containers": [{"name": "c", "devices": devices}]}

    return json.dumps({"podResources": [held(number) for number in range(300_000)]}).encode()


def matrix() -> bytes:
    names = [f"GPU{at}" for at in range(64)] + [f"NIC{at}" for at in range(64)]
    rows = [[name, *("X" if other == name else "SYS" for other in names)] for name in names]
    return "\n".join("\t".join(row) for row in [["", *names], *rows]).encode()


def zeros() -> bytes:
    packer, block = zlib.compressobj(9, wbits=31), b"\0" * (1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(1024)), packer.flush()])


def tar_of_many() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for number in range(10_000):
            member = tarfile.TarInfo(f"n{number % 100}/{number}.txt")
            member.size = 8
            tar.addfile(member, io.BytesIO(b"nothing\n"))
    return packed.getvalue()


XML = b'<?xml version="1.0"?>\n<topology>'
FILES: dict[str, Callable[[], bytes]] = {
    "text that begins well": lambda: MATRIX + repeated(b"a line of a log\n"),
    "text just small enough": lambda: MATRIX + repeated(b"a line of a log\n", 15 << 20),
    "blank lines": lambda: MATRIX + b"\n" * (15 << 20),
    "one line": lambda: b"a" * SIZE,
    "one line of words": lambda: repeated(b"GPU0 ", 15 << 20),
    "NULs": lambda: bytes(SIZE),
    "UTF-16": lambda: b"\xff\xfe" + repeated(b"a\0\n\0"),
    "pods": lambda: listed(pod(number) for number in range(290_000)),
    "pods with an emoji": lambda: listed(pod(number) for number in range(290_000)) + "\n🙂".encode(),
    "pods with lone surrogates": lambda: listed(pod(number) for number in range(200_000))[:-2] + b',{"a":"\\ud800"}]}',
    "one JSON string": lambda: b'{"kind":"Pod","a":"' + b"x" * SIZE + b'"}',
    "empty objects": lambda: b'{"kind":"List","items":[' + repeated(b"{},") + b"{}]}",
    "empty arrays": lambda: b"[" + repeated(b"[],") + b"[]]",
    "small objects": lambda: b'{"kind":"List","items":[' + repeated(b'{"a":1},') + b"{}]}",
    "numbers": lambda: b"[" + repeated(b"1.5,") + b"1]",
    "many keys": lambda: b'{"kind":"Pod",' + b",".join(b'"%d":%d' % (at, at) for at in range(6_000_000)) + b"}",
    "many values": lambda: repeated(b'{"a":1}\n'),
    "a huge number": lambda: b'{"kind":"Pod","a":' + b"9" * SIZE + b"}",
    "deep JSON": lambda: b"[" * SIZE,
    "YAML": lambda: b"kind: List\nitems:\n" + repeated(b"- kind: Pod\n  metadata: {name: a}\n"),
    "YAML just small enough": lambda: b"kind: List\nitems:\n" + repeated(b"- kind: Pod\n  spec: {}\n", 15 << 20),
    "a YAML list": lambda: b"kind: Pod\na: [" + repeated(b"a,", 15 << 20) + b"]",
    "YAML documents": lambda: repeated(b"---\nkind: Pod\n", 12 << 20),
    "XML": lambda: XML + repeated(b'<object type="PU"/>\n') + b"</topology>",
    "XML just small enough": lambda: XML + repeated(b'<object type="PU" os_index="1"/>', 31 << 20) + b"</topology>",
    "tiny elements": lambda: XML + repeated(b"<a/>", 31 << 20) + b"</topology>",
    "one attribute": lambda: b'<topology a="' + b"x" * (31 << 20) + b'"/>',
    "one XML text": lambda: XML + b"x" * (31 << 20) + b"</topology>",
    "one XML comment": lambda: XML + b"<!--" + b"x" * (31 << 20),
    "a gzip bomb": zeros,
    "a packed text": lambda: gzip.compress(MATRIX + repeated(b"a line of a log\n"), 1),
    "a packed JSON string": lambda: gzip.compress(b'{"kind":"Pod","a":"' + b"x" * (250 << 20) + b'"}', 1),
    "empty gzip members": lambda: repeated(gzip.compress(b""), 10 << 20),
    "a tar file": tar_of_many,
    "a checkpoint": checkpoint,
    "ResourceSlices": lambda: listed(slices()),
    "PodResources": pod_resources,
    "a matrix": matrix,
}  # fmt: skip


def check(given: Path) -> None:
    """Run the program on the path and hold it to the bounds."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", LAUNCHER, "topology", "show", "-o", "json", str(given)]
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=600, check=True)

    said, _, measured = ended.stderr.decode().rstrip("\n").rpartition("\n")
    code, peak, seconds = measured.split()
    assert "Traceback" not in said
    assert int(code) in {0, 1, 2}, said
    assert int(peak) <= BYTES_MAX
    assert float(seconds) <= SECONDS_MAX


@pytest.mark.parametrize("name", FILES)
def test_a_large_file_takes_little_memory_and_time(tmp_path: Path, name: str) -> None:
    given = tmp_path / ("dump.tar" if name == "a tar file" else "dump")
    given.write_bytes(FILES[name]())

    check(given)


def test_a_folder_of_ten_thousand_files_takes_little_memory_and_time(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / str(number)).write_text("nothing\n")

    check(tmp_path)


def test_large_files_in_one_folder_take_no_more_together(tmp_path: Path) -> None:
    content = listed(pod(number) for number in range(100_000))
    for number in range(8):
        (tmp_path / f"pods-{number}.json").write_bytes(content)

    check(tmp_path)
