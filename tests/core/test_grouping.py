"""Which files of a folder are one node."""

from random import Random

import pytest

from atoll.core.evidence.grouping import FileReadings, collection, group
from atoll.core.evidence.reading import CpuLayout, Format, Reading, SeenGpu, Source

A = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
B = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
C = "GPU-cccccccc-1111-2222-3333-444444444444"
FIRST, SECOND = "0000:17:00.0", "0000:3b:00.0"


def file(path: str, form: Format, *gpus: SeenGpu, node: str = "", cpus: CpuLayout | None = None) -> FileReadings:
    return FileReadings(path, (Reading(Source(form, path), node=node, gpus=None if cpus else gpus, cpus=cpus),))


def told(path: str, form: Format, *nodes: str) -> FileReadings:
    """Objects that name nodes and no GPUs."""
    return FileReadings(path, tuple(Reading(Source(form, path), node=node) for node in nodes))


def uuids(*names: str) -> tuple[SeenGpu, ...]:
    return tuple(SeenGpu(f"GPU{n}", n, name) for n, name in enumerate(names))


def places(*addresses: str) -> tuple[SeenGpu, ...]:
    return tuple(SeenGpu(address, pci_address=address) for address in addresses)


def grouped(*files: FileReadings) -> dict[str, list[str]]:
    return {name: [reading.source.file for reading in readings] for name, readings in group(files, "folder")}


def collected(*files: FileReadings) -> dict[str, list[str]]:
    return {name: [reading.source.file for reading in readings] for name, readings in collection(files)}


def codes(*files: FileReadings) -> list[str]:
    return [remark.code for _, readings in group(files) for reading in readings for remark in reading.remarks]


QUERY = (SeenGpu("GPU0", 0, A, pci_address=FIRST), SeenGpu("GPU1", 1, B, pci_address=SECOND))
NUMA = CpuLayout({0: 1})


def test_each_subfolder_is_a_node() -> None:
    files = (
        file("node-1/L.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
        file("node-1/numa.txt", Format.NUMACTL, cpus=NUMA),
        file("node-2/L.txt", Format.NVIDIA_SMI_LIST, *uuids(B)),
    )

    assert grouped(*files) == {"node-1": ["node-1/L.txt", "node-1/numa.txt"], "node-2": ["node-2/L.txt"]}


def test_folders_around_the_nodes_are_passed_over() -> None:
    files = (
        file("bundle/nodes/node-1/L.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
        file("bundle/nodes/node-2/L.txt", Format.NVIDIA_SMI_LIST, *uuids(B)),
    )

    assert list(grouped(*files)) == ["node-1", "node-2"]


def test_a_subfolder_that_contradicts_itself_is_a_collection() -> None:
    files = (
        file("dumps/a.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
        file("dumps/b.txt", Format.NVIDIA_SMI_LIST, *uuids(B)),
    )

    assert list(grouped(*files)) == ["dumps/a.txt", "dumps/b.txt"]


def test_other_numbers_of_unnamed_gpus_in_a_subfolder_are_other_machines() -> None:
    files = (
        file("topo/a.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("topo/b.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "", "")),
    )

    assert list(grouped(*files)) == ["topo/a.txt", "topo/b.txt"]


def test_a_lost_gpu_makes_no_other_machine() -> None:
    files = (
        file("n1/lspci.txt", Format.LSPCI, *places(FIRST, SECOND)),
        file("n1/q.txt", Format.NVIDIA_SMI_QUERY, QUERY[0]),
        file("n1/L.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
    )

    assert list(grouped(*files)) == ["n1"]


def test_loose_files_meet_at_a_uuid_or_at_all_pci_addresses() -> None:
    files = (
        file("q.txt", Format.NVIDIA_SMI_QUERY, *QUERY),
        file("L.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B)),
        file("lspci.txt", Format.LSPCI, *places(FIRST, SECOND)),
        file("topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
    )

    assert {name: sorted(members) for name, members in collected(*files).items()} == {
        "L.txt": ["L.txt", "lspci.txt", "q.txt"],
        "topo.txt": ["topo.txt"],
    }


def test_some_of_the_addresses_are_not_the_machine() -> None:
    files = (
        file("q.txt", Format.NVIDIA_SMI_QUERY, *QUERY),
        file("lspci.txt", Format.LSPCI, *places(FIRST)),
    )

    assert len(collected(*files)) == 2


def test_two_captures_of_one_kind_stay_apart_unless_they_say_the_same() -> None:
    same = file("b.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B))
    other = file("c.txt", Format.NVIDIA_SMI_LIST, *uuids(B, A))
    first = file("a.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B))

    assert collected(first, same) == {"a.txt": ["a.txt", "b.txt"]}
    assert len(collected(first, other)) == 2


def test_a_file_that_fits_two_nodes_stays_alone_and_says_so() -> None:
    files = (
        file("a.txt", Format.NVIDIA_SMI_QUERY, *QUERY),
        file("b.txt", Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, C, pci_address=FIRST),
             SeenGpu("GPU1", 1, C[:-1] + "5", pci_address=SECOND)),
        file("lspci.txt", Format.LSPCI, *places(FIRST, SECOND)),
    )  # fmt: skip

    assert list(grouped(*files)) == ["a.txt", "b.txt", "lspci.txt"]
    assert codes(*files) == ["AmbiguousFile"]


def test_what_names_its_node_belongs_to_it_and_to_the_files_of_its_gpus() -> None:
    files = (
        file("slices.yaml", Format.RESOURCE_SLICE, *uuids(A, B), node="node-7"),
        file("nrt.yaml", Format.NODE_RESOURCE_TOPOLOGY, node="node-7", cpus=NUMA),
        file("L.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B)),
        file("node-8/numa.txt", Format.NUMACTL, cpus=NUMA),
        file("node-8.yaml", Format.RESOURCE_SLICE, *uuids(C), node="node-8"),
    )

    assert {name: sorted(members) for name, members in grouped(*files).items()} == {
        "node-7": ["L.txt", "nrt.yaml", "slices.yaml"],
        "node-8": ["node-8.yaml", "node-8/numa.txt"],
    }


def test_one_name_for_gpus_that_cannot_be_one_node_is_two_nodes() -> None:
    files = (
        file("a.yaml", Format.RESOURCE_SLICE, *uuids(A), node="node-1"),
        file("b.yaml", Format.RESOURCE_SLICE, *uuids(B), node="node-1"),
    )

    assert list(grouped(*files)) == ["node-1 (a.yaml)", "node-1 (b.yaml)"]


def test_a_large_bundle_is_grouped_quickly() -> None:
    def gpu(n: int) -> SeenGpu:
        return SeenGpu("GPU0", 0, f"GPU-{n:08x}-1111-2222-3333-444444444444", pci_address=FIRST)

    files = [file(f"{n}.txt", Format.NVIDIA_SMI_LIST, gpu(n)) for n in range(3000)]
    files += [file(f"{n}.yaml", Format.RESOURCE_SLICE, gpu(n), node=f"node-{n}") for n in range(3000)]

    assert len(grouped(*files)) == 3000


def test_loose_files_that_are_named_alike_up_to_the_first_dot_belong_together() -> None:
    files = (
        file("n1.topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("n1.numactl.txt", Format.NUMACTL, cpus=NUMA),
        file("n2.topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("n2.topo-again.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "", "")),
        file("n3.L.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
        file("n3.q.txt", Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, B)),
    )

    assert grouped(*files) == {
        "n1.numactl.txt": ["n1.topo.txt", "n1.numactl.txt"],
        "n2.topo.txt": ["n2.topo.txt"],
        "n2.topo-again.txt": ["n2.topo-again.txt"],  # two of one kind
        "n3.L.txt": ["n3.L.txt"],
        "n3.q.txt": ["n3.q.txt"],  # other GPUs
    }


def node(folder: str, number: int) -> tuple[FileReadings, FileReadings]:
    """Two files of one machine."""
    uuid = f"GPU-{number:08x}-1111-2222-3333-444444444444"
    return (
        file(f"{folder}/L.txt", Format.NVIDIA_SMI_LIST, *uuids(uuid)),
        file(f"{folder}/numa.txt", Format.NUMACTL, cpus=NUMA),
    )


PODS = FileReadings("b/pods.json", ())


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (("n1", "n2"), ["n1", "n2"]),
        (("b/n1", "b/n2"), ["n1", "n2"]),
        (("must-gather/cluster/nodes/n1", "must-gather/cluster/nodes/n2"), ["n1", "n2"]),
        (("must-gather/cluster/nodes/n1",), ["n1"]),
        (("east/n1", "west/deeper/n2"), ["n1", "n2"]),
        (("east/n1", "east/n2", "west/n3"), ["n1", "n2", "n3"]),
        (("n1/out", "n2/out"), ["n1", "n2"]),
        (("r1/n1", "r1/n2", "r2/n1"), ["n2", "r1/n1", "r2/n1"]),
        (("n1", "copy/n1", "copy/n2"), ["copy/n1", "n1", "n2"]),
        (("/".join(["d"] * 3000) + "/n1", "n2"), ["d/" * 2968 + "n1", "n2"]),
    ],
)
def test_the_folder_around_the_files_of_a_machine_names_it(folders: tuple[str, ...], names: list[str]) -> None:
    files = [each for number, folder in enumerate(folders) for each in node(folder, number)]

    assert list(grouped(*files)) == names
    assert list(grouped(*files, PODS)) == names  # beside files of the cluster
    wrapped = [FileReadings(f"wrapper/{each.path}", each.readings) for each in files]
    if len(folders[0]) < 100:
        assert list(grouped(*wrapped, PODS)) == names


def test_subfolders_by_kind_are_one_node_and_subfolders_that_repeat_a_kind_are_several() -> None:
    sorted_by_kind = (
        file("a/pci/lspci.txt", Format.LSPCI, *places(FIRST)),
        file("a/smi/L.txt", Format.NVIDIA_SMI_LIST, *uuids(A)),
        file("b/pci/lspci.txt", Format.LSPCI, *places(FIRST)),
        file("b/smi/L.txt", Format.NVIDIA_SMI_LIST, *uuids(B)),
    )
    alike = (
        file("a/n1/topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("a/n2/topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("b/n3/topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
    )

    assert list(grouped(*sorted_by_kind)) == ["a", "b"]
    assert list(grouped(*alike)) == ["n1", "n2", "n3"]


def test_a_name_of_the_cluster_in_the_path_names_the_node() -> None:
    files = (*node("n1/logs", 1), *node("n2", 2))

    assert list(grouped(*files)) == ["logs", "n2"]
    assert list(grouped(*files, told("s.yaml", Format.NODE_RESOURCE_TOPOLOGY, "n1"))) == ["n1", "n2"]


def test_a_folder_of_one_machine_is_one_node_of_its_name() -> None:
    files = (
        file("topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("L.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B)),
        file("numa.txt", Format.NUMACTL, cpus=NUMA),
    )

    assert list(grouped(*files)) == ["folder"]
    assert list(grouped(*(FileReadings(f"n1/{each.path}", each.readings) for each in files))) == ["n1"]


@pytest.mark.parametrize(
    "second",
    [
        file("b.txt", Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa=1), SeenGpu("GPU1", 1, numa=1)),
        file("b.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "", "")),
        file("b.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B, C)),
    ],
)
def test_two_captures_that_differ_or_other_gpus_make_a_folder_a_collection(second: FileReadings) -> None:
    first = file("a.txt", Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa=0), SeenGpu("GPU1", 1, numa=1))

    assert list(grouped(first, second)) == ["a.txt", "b.txt"]


def test_files_of_two_hosts_in_one_folder_stay_apart() -> None:
    files = (
        file("a.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file("b.txt", Format.NVIDIA_SMI_TOPO, *uuids("")),
        file("ga.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B)),
        file("gb.txt", Format.NVIDIA_SMI_LIST, *uuids(C)),
    )

    assert len(grouped(*files)) == 4
    assert list(grouped(file("a.xml", Format.LSTOPO, node="h1"), file("b.xml", Format.LSTOPO, node="h2"))) == [
        "h1", "h2",
    ]  # fmt: skip


def test_objects_in_a_nodes_folder_are_of_that_node_whatever_they_call_it() -> None:
    files = [
        *node("a", 1),
        file("a/s.yaml", Format.RESOURCE_SLICE, *uuids("GPU-00000001-1111-2222-3333-444444444444"), node="node-1"),
        *node("b", 2),
        told("b/nics.yaml", Format.RESOURCE_SLICE, "node-1"),
        file("c/s.yaml", Format.RESOURCE_SLICE, *uuids(A), node="node-1"),  # objects alone
        told("c/nics.yaml", Format.RESOURCE_SLICE, "node-1"),
        file("d/s.yaml", Format.RESOURCE_SLICE, *uuids(B), node="node-1"),
        file("e/s.yaml", Format.RESOURCE_SLICE, *uuids(C), node="e"),
    ]

    assert {name: sorted(members) for name, members in grouped(*files).items()} == {
        "a": ["a/L.txt", "a/numa.txt", "a/s.yaml"],
        "b": ["b/L.txt", "b/nics.yaml", "b/numa.txt"],
        "c": ["c/nics.yaml", "c/s.yaml"],
        "d": ["d/s.yaml"],
        "e": ["e/s.yaml"],
    }
    assert codes(*files) == ["OtherNode"] * 5


def test_loose_objects_and_those_of_many_nodes_belong_to_the_nodes_that_they_name() -> None:
    files = (
        *node("n1", 1),
        *node("n2", 2),
        told("slices.yaml", Format.RESOURCE_SLICE, "n1"),
        file("cluster/all.yaml", Format.NODE_RESOURCE_TOPOLOGY, node="n2", cpus=NUMA),
        told("n1/all.yaml", Format.LABELS, "n1", "n2", "n3"),
    )

    assert {name: sorted(members) for name, members in grouped(*files).items()} == {
        "n1": ["n1/L.txt", "n1/all.yaml", "n1/numa.txt", "slices.yaml"],
        "n2": ["cluster/all.yaml", "n1/all.yaml", "n2/L.txt", "n2/numa.txt"],
        "n3": ["n1/all.yaml"],
    }
    assert codes(*files) == []


def test_a_node_that_the_cluster_knows_has_that_name() -> None:
    files = (*node("host7", 1), told("host7/node.yaml", Format.LABELS, "gpu-7"), *node("host8", 2))

    assert [name for name, _ in group(files, "", frozenset({"gpu-7"}))] == ["gpu-7", "host8"]
    assert [name for name, _ in group(files)] == ["host7", "host8"]


def test_objects_that_contradict_the_files_beside_them_are_of_another_node() -> None:
    files = (*node("n1", 1), *node("n2", 2), file("n1/s.yaml", Format.RESOURCE_SLICE, *uuids(A), node="gpu-9"))

    assert list(grouped(*files)) == ["gpu-9", "n1", "n2"]


@pytest.mark.parametrize("folder", ["", "n1/", "n1/{}/"])
def test_many_files_of_one_kind_are_grouped_quickly(folder: str) -> None:
    same = [file(f"{folder.format(n)}{n}.txt", Format.NUMACTL, cpus=NUMA) for n in range(2000)]
    slices = [file(f"{folder.format(n)}{n}.y", Format.RESOURCE_SLICE, *uuids(f"GPU-{n:08x}-1"), node="node-1")
              for n in range(1000)]  # fmt: skip

    assert grouped(*same)
    assert grouped(*slices)


@pytest.mark.parametrize("wrapper", ["", "n1/"])
def test_a_subfolder_with_more_of_the_machine_beside_it_is_of_that_node(wrapper: str) -> None:
    files = (
        file(f"{wrapper}L.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B)),
        file(f"{wrapper}topo.txt", Format.NVIDIA_SMI_TOPO, *uuids("", "")),
        file(f"{wrapper}more/q.txt", Format.NVIDIA_SMI_QUERY, *QUERY),
    )
    other = file(f"{wrapper}n2/q.txt", Format.NVIDIA_SMI_QUERY, *uuids(C))

    assert list(grouped(*files)) == ["n1" if wrapper else "folder"]
    assert "n2" in grouped(*files, other)


@pytest.mark.parametrize("seed", range(300))
def test_no_reading_is_lost_or_doubled_however_the_files_lie(seed: int) -> None:
    rng = Random(seed)
    forms = (Format.LSPCI, Format.NVIDIA_SMI_LIST, Format.NVIDIA_SMI_TOPO, Format.RESOURCE_SLICE, Format.LABELS)
    files = []
    for number in range(rng.randrange(12)):
        folder = "".join(f"{rng.choice('ab')}/" for _ in range(rng.randrange(4)))
        gpus = rng.choice((uuids(rng.choice((A, B, C))), places(rng.choice((FIRST, SECOND))), uuids("", ""), ()))
        form = rng.choice(forms)
        files.append(file(f"{folder}{number}.txt", form, *gpus, node=rng.choice(("", "a", "node-1"))))

    groups = group(files, "folder", rng.choice((frozenset(), frozenset({"node-1"}))))

    assert sorted(reading.source.file for _, readings in groups for reading in readings) == sorted(
        each.path for each in files
    )
    assert len(dict(groups)) == len(groups)
    assert all(name for name, _ in groups)
