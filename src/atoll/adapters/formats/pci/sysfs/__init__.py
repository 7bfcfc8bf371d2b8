"""Listings of sysfs as people save them: grep, ls -l, readlink -f, head, and tables that a script made of them.

No command is fixed, so lines are read by what they hold: an attribute after its path, a link, a real path below
/sys/devices, or a PCI address beside a root complex and a NUMA column. Anything else in the file is passed over.
"""

import re

from atoll.adapters.formats.pci.functions import cards_of
from atoll.adapters.formats.pci.sysfs.facts import ATTRIBUTES, Facts
from atoll.adapters.formats.pci.sysfs.paths import address_of, addresses_in, chain_in, interface_of
from atoll.adapters.formats.pci.sysfs.rows import Header, read_row
from atoll.adapters.formats.text.text import DumpText
from atoll.core.evidence.reading import Format, Reading, SeenNic, Source

__all__ = ["read", "recognises"]

_NAMES = "|".join(ATTRIBUTES)
_ATTRIBUTE = re.compile(rf"(\S{{1,400}}?)/({_NAMES})(?:\s*[:=]\s*|\s+)(?:1:(?=\S))?(\S.*)?")
_HEAD = re.compile(rf"==> (\S{{1,400}})/({_NAMES}) <==")
_STANZA = re.compile(r"(numa_node|vendor|device|class)\s*[:=]\s*(\S+)")
LINE_MAX = 4_300
"""The longest list of CPUs that is read, with its path."""

_STRUCTURED = ("{", "[{", "<?", "<", "apiVersion:", "---")


def recognises(text: DumpText) -> bool:
    first = next((line.strip() for line in text.lines if line.strip()), "")
    return not first.startswith(_STRUCTURED) and any(map(_tells, text.lines))


def _tells(line: str) -> bool:
    body = line.strip()
    if len(body) > LINE_MAX:
        return False
    if "/" in body and (attribute := _ATTRIBUTE.fullmatch(body) or _HEAD.fullmatch(body)):
        path, name = attribute[1], attribute[2]
        if name == "cpulist":
            return "node/node" in path
        return name == "numa_node" and bool(address_of(path) or interface_of(path))
    if "pci" not in body:
        return False
    chain = chain_in(body)
    return chain is not None and bool(chain.functions or addresses_in(body)) and '"' not in body


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading of one machine's sysfs; none where nothing was told.

    Raises:
        DumpError: two lines contradict each other, or a value is none.
    """
    facts = Facts(text)
    _take_lines(text, facts)
    unplaced = facts.named()
    layout = facts.layout()
    if not facts.functions and not unplaced and layout is None:
        return ()
    cards = cards_of(facts.functions.values())
    nics = [
        SeenNic(name=function.interface or function.rdma or "", device=function.rdma, numa=function.numa)
        for function in unplaced
    ]
    extras = cards.extras()
    ports = {gpu.name: facts.root_ports[gpu.name] for gpu in cards.gpus if gpu.name in facts.root_ports}
    if ports:
        extras["root_ports"] = ports
    return (
        Reading(
            source=Source(Format.SYSFS, text.name, facts.first or 1),
            gpus=cards.gpus or None,
            nics=(*cards.nics, *nics) or None,
            cpus=layout,
            remarks=cards.remarks,
            extras=extras,
        ),
    )


def _take_lines(text: DumpText, facts: Facts) -> None:
    header: Header | None = None
    headed: tuple[str, str] | None = None  # the file that `head` named; its value is on the next line
    for number, line in enumerate(text.lines, 1):
        body = line.strip()
        if len(body) > LINE_MAX:
            continue
        if headed and body:
            facts.attribute(number, *headed, body)
            headed = None
        elif head := _HEAD.fullmatch(body):
            headed = (head[1], head[2])
        elif "/" in body and (attribute := _ATTRIBUTE.fullmatch(body)):
            facts.attribute(number, attribute[1], attribute[2], (attribute[3] or "").strip())
        elif " -> " in body:
            _take_link(facts, number, body)
        elif found := Header.of(line):
            header = found
        else:
            _take_other(facts, number, line, header)


def _take_other(facts: Facts, number: int, line: str, header: Header | None) -> None:
    body = line.strip()
    if (stanza := _STANZA.fullmatch(body)) and facts.current:
        facts.note(number, facts.current, stanza[1], stanza[2])
    elif ":" in body:
        facts.current = read_row(facts, number, line, header) or facts.current


def _take_link(facts: Facts, number: int, body: str) -> None:
    """A line of `ls -l`: what a name points to."""
    left, _, right = body.partition(" -> ")
    name, target = left.rsplit(maxsplit=1)[-1] if left.strip() else "", right.strip()
    chain, owner, pointed = chain_in(target), address_of(name), address_of(target)
    last = name.rpartition("/")[2]
    if chain and chain.functions:
        function = facts.function(chain.functions[-1], number)
        facts.route(number, function, chain)
        facts.alias(function.address, interface_of(target[chain.end :]))
    elif pointed and last == "physfn" and owner:
        facts.function(owner, number).physical = facts.function(pointed, number).address
    elif pointed and last.startswith("virtfn") and owner:
        facts.function(pointed, number).physical = facts.function(owner, number).address
    elif pointed and last == "device" and (interface := interface_of(name)):
        facts.alias(facts.function(pointed, number).address, interface)
