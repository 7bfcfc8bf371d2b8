"""Objects as people and other programs write them, as the API server would understand them."""

from typing import Any


def plain(value: Any) -> Any:  # noqa: ANN401
    """Without nulls, which say nothing, and with quantities such as 0.5 as text."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, float) else value
