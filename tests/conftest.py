"""For every test: the end of each piece's log is shown with a failure while a real control plane is up."""

from collections.abc import Generator

import pytest

from tests.realkube.harness import running

pytest.register_assert_rewrite("tests.contract.cluster_api")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for plane in running():
            report.sections.append((f"control plane in {plane.folder}", plane.logs()))
    return report
