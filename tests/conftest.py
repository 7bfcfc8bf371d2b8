"""For every test: how many examples, and the end of each piece's log beside a failure while a control plane is up."""

from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.realkube.harness import running
from tests.samples import examples

settings.register_profile("share", max_examples=examples(100))
settings.load_profile("share")
pytest.register_assert_rewrite("tests.contract.cluster_api")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for plane in running():
            report.sections.append((f"control plane in {plane.folder}", plane.logs()))
    return report
