"""`atoll demo --keep`: pods from typed lines or a file; a wrong line gets one clear line and changes nothing."""

import os
import pty
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atoll.cli.app import app
from atoll.cli.demo.prompt import Answer, Conversation
from atoll.cli.demo.scene import scene_of

RUNNER = CliRunner()


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


def said(answer: Answer) -> str:
    return "\n".join(line.plain for line in answer.lines)


def test_a_pod_is_run_shown_and_deleted(conversation: Conversation) -> None:
    ran = said(conversation.answer("run train 4"))
    shown = said(conversation.answer("show"))
    gone = said(conversation.answer("delete train"))

    assert ran.startswith("train runs on ")
    assert "A train: 4 GPUs in NUMANode:" in shown
    assert gone == "train is gone"
    assert scene_of(conversation.playground).pods == ()


def test_policy_and_scope_are_what_the_annotations_say(conversation: Conversation) -> None:
    conversation.answer("run a 2 policy=Restricted scope=PCIeSwitch,NUMANode")

    pod = scene_of(conversation.playground).pod("a")

    assert pod is not None
    assert pod.grant is not None
    assert [str(scope) for scope in pod.grant.scopes_asked] == ["PCIeSwitch", "NUMANode"]
    assert pod.policy == "Restricted"


def test_a_deletion_tells_who_runs_because_of_it(conversation: Conversation) -> None:
    for line in ("run a 8", "run b 8", "run c 8"):
        conversation.answer(line)

    assert "c waits for 8 GPUs" in said(conversation.answer("show"))
    assert "c runs on " in said(conversation.answer("delete a"))


def test_why_names_who_is_in_the_way(conversation: Conversation) -> None:
    for line in ("run a 8", "run b 6", "run c 4"):
        conversation.answer(line)

    answer = said(conversation.answer("why c"))

    assert "InsufficientGPUs" in answer
    assert "held by b" in answer
    assert "cheapest: it runs on " in answer


def test_why_of_a_running_pod_says_where_it_runs(conversation: Conversation) -> None:
    conversation.answer("run a 4")

    assert said(conversation.answer("why a")).startswith("a runs on ")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("fly a", 'error: found "fly"; legal are run, delete, show, why, help, quit'),
        ("run", "error: run wants NAME GPUS"),
        ("run a", "error: run wants NAME GPUS"),
        ("run A 1", 'error: NAME: found "A"'),
        ("run a/b 1", 'error: NAME: found "a/b"'),
        ("run a 0", 'error: GPUS: found "0"'),
        ("run a -1", 'error: GPUS: found "-1"'),
        ("run a 65", 'error: GPUS: found "65"'),
        ("run a ٣", 'error: GPUS: found "٣"'),
        ("run a 99999999999999999999", "error: GPUS: found"),
        ("run a 4 policy", 'error: found "policy"; legal are policy=..., scope=...'),
        ("run a 4 colour=red", 'error: found "colour=red"'),
        ("run a 4 policy=restricted", "did you mean Restricted?"),
        ("run a 4 policy=Restricted policy=Preferred", "error: policy is given twice"),
        ("run a 4 scope=Node,NUMANode", "a list runs from narrow to wide"),
        ("run a 4 scope=", "error: atoll.dev/scope: found an empty value"),
        ("delete", "error: delete wants NAME"),
        ("delete a b", "error: delete wants NAME"),
        ("delete nobody", "error: there is no pod nobody"),
        ("why nobody", "error: there is no pod nobody"),
        ("show me", 'error: show wants nothing more, found "me"'),
        ("quit now", 'error: found "quit"'),
        ("run \x1b[31m 4", "error: NAME: found"),
        ("run " + "a" * 1000 + " 4", "error: found a line of 1006 characters"),
    ],
)
def test_a_wrong_line_is_answered_with_one_line_and_changes_nothing(
    conversation: Conversation, line: str, told: str
) -> None:
    before = scene_of(conversation.playground)

    answer = conversation.answer(line)

    assert answer.wrong
    assert len(answer.lines) == 1
    assert told in said(answer)
    assert "\x1b" not in said(answer)
    assert scene_of(conversation.playground) == before


def test_the_same_name_twice_is_refused(conversation: Conversation) -> None:
    conversation.answer("run a 4")

    assert said(conversation.answer("run a 4")) == "error: there is a pod a already; delete it first"


def test_empty_lines_and_comments_say_nothing(conversation: Conversation) -> None:
    assert conversation.answer("") == conversation.answer("   ") == conversation.answer("# run a 4") == Answer()


def test_the_number_of_pods_is_bounded(conversation: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll.cli.demo.prompt.PODS_MAX", 1)
    conversation.answer("run a 1")

    assert said(conversation.answer("run b 1")) == "error: there are 1 pods already; delete some"


def test_lines_from_standard_input_end_with_the_input_and_wrong_ones_do_not_fail_the_demo() -> None:
    done = RUNNER.invoke(app, ["demo", "--keep"], input="run a 4\nrun b x\nshow")

    assert done.exit_code == 0
    assert "A a: 4 GPUs in NUMANode:" in done.stdout
    assert 'error: GPUS: found "x"' in done.stdout


def test_a_process_without_a_standard_input_has_said_all_that_it_has_to_say() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m atoll demo --keep <&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_nothing_after_quit_is_carried_out() -> None:
    done = RUNNER.invoke(app, ["demo", "--keep"], input="quit\nrun a 4\n")

    assert done.exit_code == 0
    assert done.stdout.endswith("atoll> quit\n")


def test_lines_from_a_file_fail_the_demo_when_one_is_wrong(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("# two pods\nrun a 4\nrun b 4\nshow\n")
    bad.write_bytes(b"run a 4\n\xff\xfe\x00 junk\x1b[2J\n")

    assert RUNNER.invoke(app, ["demo", "--keep", "-f", str(good)]).exit_code == 0
    done = RUNNER.invoke(app, ["demo", "--keep", "-f", str(bad)])
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_it_asks_for_none_and_end_of_input_ends_the_prompt(
    no_colour: str, *, coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    environment = {"PATH": "", "TERM": "xterm-256color", "LANG": "C.UTF-8", "NO_COLOR": no_colour}
    command = [sys.executable, "-m", "atoll", "demo", "--keep"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        os.write(ours, b"run own-pod 4\n\x04")
        shown = read_to_the_end(ours)
        code = process.wait(timeout=30)
    os.close(ours)

    assert code == 0
    assert "own-pod runs on " in shown
    assert ("\x1b[1;30;4" in shown) is coloured
    assert "Traceback" not in shown


def read_to_the_end(terminal: int) -> str:
    """Everything until the other side closes, which Linux tells as an error."""
    shown = b""
    while select.select([terminal], [], [], 30)[0]:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    return shown.decode(errors="replace")


@pytest.mark.parametrize(
    "arguments",
    [["--keep", "-f", "nowhere"], ["--keep", "-f", "."], ["-f", "nowhere"], ["--keep", "-o", "json"]],
)
def test_what_cannot_be_read_or_does_not_go_together_is_wrong_usage(arguments: list[str]) -> None:
    done = RUNNER.invoke(app, ["demo", *arguments])

    assert done.exit_code == 2
    assert "Traceback" not in done.output
