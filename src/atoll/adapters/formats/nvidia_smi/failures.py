"""What nvidia-smi prints when it cannot answer. Each is told as what it is, not as a syntax error."""

import re
from dataclasses import dataclass

from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted

EXPECTED = "a topology printed by nvidia-smi"


@dataclass(frozen=True, slots=True)
class _Failure:
    says: re.Pattern[str]
    means: str
    remedy: str


_FAILURES = tuple(
    _Failure(re.compile(says), means, remedy)
    for says, means, remedy in (
        (r"No devices were found", "nvidia-smi saw no GPU", "Run it where the GPUs are visible."),
        (
            r"Driver/library version mismatch",
            "NVML could not start: driver and library versions differ",
            "Reload the driver or reboot the node.",
        ),
        (
            r"Failed to initialize NVML",
            "NVML could not start",
            "Check the driver, and in a container the device access, then run it again.",
        ),
        (
            r"couldn't communicate with the NVIDIA driver",
            "nvidia-smi has no running driver",
            "Load the driver, then run it again.",
        ),
        (
            r"GPU is lost|Unable to determine the device handle|GPU has fallen off the bus",
            "a GPU of this node is lost, so the output is not whole",
            "Reset or reboot the node, then run it again.",
        ),
        (r"Insufficient Permissions", "nvidia-smi was not allowed to look", "Run it as root."),
        (
            r"nvidia-smi: (?:command )?not found|nvidia-smi: No such file",
            "there is no nvidia-smi here",
            "Run it on the GPU node.",
        ),
        (
            r"Invalid combination of input arguments|ERROR: Option .* is not recognized",
            "nvidia-smi did not understand its arguments",
            "The commands are `nvidia-smi topo -m`, `nvidia-smi topo -mp` and `nvidia-smi -L`.",
        ),
    )
)


def find_failure(text: DumpText) -> DumpError | None:
    """The first failure that nvidia-smi reports in this text."""
    for failure in _FAILURES:
        if failure.says.search(text.raw) is None:
            continue
        for number, line in enumerate(text.lines, 1):
            if (said := failure.says.search(line)) is not None:
                found = f"{quoted(said[0])}: {failure.means}"
                return text.refusal(number, [said[0]], 0, found=found, expected=EXPECTED, remedy=failure.remedy)
    return None
