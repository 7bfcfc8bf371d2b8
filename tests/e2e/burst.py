"""Twenty pods that come at once: more than there is room for, of all sizes."""

from tests.e2e.installation import Installation

RESTRICTED = {"atoll.dev/policy": "Restricted"}


def twenty_pods_at_once(cluster: Installation) -> None:
    """On six nodes; those that fit hold disjoint sets, each inside one island."""
    machines = ["hgx-h100", "pcie-switch-4x2", "interleaved-numa", "permuted-indices", "l40s-2x4", "dgx-1"]
    boxes = [cluster.box(machine) for machine in machines]
    cluster.configure("pool", [box.name for box in boxes])
    sizes = [4] * 8 + [2] * 6 + [1] * 4  # 48 GPUs in all: 32 + 12 + 4

    cluster.scheduler.freeze()
    for n, size in enumerate(sizes):
        cluster.pod(f"p{n}", size, annotations=RESTRICTED)
    # The last in every order: the youngest, and by name among those of the same second.
    cluster.pod("surplus-4", 4, annotations={"atoll.dev/policy": "Preferred"})
    cluster.pod("surplus-8", 8, annotations=RESTRICTED)
    cluster.scheduler.thaw()

    placed = {f"p{n}": cluster.bound(f"p{n}", 60) for n in range(18)}
    cluster.check_books([box.name for box in boxes])
    islands = [island for box in boxes for island in box.islands]
    for n, size in enumerate(sizes):
        uuids = placed[f"p{n}"][1]
        assert len(uuids) == size
        assert any(uuids <= island for island in islands), f"p{n} spans islands"
