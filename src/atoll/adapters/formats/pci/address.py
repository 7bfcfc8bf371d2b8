"""One spelling for PCI addresses, so that sources can be joined by them: 0000:19:00.0.

nvidia-smi prints eight digits of domain and capitals, lspci leaves the domain 0 out, sysfs prints four digits or more.
"""

import re

_ADDRESS = re.compile(r"(?:([0-9A-Fa-f]{1,8}):)?([0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7])")


def pci_address(text: str) -> str | None:
    """The address in lower case, its domain in four digits where it fits; None when the text is no address."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}"
