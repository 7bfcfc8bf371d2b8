"""One spelling for the addresses of every source."""

import pytest

from atoll.adapters.formats.pci.address import pci_address


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("19:00.0", "0000:19:00.0"),
        ("0000:c1:1f.7", "0000:c1:1f.7"),
        ("10000:E1:00.0", "10000:e1:00.0"),
        ("0001A2B3:00:00.0", "1a2b3:00:00.0"),
        (" 0:05:00.0\n", "0000:05:00.0"),
    ],
)
def test_every_spelling_of_an_address_becomes_one(printed: str, address: str) -> None:
    assert pci_address(printed) == address


@pytest.mark.parametrize(
    "printed", ["", "N/A", "19:00", "0000:19:20.0", "0000:19:00.8", "0000:119:00.0", "000000000:19:00.0", "x19:00.0"]
)
def test_what_is_no_address_is_unknown(printed: str) -> None:
    assert pci_address(printed) is None
