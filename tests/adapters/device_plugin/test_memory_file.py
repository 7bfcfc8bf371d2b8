"""What a shim keeps for its next life: all of it, or nothing."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from atoll.adapters.device_plugin.memory_file import BYTES_MAX, MemoryFile
from atoll.core.facts import Enforcement, Hints, NodeConfig, NodeFacts
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Lost, NodeMode, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.shim.values import Guest, Memory

GRANT = Grant(
    Owner("Pod", "ml", "p", "uid-p"),
    State.BINDING,
    2,
    (ContainerGrant("main", (Part("GPU-a"), Part("GPU-b"))),),
    Policy.PREFERRED,
    DEFAULT_SCOPES,
    Scope.NUMA_NODE,
    NodeMode.COMMAND,
    degraded=True,
    lost=Lost(Scope.SOCKET, "SYS"),
    candidates=(("GPU-a", "GPU-b"), ("GPU-c", "GPU-d")),
)
MEMORY = Memory(
    NodeFacts("n1", "uid-1", 8, 8, labels=(("pool", "training"),)),
    NodeConfig(Enforcement.ENFORCE, NodeMode.COMMAND, quarantine=("GPU-h",), hints=Hints.KEEP),
    LedgerRecord("n1", "7", "uid-1", (GRANT,)),
    (Guest("uid-p", "ml", "p", "5", "2026-01-01T00:00:00Z", (2,), noted=frozenset({"GPU-a", "GPU-b"})),),
    "12",
    (("uid-p", frozenset({"GPU-a", "GPU-b"})),),
)


@dataclass
class Disk:
    folder: Path
    said: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.folder / "atoll-shim.json"

    def boot(self, boot_id: str) -> MemoryFile:
        (self.folder / "boot_id").write_text(f"{boot_id}\n")
        return MemoryFile(self.path, self.said.append, self.folder / "boot_id")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_the_next_life_knows_all_of_it(disk: Disk) -> None:
    disk.boot("b1").save(MEMORY)

    assert disk.boot("b1").load() == MEMORY
    assert disk.path.stat().st_mode & 0o777 == 0o600
    assert disk.said == []


def test_the_last_word_counts(disk: Disk) -> None:
    file = disk.boot("b1")
    file.save(MEMORY)
    file.save(replace(MEMORY, record=None, guests=(), pods_version="13"))

    found = disk.boot("b1").load()

    assert found is not None
    assert (found.record, found.guests, found.pods_version) == (None, (), "13")


def test_after_a_boot_nothing_of_it_is_true_any_more(disk: Disk) -> None:
    disk.boot("b1").save(MEMORY)

    assert disk.boot("b2").load() is None


def test_the_first_life_knows_nothing(disk: Disk) -> None:
    assert disk.boot("b1").load() is None
    assert disk.said == []


@pytest.mark.parametrize(
    "spoil", [b"", b"{", b"[]", b'{"form": "1", "boot_id": "b1", "memory": {"node": 3}}', b"\xff\x00"]
)
def test_a_file_that_makes_no_sense_is_told_of_and_not_believed(disk: Disk, spoil: bytes) -> None:
    disk.path.write_bytes(spoil)

    assert disk.boot("b1").load() is None
    assert len(disk.said) == 1
    assert str(disk.path) in disk.said[0]


def test_what_another_version_wrote_is_not_believed(disk: Disk) -> None:
    disk.boot("b1").save(MEMORY)
    disk.path.write_bytes(disk.path.read_bytes().replace(b'"form":"1"', b'"form":"0"'))

    assert disk.boot("b1").load() is None


def test_where_it_cannot_be_written_an_older_one_does_not_stay(disk: Disk) -> None:
    file = disk.boot("b1")
    file.save(MEMORY)
    disk.path.with_suffix(".new").mkdir()

    file.save(replace(MEMORY, pods_version="13"))

    assert disk.boot("b1").load() is None
    assert "cannot be written" in disk.said[0]


def nested(path: Path) -> None:
    path.write_bytes(b'{"zz":' + b"[" * 200_000)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, BYTES_MAX + 1)


@pytest.mark.parametrize("spoil", [nested, endless, huge, os.mkfifo, Path.mkdir])
def test_nothing_in_its_place_stops_the_shim(disk: Disk, spoil: Callable[[Path], None]) -> None:
    spoil(disk.path)

    assert disk.boot("b1").load() is None
    assert "is of no use, so that the API must tell all that was decided" in disk.said[0]
