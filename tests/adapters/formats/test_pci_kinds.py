"""What a PCI function is, by class and ids: one answer, whichever tool listed it."""

import pytest

from atoll.adapters.formats.hwloc import lstopo
from atoll.adapters.formats.nccl import nccl
from atoll.adapters.formats.pci import lspci
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.adapters.formats.text.xml_tree import parse_xml

GPU, OTHER = True, False
FUNCTIONS = [
    ("0302", "10de", "2330", GPU),
    ("0300", "8086", "56a0", GPU),  # Arc
    ("0300", "1ed5", "0323", GPU),
    ("1200", "cabc", "0370", GPU),
    ("1200", "1d22", "3684", GPU),
    ("1200", "19e5", "d802", GPU),
    ("1200", "10ee", "5000", OTHER),  # an FPGA
    ("1200", "8086", "7d1d", OTHER),  # the NPU of a processor
    ("0300", "1a03", "2000", OTHER),
    ("0300", "1002", "515e", OTHER),  # a console by a vendor of GPUs
    ("0300", "19e5", "1711", OTHER),
    ("0604", "10de", "1af1", OTHER),
]


def text_of(body: str) -> DumpText:
    return decode(DumpFile("dump.txt", body.encode()))


@pytest.mark.parametrize(("class_code", "vendor", "device", "gpu"), FUNCTIONS)
def test_all_tools_count_the_same_gpus(class_code: str, vendor: str, device: str, *, gpu: bool) -> None:
    listed = text_of(f"00:00.0 0600: 8086:09a2\n3b:00.0 {class_code}: {vendor}:{device} (rev 01)\n")
    tree = text_of(
        '<topology version="2.0"><object type="Machine" nodeset="0x1"><object type="PCIDev" '
        f'pci_busid="0000:3b:00.0" pci_type="{class_code} [{vendor}:{device}] [0000:0000] 01"/></object></topology>'
    )
    nccls = text_of(
        '<system version="1"><cpu numaid="0"><pci busid="0000:3b:00.0" '
        f'class="0x{class_code}00" vendor="0x{vendor}" device="0x{device}"/></cpu></system>'
    )

    readings = [*lspci.read(listed), *lstopo.read("x", parse_xml(tree)), *nccl.read("x", parse_xml(nccls))]

    assert [len(reading.gpus or ()) for reading in readings] == [int(gpu)] * 3
