"""Which files of a folder are one node."""

from atoll.core.evidence.grouping import FileReadings, group
from atoll.core.evidence.reading import CpuLayout, Format, Reading, SeenGpu, Source

A = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
B = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
C = "GPU-cccccccc-1111-2222-3333-444444444444"
FIRST, SECOND = "0000:17:00.0", "0000:3b:00.0"


def file(path: str, form: Format, *gpus: SeenGpu, node: str = "", cpus: CpuLayout | None = None) -> FileReadings:
    return FileReadings(path, (Reading(Source(form, path), node=node, gpus=None if cpus else gpus, cpus=cpus),))


def uuids(*names: str) -> tuple[SeenGpu, ...]:
    return tuple(SeenGpu(f"GPU{n}", n, name) for n, name in enumerate(names))


def places(*addresses: str) -> tuple[SeenGpu, ...]:
    return tuple(SeenGpu(address, pci_address=address) for address in addresses)


def grouped(*files: FileReadings) -> dict[str, list[str]]:
    return {name: [reading.source.file for reading in readings] for name, readings in group(files)}


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

    assert {name: sorted(members) for name, members in grouped(*files).items()} == {
        "L.txt": ["L.txt", "lspci.txt", "q.txt"],
        "topo.txt": ["topo.txt"],
    }


def test_some_of_the_addresses_are_not_the_machine() -> None:
    files = (
        file("q.txt", Format.NVIDIA_SMI_QUERY, *QUERY),
        file("lspci.txt", Format.LSPCI, *places(FIRST)),
    )

    assert len(grouped(*files)) == 2


def test_two_captures_of_one_kind_stay_apart_unless_they_say_the_same() -> None:
    same = file("b.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B))
    other = file("c.txt", Format.NVIDIA_SMI_LIST, *uuids(B, A))
    first = file("a.txt", Format.NVIDIA_SMI_LIST, *uuids(A, B))

    assert grouped(first, same) == {"a.txt": ["a.txt", "b.txt"]}
    assert len(grouped(first, other)) == 2


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
