"""NVLink and xGMI as NCCL lists them: for each GPU the other ends, with how many links and the class of each end.

An end of class 0680 is an NVSwitch: two GPUs that reach the same switches are linked by as many links as both have to
them. A GPU's list is whole, so who is not in it is not linked; GPUs that all have no list tell nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atoll.adapters.formats.nccl.tree import Function, hex_number, number
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Remark
from atoll.core.topology import LinkKind, PairLink

_TAGS = {"nvlink": LinkKind.NVLINK, "xgmi": LinkKind.XGMI}
_SWITCH = 0x068000


@dataclass(frozen=True, slots=True)
class Fabric:
    """The direct links of one host.

    Args:
        kind: None where no GPU lists any.
        to_gpus: per GPU, position of a peer -> links. `to_switches`: per GPU, switch -> links.
        degrees: per GPU, how many ends it lists.
    """

    kind: LinkKind | None
    to_gpus: tuple[Mapping[int, int], ...]
    to_switches: tuple[Mapping[str, int], ...]
    degrees: tuple[int, ...]
    remarks: tuple[Remark, ...]

    @property
    def switched(self) -> bool:
        return any(self.to_switches)

    def pair(self, a: int, b: int) -> PairLink:
        """What is known of the direct links of two GPUs."""
        if self.kind is None or not (self.degrees[a] or self.degrees[b]):
            return PairLink()
        direct = max(self.to_gpus[a].get(b, 0), self.to_gpus[b].get(a, 0))
        one, other = self.to_switches[a], self.to_switches[b]
        return PairLink(nvlinks=direct + sum(min(one[end], other[end]) for end in one if end in other), kind=self.kind)


def fabric_of(gpus: Sequence[Function]) -> Fabric:
    """Gather the links of the GPUs, which are named by position."""
    position = {function.address: at for at, function in enumerate(gpus)}
    to_gpus: list[dict[int, int]] = [{} for _ in gpus]
    to_switches: list[dict[str, int]] = [{} for _ in gpus]
    degrees, kinds = [0] * len(gpus), set()
    for at, function in enumerate(gpus):
        gpu = function.element.child("gpu")
        for link in gpu.children if gpu else ():
            if link.tag not in _TAGS:
                continue
            kinds.add(_TAGS[link.tag])
            degrees[at] += 1
            target = link.get("target") or ""
            count = number(link.get("count")) or 1
            peer = position.get(pci_address(target) or "")
            if peer is not None:
                to_gpus[at][peer] = to_gpus[at].get(peer, 0) + count
            elif hex_number(link.get("tclass")) == _SWITCH:
                to_switches[at][target] = to_switches[at].get(target, 0) + count
    uneven = [(a, b) for a, peers in enumerate(to_gpus) for b, count in peers.items() if to_gpus[b].get(a) != count]
    remarks = []
    if uneven:
        a, b = uneven[0]
        text = f"{gpus[a].address} lists other links to {gpus[b].address} than the reverse."
        remarks.append(Remark("Inconsistent", text, gpus[a].element.line))
    kind = kinds.pop() if len(kinds) == 1 else LinkKind.NVLINK if kinds else None
    return Fabric(kind, tuple(to_gpus), tuple(to_switches), tuple(degrees), tuple(remarks))
