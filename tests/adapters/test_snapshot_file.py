"""The snapshot file: what was seen comes back as it was, and what is no snapshot is refused with its line."""

import io
from pathlib import Path

import pytest

from atoll.adapters.snapshot_file import is_snapshot, lines_of, load, save
from atoll.core.audit.picture import AuditEvent, Blind, Component, Metric, Role
from atoll.core.errors import AtollError, DumpError
from atoll.core.evidence.machine import Disagreement, SeenRemark
from atoll.core.evidence.reading import CpuLayout, Format, LinkTable, Remark, Source
from tests.core.audit.pictures import node, picture, pod

WHO = Source(Format.LSPCI, "lspci.txt", 7)
SEEN = picture(
    node(
        "n1",
        policy="restricted",
        cpus=CpuLayout({0: (1 << 4096) - 1, 1: 1 << 5000}, {0: 0, 1: 1}, 2),
        provenance={(0, "numa"): WHO, (3, "links"): WHO},
        remarks=(SeenRemark(WHO, Remark("OfflineCPU", "CPU 3 is offline", 4)),),
        disagreements=(Disagreement((0,), "numa", ((WHO, "0"), (WHO, "1"))),),
        tables=((WHO, LinkTable("P2P", (("X", None), ("OK", "X")))),),
    ),
    node("n2"),
    pods=(pod("a", "n1", (0, 1)), pod("w", "", 4, phase="Pending")),
    events=(AuditEvent("Pod", "team", "w", "FailedScheduling", "0/2 nodes", 7),),
    metrics=(Metric("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0"}, 12.5),),
    components=(
        Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1", settings=(("MIG_STRATEGY", "none"),)),
    ),
    blind=(Blind("events", "forbidden"),),
)


@pytest.mark.parametrize("name", ["seen.json", "seen.json.gz"])
def test_what_was_saved_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    save(SEEN, tmp_path / name)

    content = (tmp_path / name).read_bytes()
    plain = __import__("gzip").decompress(content) if name.endswith("gz") else content
    assert is_snapshot(plain)
    assert load(name, io.BytesIO(plain)) == SEEN
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_nodes_of_one_model_share_their_links() -> None:
    one, other = load("s", io.BytesIO(b"".join(lines_of(SEEN)))).nodes

    assert one.machine.topology.links is other.machine.topology.links


@pytest.mark.parametrize(
    ("damage", "line", "told"),
    [
        (lambda _: [b"{}\n"], 1, "header"),
        (lambda lines: [lines[0].replace(b'"v":1', b'"v":2')], 1, "another release"),
        (lambda lines: [*lines[:2], lines[2][:40]], 3, "the file is cut"),
        (lambda lines: [lines[0], b'{"node":{"name":7}}\n'], 2, "a node, pod, event or metric"),
        (lambda lines: [lines[0], b'{"node":{"name":"a","machine":{"provenance":[[1]]}}}\n'], 2, "a node"),
        (lambda lines: [lines[0], b'{"node":{"name":"a","machine":"x"}}\n'], 2, "a node"),
        (lambda lines: [lines[0], b'{"node":{"name":"a","machine":{"name":"a","cpus":[]}}}\n'], 2, "a node"),
        (lambda lines: [*lines[:1], lines[1].replace(b'"node_cpus":{"0":"', b'"node_cpus":{"0":"-')], 2, "a node"),
        (lambda lines: [lines[0], b'{"spaceship":{}}\n'], 2, "a node"),
        (lambda lines: [lines[0], b"[" * 100_000 + b"\n"], 2, "a node"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_its_line(damage, line: int, told: str) -> None:
    content = b"".join(damage(list(lines_of(SEEN))))

    with pytest.raises(DumpError) as refused:
        load("s.json", io.BytesIO(content))

    assert (refused.value.line, told in str(refused.value)) == (line, True)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(AtollError, match="cannot be written"):
        save(SEEN, tmp_path / "no" / "such" / "folder.json")

    assert list(tmp_path.iterdir()) == []
