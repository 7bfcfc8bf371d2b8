"""Hostile and damaged input of every kind: refused or bounded, with its place, in little time, and never a traceback.

The memory that large files take is measured in tests/limits.
"""

import codecs
import gzip
import io
import json
import os
import sys
import tarfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from atoll.adapters.formats.folder import read_bundle
from atoll.adapters.formats.read import DumpFile, read_file
from atoll.adapters.formats.text import json_weight
from atoll.cli.app import main
from atoll.core.errors import DumpError

pytestmark = pytest.mark.limits

SECONDS_MAX = 5.0
"""Of processor time; a reader that looks at its text again and again takes minutes."""

UUID = "GPU-{:08x}-1111-2222-3333-444444444444"
LIST = f"GPU 0: NVIDIA H100 (UUID: {UUID.format(1)})\n"
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\nGPU1\tNV12\t X \t16-31\n"
QUERY = (
    '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<attached_gpus>1</attached_gpus>\n<gpu id="00000000:17:00.0">\n'
    f"<product_name>NVIDIA H100</product_name><uuid>{UUID.format(1)}</uuid>\n</gpu>\n</nvidia_smi_log>\n"
)
LSTOPO = (
    '<?xml version="1.0"?>\n<topology version="2.0">\n<object type="Machine" cpuset="0x3" nodeset="0x1">\n'
    '<object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1"/>\n</object>\n</topology>\n'
)
NCCL = (
    '<system version="1">\n<cpu numaid="0" affinity="ff" arch="x86_64">\n<pci busid="0000:17:00.0"/></cpu>\n</system>\n'
)
LSCPU = "Socket(s): 1\nNUMA node(s): 1\nNUMA node0 CPU(s): 0-7\n"
NUMACTL = "available: 1 nodes (0)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 64215 MB\nnode distances:\nnode   0\n  0:  10\n"
LSPCI = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
SYSFS = "/sys/bus/pci/devices/0000:17:00.0/numa_node:0\n"
ROCM = "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "1"}}}
CHECKPOINT = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {"nvidia.com/gpu": [UUID.format(1)]}}}
YAML = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  labels:\n    nvidia.com/gpu.count: '1'\n"

VALID = {
    "nvidia-smi -L": LIST, "nvidia-smi topo": MATRIX, "nvidia-smi -q -x": QUERY, "lstopo": LSTOPO, "NCCL": NCCL,
    "lscpu": LSCPU, "numactl": NUMACTL, "lspci": LSPCI, "sysfs": SYSFS, "rocm-smi": ROCM, "Node": json.dumps(NODE),
    "checkpoint": json.dumps(CHECKPOINT), "YAML": YAML,
}  # fmt: skip
every_format = pytest.mark.parametrize("name", VALID)


def answer(content: bytes) -> str:
    """What the file gives: "read", or the refusal, which has a place and comes soon. Nothing else may be raised."""
    begin = time.process_time()
    try:
        read_file(DumpFile("dump", content))
    except DumpError as refused:
        told = str(refused)
        assert told.startswith("dump")
        assert told.isprintable()
        assert len(told) < 2_000
    else:
        told = "read"
    assert time.process_time() - begin < SECONDS_MAX
    return told


@every_format
def test_every_format_is_read_however_it_was_saved(name: str) -> None:
    text = VALID[name]
    saved = [
        text.encode(), text.replace("\n", "\r\n").encode(), gzip.compress(text.encode()),
        codecs.BOM_UTF16_LE + text.encode("utf-16-le"), codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
        codecs.BOM_UTF8 + text.encode(),
    ]  # fmt: skip

    assert {answer(content) for content in saved} == {"read"}


DAMAGE = {
    "a NUL": lambda text: text[: len(text) // 2] + b"\0" + text[len(text) // 2 :],
    "NULs": lambda text: text + b"\0" * 100_000,
    "a cut": lambda text: text[: len(text) // 2],
    "a cut gzip": lambda text: gzip.compress(text)[:-12],
    "a lone surrogate": lambda text: codecs.BOM_UTF16_LE + text.decode().encode("utf-16-le") + b"\x00\xd8",
    "half a UTF-16 character": lambda text: codecs.BOM_UTF16_LE + text.decode().encode("utf-16-le") + b"x",
    "other encodings": lambda text: text + bytes(range(128, 256)) * 100,
    "an endless line": lambda text: text + b"x" * 300_000,
    "endless words": lambda text: text + b"GPU0 " * 40_000,
    "endless angle brackets": lambda text: text + b"<a " * 100_000,
    "endless lines of tags": lambda text: text + b"<a>\n" * 30_000,
    "endless open comments": lambda text: text + b"<!--\n" * 30_000,
    "endless blank lines": lambda text: text + b"\n" * 60_000,
    "endless spaces": lambda text: text + b" " * 300_000,
    "endless escapes": lambda text: text + b"\x1b]" * 100_000,
    "endless brackets": lambda text: text + b"[" * 300_000,
    "endless braces": lambda text: text + b'{"a":' * 50_000,
    "endless digits": lambda text: text + b"9" * 300_000,
    "huge numbers": lambda text: text.replace(b"0", b"9" * 5_000),
    "everything a hundred times": lambda text: text * 100,
    "everything in one line": lambda text: text.replace(b"\n", b" "),
    "other digits": lambda text: text.replace(b"0", "٠".encode()).replace(b"1", "²".encode()),
}


@every_format
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_every_kind_is_read_or_refused_with_its_place(name: str, damage: str) -> None:
    answer(DAMAGE[damage](VALID[name].encode()))


XML = {
    "an entity bomb": '<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>',
    "an external entity": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><topology>&b;</topology>',
    "a parameter entity": '<!DOCTYPE a [<!ENTITY % b SYSTEM "http://127.0.0.1/"> %b;]><topology/>',
    "an entity that nobody declared": '<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology>&b;</topology>',
    "depth": "<topology>" + "<object>" * 100_000,
    "a huge attribute": f'<topology a="{"x" * 2_000_000}"/>',
    "a tag without end": "<topology><" + "x" * 4_000_000,
    "a comment without end": "<topology><!--" + "x" * 4_000_000,
    "a section without end": "<topology><![CDATA[" + "x" * 4_000_000,
    "a huge text": f"<topology>{'x' * 2_000_000}</topology>",
    "another encoding": '<?xml version="1.0" encoding="no-such"?><topology><a></topology>',
    "a repeated attribute": '<topology a="1" a="2"/>',
    "two documents": LSTOPO + LSTOPO,
}


@pytest.mark.parametrize("kind", XML)
def test_hostile_xml_is_refused_with_its_place(kind: str) -> None:
    assert answer(XML[kind].encode()).startswith("dump:")


STRUCTURED = {
    "aliases": "kind: Node\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "deep YAML": "kind: Node\na: " + "[" * 10_000,
    "deep indentation": "kind: Node\n" + "".join(" " * depth + "a:\n" for depth in range(1_000)),
    "a tag": "kind: Node\na: !!python/object/apply:os.system [x]\n",
    "a merge": "kind: Node\n<<: {a: 1}\n",
    "a key twice in YAML": "kind: Node\nkind: Pod\n",
    "a tab in YAML": "kind: Node\na:\n\tb: 1\n",
    "deep JSON": '{"a":' * 10_000,
    "deep closed JSON": '{"kind":"Node","a":' + "[" * 5_000 + "]" * 5_000 + "}",
    "a huge number": '{"kind":"Node","a":' + "9" * 10_000 + "}",
    "NaN": '{"kind":"Node","a":NaN}',
    "a key twice": '{"kind":"Node","a":{"b":1,"b":2}}',
    "a string without end": '{"kind":"Node","a":"' + "\\\\" * 500_000,
}


@pytest.mark.parametrize("kind", STRUCTURED)
def test_hostile_json_and_yaml_are_refused_with_their_place(kind: str) -> None:
    assert answer(STRUCTURED[kind].encode()).startswith("dump:")


@pytest.mark.parametrize("many", ["{},", "[],", "1.5,", '{"a":1},', '"ab",', "[[]],"])
def test_json_whose_values_take_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch, many: str) -> None:
    monkeypatch.setattr(json_weight, "MEMORY_MAX", 4 << 20)

    told = answer(f'{{"kind":"List","items":[{many * 150_000}{{}}]}}'.encode())

    assert "of memory" in told


def test_objects_with_lone_surrogates_are_read() -> None:
    node = {**NODE, "a\ud800": ["\udfff", {"b": "\ud83d\ude00"}]}

    read = read_file(DumpFile("dump", json.dumps(node).encode())).objects[0].value

    assert read["a\ufffd"] == ["\ufffd", {"b": "\U0001f600"}]


def test_a_gzip_bomb_is_refused_before_it_unfolds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll.adapters.formats.text.text.FILE_BYTES_MAX", 1 << 20)

    assert "unpacks to more" in answer(gzip.compress(b"\0" * (8 << 20)))


def test_a_gzip_file_of_several_members_is_read_and_one_of_endless_members_refused() -> None:
    half = len(LIST) // 2
    parts = [gzip.compress(part.encode()) for part in (LIST[:half], "", LIST[half:] + "x" * 200_000 + "\n")]

    assert answer(b"".join(parts)) == "read"
    assert "members" in answer(gzip.compress(b"") * 30_000)


EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\n\x7f"


def bad_folder(root: Path) -> Path:
    """A folder with everything that is no dump, and one dump."""
    (root / "n1").mkdir()
    (root / "n1" / "L.txt").write_text(LIST)
    (root / f"n2{EVIL}").mkdir()
    (root / f"n2{EVIL}" / f"bad{EVIL}").write_text("\tGPU0\tGPU1\nGPU0\tX\tPIX\n")
    (root / ("x" * 250)).write_text("nothing")
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    (root / "loop").symlink_to(".")
    (root / "itself").symlink_to("itself")
    (root / "outside").symlink_to("/etc/passwd")
    (root / "nowhere").symlink_to(f"no{EVIL}")
    (root / "n3").mkdir()
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": EVIL}
    (root / "n3" / "node.json").write_text(json.dumps({**NODE, "metadata": {"name": f"n{EVIL}", "labels": labels}}))
    (root / "n3" / "q.xml").write_text(QUERY.replace("H100", "H&#x9b;31m&#x202e;").replace(UUID.format(1), "x\x85"))
    with (root / os.fsdecode(b"\xff\xfe.txt")).open("w") as other:
        other.write(LIST.replace(UUID.format(1), UUID.format(2)))
    return root


def test_what_is_no_file_in_a_folder_is_noted_and_not_opened(tmp_path: Path) -> None:
    bundle = read_bundle(bad_folder(tmp_path))

    noted = {each.what for each in bundle.blind}
    assert {"pipe", "zero", "itself", "outside", "nowhere"} <= noted
    assert "n1" in {machine.name for machine in bundle.machines}
    assert all(each.what.isprintable() and each.why.isprintable() for each in bundle.blind)


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
@pytest.mark.parametrize("verb", [("topology", "show"), ("audit",)])
def test_no_control_character_of_a_file_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: tuple[str, ...], output: str
) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["atoll", *verb, "-o", output, str(bad_folder(tmp_path))])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    with pytest.raises(SystemExit) as ended:
        main()

    printed = out.getvalue() + err.getvalue()
    hidden = {char for char in printed if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert (ended.value.code or 0, hidden) == (0, set())
    assert "\nevil" not in printed


def test_a_file_with_an_evil_name_is_refused_in_one_printable_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / EVIL
    path.write_text("nothing")
    monkeypatch.setattr(sys, "argv", ["atoll", "topology", "show", str(path)])

    with pytest.raises(SystemExit) as ended:
        main()

    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n"), told.rstrip("\n").isprintable()) == (2, 1, True)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of the superuser, who reads everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_an_unreadable_file_is_noted() -> None:
    with TemporaryDirectory() as given:  # not tmp_path, into which nobody but its owner may look
        folder = Path(given)
        folder.chmod(0o755)
        (folder / "closed.txt").write_text(LIST)
        (folder / "closed.txt").chmod(0)

        with as_nobody():
            bundle = read_bundle(folder)

    assert "cannot be read" in bundle.blind[0].why


def test_a_deep_folder_is_opened_so_far(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefghijklmnopqrstuvwxyz")
    deep.mkdir(parents=True)

    assert "folders deep" in read_bundle(tmp_path).blind[0].why


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_a_tar_file_of_links_devices_and_ways_out_gives_files_alone(tmp_path: Path) -> None:
    odd = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        member = tarfile.TarInfo(f"odd{kind.decode()}")
        member.type, member.linkname = kind, "/etc/passwd"
        odd.append((member, b""))
    dump = (tarfile.TarInfo(f"../../n1/{EVIL}.txt"), LIST.encode())

    bundle = read_bundle(packed(tmp_path / "b.tar.gz", [*odd, dump]))

    assert bundle.files == 1
    assert bundle.machines[0].sources[0].file.isprintable()
    assert ".." not in bundle.machines[0].sources[0].file


def test_a_tar_file_that_ends_early_is_noted_after_what_it_held(tmp_path: Path) -> None:
    path = packed(tmp_path / "b.tar.gz", [(tarfile.TarInfo("n1/L.txt"), LIST.encode())])
    path.write_bytes(path.read_bytes()[:-30])

    bundle = read_bundle(path)

    assert bundle.blind or bundle.machines
