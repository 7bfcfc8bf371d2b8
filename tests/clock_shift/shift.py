"""A wall clock of its own for a program, which a test sets while it runs."""

from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / ".cache" / "clock-shift" / "libclockshift.so"


def variables(file: Path) -> dict[str, str]:
    """Of a program whose clock is to be as many seconds ahead as the file says; 0 where there is none."""
    if not LIBRARY.exists():
        raise AssertionError(f"{LIBRARY} is missing: run `make libraries` (needs gcc)")
    return {"LD_PRELOAD": str(LIBRARY), "CLOCK_SHIFT_FILE": str(file)}


def set_ahead(file: Path, by_s: int) -> None:
    new = file.with_suffix(".new")
    new.write_text(f"{by_s}\n")
    new.replace(file)
