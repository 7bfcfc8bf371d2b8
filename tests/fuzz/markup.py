"""Ways in which XML goes wrong: attributes and elements lost, doubled, moved, misnamed, and text mutations on top."""

import copy
import re
from functools import cache
from random import Random
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tests.fuzz.mutations import mutant

VALUES = (
    "", " ", "0", "-1", "1", "4096", "9" * 30, "0x", "0xff", "0x" + "f" * 5000, "0x1,0x2", "ffffffff,,0", "N/A", "é",
    "0000:17:00.0", "0000:[17-16]", "0000:[00-ff]", "10000:00:1f.7", "0302", "0302 [10de:2330]", "1200", "nvml0",
    "rsmi99999", "cuda0d1", "opencl0d0", "NUMANode", "Machine", "PCIDev", "OSDev", "Bridge", "NVLinkBandwidth", "gp",
    "0 1 1 0", "3.0", "²", "[N/A]", "81559 MiB", "GPU is lost",
)  # fmt: skip
TAGS = (
    "a",
    "gpu",
    "pci",
    "cpu",
    "nic",
    "net",
    "nvlink",
    "object",
    "info",
    "uuid",
    "mig_device",
    "pci_bus_id",
    "topology",
)
INSIDE = (
    "&amp;",
    "&a;",
    "<!-- x -->",
    "<![CDATA[1]]>",
    "<?p x?>",
    '<!DOCTYPE a [<!ENTITY b "c">]>',
    "&#0;",
    "]]>",
    "<a>",
)
PIECES_ONLY = 0.3
DEPTHS = (3, 70, 2000)
_HEAD = re.compile(r"(?:\s|\$[^\n]*\n|<\?[^>]*>|<!DOCTYPE[^>]*>)*")


@cache
def _parsed(seed: str) -> tuple[str, Element | None]:
    """What stands before the root, and the root; no root where the seed holds several documents."""
    head = _HEAD.match(seed)
    start = head.end() if head else 0
    try:
        return seed[:start], ElementTree.fromstring(seed[start:])
    except ElementTree.ParseError:
        return seed, None


def markup_mutant(seed: str, rng: Random) -> bytes:
    """Between one and four changes of the tree, or of the text, or of both."""
    before, root = _parsed(seed)
    if root is None or rng.random() < PIECES_ONLY:
        text = mutant(seed, rng)
    else:
        tree = copy.deepcopy(root)
        for _ in range(rng.randrange(1, 5)):
            _change(tree, rng)
        text = before + ElementTree.tostring(tree, encoding="unicode")
        if rng.random() < 0.1:
            text = mutant(text, rng)
    if rng.random() < 0.05:
        text = _spliced(text, rng)
    return text.encode(errors="surrogatepass")


def _change(root: Element, rng: Random) -> None:
    elements = list(root.iter())
    element = rng.choice(elements)
    children = list(element)
    match rng.randrange(9):
        case 0 | 1 if element.attrib:
            element.set(rng.choice(list(element.attrib)), rng.choice(VALUES))
        case 2 if element.attrib:
            del element.attrib[rng.choice(list(element.attrib))]
        case 3 if children:
            element.remove(rng.choice(children))
        case 4 if children:
            again = copy.deepcopy(rng.choice(children))
            element[0:0] = [again] * (rng.choice((2, 20)) if rng.random() < 0.1 else 1)
        case 5:
            element.text = rng.choice(VALUES)
        case 6:
            other = rng.choice(elements)
            if element not in set(other.iter()):
                element.append(copy.deepcopy(other))
        case 7 if children:
            rng.choice(children).tag = rng.choice(TAGS)
        case _:
            source = rng.choice(elements)
            element.attrib |= source.attrib


def _spliced(text: str, rng: Random) -> str:
    """Something that only XML has, somewhere between two tags."""
    at = text.find(">", rng.randrange(len(text) + 1)) + 1
    if rng.random() < 0.3:
        depth = rng.choice(DEPTHS)
        return text[:at] + "<a>" * depth + "</a>" * depth + text[at:]
    return text[:at] + rng.choice(INSIDE) + text[at:]
