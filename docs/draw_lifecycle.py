"""Draw docs/lifecycle.md from the table in `atoll.core.lifecycle`: `python docs/draw_lifecycle.py`.

A test calls `drawn` and compares, so the page cannot drift from the table.
"""

from pathlib import Path

from atoll.core.lifecycle import PERSISTENT, TRANSITIONS, State, Step

PAGE = Path(__file__).with_name("lifecycle.md")

STATES: dict[State, str] = {
    State.PROMISED: "Owed to a waiting pod while a victim still terminates.",
    State.HELD: "Kept for a waiting pod on this node; nobody else gets these GPUs.",
    State.BINDING: "Recorded; a Binding that the record authorises may be in flight.",
    State.BOUND: "The API says that the pod is on the node.",
    State.PREPARED: "The node said which GPUs the containers really got.",
    State.RELEASING: "The owner is gone: its GPUs are free, the ledger still names it until its next write.",
    State.RELEASED: "Over.",
}

STEPS: dict[Step, str] = {
    Step.VICTIM_GONE: "the pod that had the GPUs has ended",
    Step.BIND_ASKED: "kube-scheduler asks to bind the pod here",
    Step.BINDING_REFUSED: "the pod had changed; the grant stands and is authorised anew",
    Step.BINDING_UNKNOWN: "no answer; the same Binding is sent again",
    Step.POD_BOUND: "the pod's nodeName is this node",
    Step.POD_BOUND_ELSEWHERE: "the pod's nodeName is another node",
    Step.POD_REWRITTEN: "the pod was seen unbound under a newer version, so every earlier Binding must fail",
    Step.POD_GONE: "deleted, ended, or being deleted before it was ever bound",
    Step.DEVICES_PREPARED: "the node reports what the containers have",
    Step.LEDGER_CLEARED: "the ledger was written without the grant",
}


def drawn() -> str:
    """The page."""
    lines = [
        "# The life of a grant",
        "",
        "Drawn from the table in `atoll.core.lifecycle` by `python docs/draw_lifecycle.py`; a test keeps them in step.",
        "No time-out frees GPUs: a grant ends by what became of its pod, and by nothing else.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(f"    {at} --> {to}: {step}" for (at, step), to in TRANSITIONS.items() if at is not to),
        "```",
        "",
        "| state | recorded in the ledger | meaning | stays on |",
        "|---|---|---|---|",
    ]
    for state in State:
        stays = ", ".join(step for (at, step), to in TRANSITIONS.items() if at is to is state) or "–"
        lines.append(f"| {state} | {'yes' if state in PERSISTENT else 'no'} | {STATES[state]} | {stays} |")
    lines += ["", "| step | what happened |", "|---|---|", *(f"| {step} | {STEPS[step]} |" for step in Step)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(drawn())
