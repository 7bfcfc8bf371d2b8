"""A folder that tells a kubelet of NUMA nodes which the machine does not have: /sys/devices/system/node on paper."""

from pathlib import Path

MEMORY_KIB = 4 << 20
_CORE = {
    "core_id": "{cpu}",
    "physical_package_id": "{node}",
    "thread_siblings_list": "{cpu}",
    "core_siblings_list": "{cpu}",
}


def write(folder: Path, nodes: int, cpus: int) -> None:
    """Deal the machine's CPUs out to so many NUMA nodes; there must be as many CPUs at least."""
    if cpus < nodes:
        raise AssertionError(f"{nodes} NUMA nodes need as many CPUs, and here are {cpus}")
    for node in range(nodes):
        mine = [cpu for cpu in range(cpus) if cpu % nodes == node]
        here = folder / f"node{node}"
        (here / "hugepages").mkdir(parents=True)
        (here / "cpulist").write_text(",".join(map(str, mine)) + "\n")
        (here / "distance").write_text(" ".join("10" if other == node else "20" for other in range(nodes)) + "\n")
        (here / "meminfo").write_text(f"Node {node} MemTotal:       {MEMORY_KIB} kB\n")
        for cpu in mine:
            topology = here / f"cpu{cpu}" / "topology"
            topology.mkdir(parents=True)
            (here / f"cpu{cpu}" / "cache").mkdir()
            for name, value in _CORE.items():
                (topology / name).write_text(value.format(cpu=cpu, node=node) + "\n")
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        (folder / name).write_text(f"0-{nodes - 1}\n" if nodes > 1 else "0\n")
