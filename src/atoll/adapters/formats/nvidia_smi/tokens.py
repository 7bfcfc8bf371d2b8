"""The words of a `topo` matrix: link classes, labels, affinity values.

Unknown words are refused by the readers; a default would be a guess.
"""

import re

from atoll.core.topology import PcieLink

SELF = "X"

PCIE: dict[str, PcieLink] = {
    **{str(link): link for link in PcieLink},
    "SOC": PcieLink.SYS,  # until 2017
    "PSB": PcieLink.PIX,  # two GPUs on one board
}

NVLINKS: dict[str, int] = {f"NV{count}": count for count in range(1, 65)}

CELLS = frozenset({SELF, *PCIE, *NVLINKS})

GPU_LABEL = re.compile(r"GPU(0|[1-9]\d{0,2})")
GLUED_LABELS = re.compile(r"((?:GPU(?:0|[1-9]\d{0,2}))+)([A-Za-z][\w.-]*)?")  # "GPU0GPU1mlx5_0": separators lost
NIC_LABEL = re.compile(r"(?!(?i:GPU))[A-Za-z][\w-]*\d[\w-]*")  # a damaged GPU label is no NIC
AFFINITY = re.compile(r"[\d,-]{1,400}|N/A|\.\.\.")
