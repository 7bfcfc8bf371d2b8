"""Where the data sets lie that are not part of the project: real dumps, oracle vectors, cluster traces.

A missing set skips its tests loudly on a stranger's machine. With ATOLL_REQUIRE_DATA=1 a missing folder is a failure,
and so is a set without a single case.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = os.environ.get("ATOLL_REQUIRE_DATA") == "1"

Row = dict[str, Any]


def data_folder(name: str) -> Path:
    """The folder of "corpus", "vectors" or "traces", which may not exist."""
    return Path(os.environ.get(f"ATOLL_{name.upper()}", ROOT.parent / "shared" / name))


def rows_of(path: Path) -> list[Row]:
    """The JSON lines of an index or vector file; none when the file is missing."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def cases(path: Path) -> list[Any]:
    """One pytest parameter per row, named by its id; one that skips or fails when there is none."""
    rows = rows_of(path)
    if rows:
        return [pytest.param(row, id=str(row.get("id", number))) for number, row in enumerate(rows)]
    where = f"no cases in {path}: set ATOLL_CORPUS, ATOLL_VECTORS or ATOLL_TRACES to the data"
    if REQUIRED:
        raise pytest.UsageError(where)
    return [pytest.param({}, id="no-data", marks=pytest.mark.skip(reason=where))]
