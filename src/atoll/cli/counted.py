"""Counts in words."""


def gpus_text(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
