"""Which extended resources are GPUs, by the names that vendors and sharing stacks gave them."""

import re
from collections.abc import Mapping
from functools import lru_cache

from atoll.adapters.formats.text.objects import amount

_WHOLE = re.compile(
    r"(?:nvidia|amd|metax-tech|iluvatar|moorethreads|mthreads|hygon|dcu)\.(?:com|ai)/gpu"
    r"|(?:gpu\.)?intel\.com/(?:gpu|i915|xe)|habana\.ai/gaudi\w*|cambricon\.com/mlu\d*"
    r"|huawei\.com/Ascend\w*|enflame\.com/gcu|hygon\.com/dcu(?:num)?|google\.com/tpu"
)
_PART = re.compile(
    r"nvidia\.com/(?:mig-.*|gpu\.shared|mig-.*\.shared|gpu[a-z-]*|vgpu|priority|GRID.*)"
    r"|volcano\.sh/(?:vgpu|gpu).*|koordinator\.sh/(?:gpu|shared-gpu).*|kubernetes\.io/gpu-.*|aliyun\.com/gpu.*"
    r"|tencent\.com/vcuda.*|amd\.com/[a-z]*_nps\d|gpu\.intel\.com/.*|huawei\.com/npu.*|hami\.io/.*"
)


@lru_cache(maxsize=4096)
def is_whole(name: str) -> bool:
    """Whether one of it is a whole GPU, NPU or the like, where nothing shares them."""
    return _WHOLE.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def concerns_gpus(name: str) -> bool:
    return is_whole(name) or _PART.fullmatch(name) is not None


def counted(quantities: Mapping[str, str | int] | None, extra: tuple[str, ...]) -> dict[str, int]:
    """The resources that are about GPUs, in whole numbers; `extra` are whole ones that the caller configured."""
    if not quantities:
        return {}
    return {
        name: number
        for name, told in quantities.items()
        if (name in extra or concerns_gpus(name)) and (number := amount(str(told))) is not None
    }
