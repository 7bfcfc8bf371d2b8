"""What `atoll audit` prints of reports that are made in memory: nodes without a picture, and text that is hostile."""

import io

from rich.console import Console

from atoll.cli.audit.document import document_of
from atoll.cli.audit.html import page_of
from atoll.cli.audit.terminal import print_report
from atoll.core.audit.audit import audit
from atoll.core.audit.picture import AuditNode
from atoll.core.audit.report import Report
from tests.core.audit.pictures import node, picture, pod


def printed(report: Report) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=120), wide=True)
    return out.getvalue()


def test_a_node_whose_gpus_nobody_lists_is_shown_with_its_pods() -> None:
    bare = AuditNode("bare", in_cluster=True, capacity=8, allocatable=8)

    report = audit(picture(bare, pods=(pod("a", "bare", 3),)))

    assert "bare · 5 of 8 free\n    team/a: 3 GPUs, which ones is not told" in printed(report)
    assert "5 of 8 free" in page_of(document_of(report))


def test_no_message_and_no_name_makes_a_line_of_its_own() -> None:
    message = "x\n 1 critical all is lost"
    lost = pod("a", "n1", 1, phase="Failed", reason="UnexpectedAdmissionError", message=message)

    lines = printed(audit(picture(node("n1\nn2"), pods=(lost,)))).splitlines()

    assert not [line for line in lines if line.startswith((" 1 critical all", "n2"))]
