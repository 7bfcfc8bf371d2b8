"""Which PCI functions are GPUs or accelerators that a cluster hands out, told by class, vendor and device id.

A class alone does not tell: the server's own console is a VGA controller too, and so is a hypervisor's screen. Class
0302 (3D controller) has no other use; class 12xx (processing accelerator) is also used by FPGAs.
"""

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
HUAWEI = 0x19E5

_DISPLAY, _ACCELERATOR, _3D = 0x03, 0x12, 0x0302

_ACCELERATORS = frozenset(
    {
        NVIDIA, AMD, HUAWEI,  # Ascend
        0x1DA3,  # Habana
        0x9999,  # MetaX
        0xCABC,  # Cambricon
        0x1ED5,  # Moore Threads
        0x1E3E,  # Iluvatar
        0x1EE0,  # Biren
        0x1E36,  # Enflame
        0x1D22,  # Kunlunxin
        0x1D94,  # Hygon
    }
)  # fmt: skip
_GRAPHICS = frozenset({NVIDIA, AMD, 0x9999, 0x1ED5, 0x1E3E, 0x1D94})
_CONSOLES = frozenset({(AMD, 0x515E), (AMD, 0x5969), (AMD, 0x4752)})
"""Consoles of servers by a vendor that also makes GPUs: ES1000 and Rage XL."""


def is_gpu_class(code: int) -> bool:
    """Whether a GPU could have this class (0x0300, 0x0302, 0x0380, 0x1200 …)."""
    return code >> 8 in {_DISPLAY, _ACCELERATOR}


def is_accelerator(code: int) -> bool:
    """Whether it is a processing accelerator, which may be a GPU, an NPU or an FPGA."""
    return code >> 8 == _ACCELERATOR


def is_gpu(code: int, vendor: int | None, device: int | None) -> bool:
    """Whether class and ids alone make it a GPU. Where they do not, a driver's device on it still may."""
    if code == _3D:
        return True
    if code >> 8 == _ACCELERATOR:
        return vendor in _ACCELERATORS
    if code >> 8 != _DISPLAY:
        return False
    if vendor == INTEL:
        return code == 0x0380  # Flex and Max have no display; one with a display may be part of the CPU
    return vendor in _GRAPHICS and (vendor, device) not in _CONSOLES
