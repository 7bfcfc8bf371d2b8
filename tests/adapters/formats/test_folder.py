"""A folder of whatever people send: read as far as it goes, and a note for the rest."""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from atoll.adapters.formats import folder
from atoll.adapters.formats.folder import Bundle, is_bundle, read_bundle
from atoll.core.errors import AtollError

NUMACTL = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 1 MB\n"


def listed(number: int) -> str:
    return f"GPU 0: NVIDIA H100 (UUID: GPU-{number:08x}-1111-2222-3333-444444444444)\n"


def fill(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def packed(files: dict[str, str], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return stream.getvalue()


def names(bundle: Bundle) -> list[str]:
    return [machine.name for machine in bundle.machines]


def notes(bundle: Bundle) -> dict[str, str]:
    return {each.what: each.why for each in bundle.blind}


TWO = {"n1/L.txt": listed(1), "n1/numa.txt": NUMACTL, "n2/L.txt": listed(2)}


def test_each_subfolder_is_a_machine(tmp_path: Path) -> None:
    bundle = read_bundle(fill(tmp_path, {**TWO}))

    assert names(bundle) == ["n1", "n2"]
    assert [source.file for source in bundle.machines[0].sources] == ["n1/numa.txt", "n1/L.txt"]
    assert (bundle.files, bundle.blind) == (3, ())


def test_what_is_damaged_is_noted_with_its_line_and_stops_nothing(tmp_path: Path) -> None:
    bundle = read_bundle(
        fill(
            tmp_path, {**TWO, "n1/topo.txt": "\tGPU0\tGPU1\nGPU0\t X \tPIX\n", "n2/x.bin": b"\x00\x01", "n2/e.txt": ""}
        )
    )

    assert names(bundle) == ["n1", "n2"]
    assert list(notes(bundle)) == ["n1/topo.txt:3", "n2/e.txt", "n2/x.bin:1"]
    assert notes(bundle)["n2/x.bin:1"].startswith("was refused: found control byte 0x00")


def test_files_of_other_kinds_are_expected(tmp_path: Path) -> None:
    bundle = read_bundle(fill(tmp_path, {**TWO, "README.md": "# Hello\n", "n1/values.json": '{"a": 1}'}))

    assert [(each.what, each.expected) for each in bundle.blind] == [("README.md:1", True), ("n1/values.json:1", True)]


def test_objects_are_handed_on_with_their_file(tmp_path: Path) -> None:
    pods = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "web"}}]})

    bundle = read_bundle(fill(tmp_path, {"pods.json": pods}))

    assert [(found.file, found.document.value["kind"]) for found in bundle.objects] == [("pods.json", "Pod")]
    assert bundle.machines == ()


def test_a_packed_file_is_read_like_any_other(tmp_path: Path) -> None:
    assert names(read_bundle(fill(tmp_path, {"n1/L.txt.gz": gzip.compress(listed(1).encode())}))) == ["n1"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_file_is_a_folder(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "bundle"
    path.write_bytes(packed({f"bundle/{name}": text for name, text in TWO.items()}, mode))

    assert is_bundle(path)
    assert names(read_bundle(path)) == ["n1", "n2"]


def test_a_tar_file_in_a_folder_is_a_node(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"n1.tar.gz": packed({"./L.txt": listed(1), "../numa.txt": NUMACTL})}

    bundle = read_bundle(fill(tmp_path, files))

    assert names(bundle) == ["n1.tar.gz"]
    assert [source.file for source in bundle.machines[0].sources] == ["n1.tar.gz/numa.txt", "n1.tar.gz/L.txt"]
    assert not (tmp_path.parent / "numa.txt").exists()


def test_a_broken_tar_file_is_noted(tmp_path: Path) -> None:
    whole = packed({"L.txt": listed(1), "b.txt": NUMACTL * 1000}, "w")
    path = tmp_path / "b.tar"
    path.write_bytes(whole[:2000])

    bundle = read_bundle(path)

    assert bundle.files == 1
    assert "broken tar" in next(iter(notes(bundle).values()))


def test_links_are_followed_inside_only(tmp_path: Path) -> None:
    outside = fill(tmp_path / "outside", {"L.txt": listed(9)})
    root = fill(tmp_path / "root", {**TWO})
    (root / "n1" / "out.txt").symlink_to(outside / "L.txt")
    (root / "n1" / "in.txt").symlink_to(root / "n1" / "L.txt")
    (root / "n1" / "loop.txt").symlink_to(root / "n1" / "loop.txt")
    (root / "n1" / "up").symlink_to(tmp_path)

    bundle = read_bundle(root)

    assert names(bundle) == ["n1", "n2"]
    assert {source.file for source in bundle.machines[0].sources} == {"n1/L.txt", "n1/in.txt", "n1/numa.txt"}
    assert set(notes(bundle)) == {"n1/out.txt", "n1/loop.txt", "n1/up"}


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(fill(tmp_path, {**TWO}) / "n1" / "pipe")

    assert notes(read_bundle(tmp_path)) == {"n1/pipe": "is no regular file"}


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    bundle = read_bundle(fill(tmp_path, {**TWO, ".git/L.txt": listed(3), "n1/.L.swp": b"\x00"}))

    assert (names(bundle), bundle.blind) == (["n1", "n2"], ())


def test_the_number_of_files_and_their_depth_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "FILES_MAX", 2)
    deep = "/".join(["d"] * 20)

    bundle = read_bundle(fill(tmp_path, {**TWO, f"a/{deep}/L.txt": listed(3)}))

    assert bundle.files == 2
    assert "holds more than 2 files" in notes(bundle)["n2/L.txt"]
    assert any("folders deep" in why for why in notes(bundle).values())


def test_a_folder_that_is_not_there_is_told() -> None:
    with pytest.raises(AtollError, match="nowhere"):
        read_bundle(Path("/nowhere/at/all"))


def test_many_refused_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "NOTES_MAX", 2)

    bundle = read_bundle(fill(tmp_path, {f"{n}.txt": "hello" for n in range(5)}))

    assert [each.what for each in bundle.blind] == ["0.txt:1", "1.txt:1", "3 more files"]


@pytest.mark.parametrize("wrapper", ["", "b1/", "x/b1/"])
def test_a_packed_bundle_is_the_folder_that_it_was_packed_from(tmp_path: Path, wrapper: str) -> None:
    pods = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": []})
    files = {f"{wrapper}{name}": text for name, text in {**TWO, "pods.json": pods, "notes.md": "by hand\n"}.items()}
    path = tmp_path / "b1.tar"
    path.write_bytes(packed(files, "w"))

    assert names(read_bundle(path)) == ["n1", "n2"]
    assert names(read_bundle(fill(tmp_path / "b1", {**files, ".hidden/L.txt": listed(3)}))) == ["n1", "n2"]


@pytest.mark.parametrize("wrapper", ["", "n1/"])
def test_a_nodes_own_folder_is_one_node_packed_or_not(tmp_path: Path, wrapper: str) -> None:
    files = {f"{wrapper}L.txt": listed(1), f"{wrapper}numa.txt": NUMACTL, f"{wrapper}notes.md": "by hand\n"}
    path = tmp_path / "n1.tar.gz"
    path.write_bytes(packed(files))

    assert names(read_bundle(path)) == ["n1"]
    assert names(read_bundle(fill(tmp_path / "n1", {**files}))) == ["n1"]
