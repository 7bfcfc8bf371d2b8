"""`lspci`, as a list, as a tree, or both in one file: the GPUs and network cards, and the bridges that lead to them."""

from atoll.adapters.formats.pci.functions import PciFunction, cards_of
from atoll.adapters.formats.pci.kinds import Kind
from atoll.adapters.formats.pci.lspci.listing import Listing, read_listing, starts_listing
from atoll.adapters.formats.pci.lspci.routes import Routes, groups_of
from atoll.adapters.formats.pci.lspci.tree import Tree, read_tree, starts_tree
from atoll.adapters.formats.text.text import DumpText
from atoll.core.evidence.reading import Format, Reading, Remark, Source

__all__ = ["read", "recognises"]

_WHOLE = {"0600", "0601"}
"""Host and ISA bridges: a list that holds one was not cut down to the GPUs."""


def recognises(text: DumpText) -> bool:
    return any(starts_tree(line) or starts_listing(line) for line in text.lines)


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading of all lists and trees of one machine.

    Raises:
        DumpError: a tree that does not fit together, or lists of two machines.
    """
    listing, tree = read_listing(text), read_tree(text)
    routes = Routes(listing)
    remarks = [*listing.remarks, *routes.remarks(), *_join(listing, tree, routes)]
    functions = [f for f in listing.functions.values() if f.description or f.class_code or f.pcie_path is not None]
    if not functions:
        return ()
    cards = cards_of(functions)
    whole = any(function.class_code in _WHOLE for function in functions) or tree.named
    extras = cards.extras()
    if tree.roots:
        extras["roots"] = tree.roots
    if groups := groups_of(listing.groups, [gpu.name for gpu in cards.gpus]):
        extras["iommu_groups"] = groups
    if cards.unclear and not cards.gpus:
        remarks.append(Remark("NotSupported", "The tree names no devices; `lspci -tv` does."))
    return (
        Reading(
            source=Source(Format.LSPCI, text.name, min(function.line for function in functions)),
            gpus=cards.gpus if cards.gpus or whole else None,
            nics=cards.nics if cards.nics or whole else None,
            remarks=(*remarks, *cards.remarks),
            extras=extras,
        ),
    )


def _join(listing: Listing, tree: Tree, routes: Routes) -> list[Remark]:
    """Give the functions their ways, and add those that only the tree has."""
    remarks: list[Remark] = []
    for function in listing.functions.values():
        function.bridge = function.address in listing.bridges
        if route := routes.route_to(function.address):
            function.pcie_root, function.pcie_path = route.root, route.path
    for leaf in tree.leaves.values():
        function = listing.functions.setdefault(leaf.address, PciFunction(leaf.address, leaf.line))
        told = (function.pcie_root, function.pcie_path)
        if function.pcie_path is not None and told != (leaf.root, leaf.path) and function.kind == Kind.GPU:
            text = f"The tree and the list lead to {leaf.address} by different bridges; the tree is taken."
            remarks.append(Remark("Inconsistent", text, leaf.line))
        function.pcie_root, function.pcie_path = leaf.root, leaf.path
        function.bridge = function.bridge or leaf.bridge
        if not function.description:
            _name(function, leaf.name)
    return remarks


def _name(function: PciFunction, printed: str) -> None:
    """Take the name that the tree prints, which with -nn ends in the ids."""
    name, bracket, ids = printed.rpartition(" [")
    if bracket and len(ids) == 10 and ids[4] == ":" and ids[9] == "]":
        function.description, function.vendor, function.device = name, ids[:4], ids[5:9]
    else:
        function.description = printed
