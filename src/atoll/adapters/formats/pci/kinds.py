"""What a PCI function is: a GPU, a network card, or something that is neither.

The class decides where it is known, together with the vendor: class 0302 (3D controller) has no other use, but the
board's console is a VGA controller too, and processing accelerators may be FPGAs. Where only a name is known (the tree
of lspci, a table that a person made) the name decides, and a function of a GPU vendor is no GPU when its name says
audio, USB or bridge. The processor's own graphics and the board's console are never GPUs: no pod asks for them.
"""

import re
from enum import StrEnum

CLASS_CODES = {
    "vga compatible controller": "0300",
    "xga compatible controller": "0301",
    "3d controller": "0302",
    "display controller": "0380",
    "processing accelerators": "1200",
    "ethernet controller": "0200",
    "infiniband controller": "0207",
    "fabric controller": "0208",
    "network controller": "0280",
    "host bridge": "0600",
    "isa bridge": "0601",
    "pci bridge": "0604",
    "bridge": "0680",
    "non-volatile memory controller": "0108",
    "sata controller": "0106",
    "usb controller": "0c03",
    "audio device": "0403",
}
"""Names of pci.ids that tell a kind, or that tell that a listing is one of lspci."""

NVIDIA, AMD, INTEL, HABANA, HUAWEI, METAX, HYGON = "10de", "1002", "8086", "1da3", "19e5", "9999", "1d94"
CAMBRICON, MOORE_THREADS, ILUVATAR, BIREN, ENFLAME, KUNLUNXIN = "cabc", "1ed5", "1e3e", "1ee0", "1e36", "1d22"

_VENDORS = tuple(
    (re.compile(pattern, re.IGNORECASE), vendor)
    for pattern, vendor in (
        (r"n?vidia corp", NVIDIA),
        (r"advanced micro devices,? (?:inc\. )?\[amd/ati\]|.{0,40}\bnee ati\b|ati technologies|amd/ati", AMD),
        (r"intel corp", INTEL),
        (r"habana labs", HABANA),
        (r"huawei tech", HUAWEI),
        (r"metax\b", METAX),
        (r"chengdu haiguang", HYGON),
        (r"cambricon", CAMBRICON),
        (r"moore threads", MOORE_THREADS),
        (r"(?:shanghai )?iluvatar", ILUVATAR),
        (r"(?:shanghai )?biren", BIREN),
        (r"(?:shanghai )?enflame", ENFLAME),
        (r"baidu tech|kunlunxin", KUNLUNXIN),
    )
)
_3D, _DISPLAY, _ACCELERATOR = "0302", "03", "12"
_NETWORK = {"0200", "0207", "0208", "0280"}
_ACCELERATOR_VENDORS = {
    NVIDIA, AMD, HABANA, HUAWEI, METAX, HYGON, CAMBRICON, MOORE_THREADS, ILUVATAR, BIREN, ENFLAME, KUNLUNXIN,
}  # fmt: skip
_DISPLAY_VENDORS = {NVIDIA, AMD, INTEL, METAX, HYGON, MOORE_THREADS, ILUVATAR}
"""Of these a display controller is a GPU. Huawei is not among them: its are the consoles of servers."""

_AMD_CONSOLES = {"515e", "5969", "4752"}
_AMD_CONSOLE_NAME = re.compile(r"\bES1000\b|\bRage\b")
_VIRTUAL = re.compile(r"virtual function|\bVF\b|\bMxGPU\b", re.IGNORECASE)
_UNNAMED = re.compile(r"(?:.* )?Device(?: ([0-9a-f]{4}))?", re.IGNORECASE)
_APU = re.compile(
    r"\b(?:Raphael|Renoir|Cezanne|Barcelo|Lucienne|Picasso|Raven|Dali|Rembrandt|Phoenix\d?|Hawk Point|Mendocino"
    r"|Granite Ridge|Strix|Krackan|VanGogh|Van Gogh|Kaveri|Carrizo|Stoney|Richland|Trinity|Kabini|Mullins)\b",
    re.IGNORECASE,
)
_NO_GPU_NAME = re.compile(
    r"audio|hdmi|usb|ucsi|nvswitch|bridge|switch|\bport\b|sata|\bide\b|ahci|smbus|lpc|serial|ethernet|network|host"
    r"|iommu|psp|encryption|nvme|root complex|memory|\bpci\b|dummy|data fabric",
    re.IGNORECASE,
)
_INTEL_GPU_NAME = re.compile(
    r"data center gpu|ponte vecchio|graphics|\barc\b|\bdg[12]\b|battlemage|arctic sound", re.IGNORECASE
)
_NIC_NAME = re.compile(
    r"ethernet|infiniband|connectx|netxtreme|network (?:adapter|connection|controller|device)|omni-path|gigabit"
    r"|10gbase|elastic (?:network|fabric) adapter|vmxnet|gve|cassini|slingshot|wi-?fi|wireless",
    re.IGNORECASE,
)
_NO_NIC_NAME = re.compile(r"management interface|nvme|bridge|pcie switch|audio|crypto|dma controller", re.IGNORECASE)
_NVSWITCH_NAME = re.compile(r"nvswitch", re.IGNORECASE)
_NVSWITCH_DEVICES = {"1ac0", "1ac1", "1ac2", "1af1", "22a3"}
_NVIDIA_AUDIO = re.compile(r"0be[2-9a-f]|0e[01][0-9a-f]|0fb[0-9a-f]|10e[5-9a-f]|10f[0-9a-f]|22b[5-9a-f]|228[89ab]")


class Kind(StrEnum):
    GPU = "GPU"
    NIC = "NIC"
    NVSWITCH = "NVSwitch"
    OTHER = "other"


def vendor_of(description: str) -> str | None:
    """The vendor id that a name of pci.ids begins with, where it makes GPUs."""
    return next((vendor for pattern, vendor in _VENDORS if pattern.match(description)), None)


def is_virtual(description: str) -> bool:
    """Whether the name says that this is a virtual function (SR-IOV)."""
    return bool(_VIRTUAL.search(description))


def is_unnamed(description: str) -> bool:
    """Whether the machine's pci.ids did not know the device: `NVIDIA Corporation Device 2330`."""
    return bool(_UNNAMED.fullmatch(description))


def kind_of(
    address: str, description: str, class_code: str | None, vendor: str | None, device: str | None
) -> Kind | None:
    """What the function at this full address is; None where neither class nor name is known.

    Args:
        description: vendor and device as pci.ids names them, "" = unknown.
        class_code: four hex digits. `vendor`, `device`: ids.
    """
    vendor = vendor or vendor_of(description)
    if unnamed := _UNNAMED.fullmatch(description):
        device = device or unnamed[1]
    if vendor == NVIDIA and (device in _NVSWITCH_DEVICES or _NVSWITCH_NAME.search(description)):
        return Kind.NVSWITCH
    if class_code is not None:
        return _kind_by_class(address, description, class_code, vendor, device)
    if not description:
        return None
    if _is_gpu_name(address, description, vendor, device):
        return Kind.GPU
    return Kind.NIC if _NIC_NAME.search(description) and not _NO_NIC_NAME.search(description) else Kind.OTHER


def is_gpu_class(class_code: str) -> bool:
    """Whether a GPU could have this class (0300, 0302, 0380, 1200 …)."""
    return class_code.startswith((_DISPLAY, _ACCELERATOR))


def is_accelerator(class_code: str) -> bool:
    """Whether it is a processing accelerator, which may be a GPU, an NPU or an FPGA."""
    return class_code.startswith(_ACCELERATOR)


def _kind_by_class(
    address: str, description: str, class_code: str, vendor: str | None, device: str | None
) -> Kind | None:
    if class_code in _NETWORK:
        return Kind.NIC
    if not is_gpu_class(class_code) or _built_in(address, description, vendor, device):
        return Kind.OTHER
    if class_code == _3D:
        return Kind.GPU
    if vendor is None and not description:
        return None
    if not is_accelerator(class_code):
        return Kind.GPU if vendor in _DISPLAY_VENDORS else Kind.OTHER
    intel_gpu = vendor == INTEL and _INTEL_GPU_NAME.search(description)
    return Kind.GPU if vendor in _ACCELERATOR_VENDORS or intel_gpu else Kind.OTHER


def _is_gpu_name(address: str, description: str, vendor: str | None, device: str | None) -> bool:
    if vendor is None or _built_in(address, description, vendor, device):
        return False
    if vendor == INTEL:
        return bool(_INTEL_GPU_NAME.search(description)) and not _NO_GPU_NAME.search(description)
    if vendor == HUAWEI:
        return "ascend" in description.lower()
    if vendor == HYGON:
        return "dcu" in description.lower()
    if is_unnamed(description):
        # Further functions of a card are its audio and USB; a GPU itself is function 0.
        audio = vendor == NVIDIA and device is not None and _NVIDIA_AUDIO.fullmatch(device)
        return address.endswith(".0") and not audio
    return not _NO_GPU_NAME.search(_without_vendor(description))


def _without_vendor(description: str) -> str:
    return re.sub(r"^[^\[]{0,60}\[AMD/ATI\]", "", description)


def _built_in(address: str, description: str, vendor: str | None, device: str | None) -> bool:
    """A processor's own graphics or a board's console, by a vendor that makes GPUs too.

    Intel's graphics always stand at 00:02.0; AMD's are told by the processor's name.
    """
    if vendor == INTEL:
        return address == "0000:00:02.0"
    named = _APU.search(description) or _AMD_CONSOLE_NAME.search(description)
    return vendor == AMD and (device in _AMD_CONSOLES or named is not None)
