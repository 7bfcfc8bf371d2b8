"""Audits of the real dumps: which points each folder can answer, and which finding names the problem of each file.

`audit_answers.yaml` holds what a person read in them. A file that it does not list must still be told something.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from atoll.adapters.defects import known_defects
from atoll.cli.audit.seen import picture_of
from atoll.core.audit.audit import audit
from atoll.core.audit.report import Answer, Report
from atoll.core.errors import DumpError
from tests.data import REQUIRED, data_folder, rows_of

ANSWERS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "audit_answers.yaml").read_text())
CORPUS = data_folder("corpus")
FILES = [
    pytest.param(folder, row["file"], id=f"{folder}/{row['file']}")
    for folder in ANSWERS
    for row in rows_of(CORPUS / folder / "index.jsonl")
]
ABSENT = pytest.mark.skip(reason=f"no cases in {CORPUS}: set ATOLL_CORPUS to the data")
if not FILES and REQUIRED:
    raise pytest.UsageError(f"no cases in {CORPUS}")


def audited(path: Path) -> Report:
    return audit(picture_of([str(path)], None, ("nvidia.com/gpu",)), known_defects())


@pytest.mark.parametrize("folder", ANSWERS if FILES else [pytest.param("no-data", marks=ABSENT)])
def test_a_folder_answers_the_points_that_it_can(folder: str) -> None:
    if not (CORPUS / folder).is_dir():
        pytest.skip(f"{CORPUS / folder} is not there")
    report = audited(CORPUS / folder)

    answered = {point.name for point in report.points if point.answer is not Answer.NO}
    always, sometimes = set(ANSWERS[folder]["answerable"]), set(ANSWERS[folder].get("sometimes", ()))
    assert always <= answered <= always | sometimes
    assert all(point.why for point in report.points if point.answer is not Answer.YES)
    assert report.nodes


@pytest.mark.parametrize(("folder", "file"), FILES or [pytest.param("", "", marks=ABSENT, id="no-data")])
def test_the_first_finding_names_the_problem_of_the_machine(folder: str, file: str) -> None:
    expected = ANSWERS[folder]["first"].get(file)

    first, told = first_of(CORPUS / folder / file)

    assert told
    assert expected in {None, first}


def first_of(path: Path) -> tuple[str, str]:
    """Code and title of the first finding, or of the refusal of a damaged file."""
    try:
        finding = audited(path).findings[0]
    except DumpError as refused:
        return "DumpError", str(refused) if refused.line else ""
    return finding.code, finding.title
