"""What the driver reports while it runs, over the stub of NVIDIA's library: faults, GPUs that go, drivers that hang."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll.adapters.node.health import Health
from atoll.adapters.probe import nvml_watch
from atoll.core.agent.events import GpuSick
from tests.nvml_stub.stub import Json, environment, machine, uuid, write

LOOK_S = 0.1


class Child:
    """The child process and the machine that it watches."""

    def __init__(self, path: Path) -> None:
        self.path, self.machine = path, machine()
        write(path, self.machine)
        self.process = subprocess.Popen(
            [*nvml_watch.COMMAND, str(LOOK_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(path),
        )
        assert self._line() == {}  # it has begun

    def after(self, **change: object) -> Json:
        """The next thing that it says about the machine with this changed."""
        write(self.path, {**self.machine, **change})
        return next(line for line in iter(self._line, None) if line)

    def with_device(self, number: int, **change: object) -> Json:
        devices = [{**each, **(change if n == number else {})} for n, each in enumerate(self.machine["devices"])]
        return self.after(devices=devices)

    def _line(self) -> Json:
        assert self.process.stdout is not None
        found: Json = json.loads(self.process.stdout.readline())
        return found


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    started = Child(tmp_path / "machine.json")
    yield started
    started.process.communicate(timeout=30)  # its input is closed: it ends


def test_a_fault_names_its_gpu(child: Child) -> None:
    assert child.after(events=[{"device": 3, "xid": 79}]) == {"uuid": uuid(3), "why": "XID 79"}


def test_a_fault_of_an_application_is_none_of_the_gpu(child: Child) -> None:
    faults = [{"device": 0, "xid": 31}, {"device": 1, "xid": 13}, {"device": 2, "xid": 48}]

    assert child.after(events=faults) == {"uuid": uuid(2), "why": "XID 48"}


@pytest.mark.parametrize("change", [{"lost": True}, {"mig": 1}, {"uuid": "GPU-x"}], ids=["lost", "split", "exchanged"])
def test_a_gpu_that_is_another_than_before_calls_for_a_look(child: Child, change: Json) -> None:
    assert child.with_device(5, **change) == {"why": "GPU 5 is another than before"}


def test_so_does_one_that_is_not_there_any_more(child: Child) -> None:
    assert child.after(devices=child.machine["devices"][:7]) == {"why": "GPU 7 is another than before"}


@pytest.mark.limits
def test_a_driver_that_hangs_is_reported_and_so_is_that_it_answers_again(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write(path, {**machine(), "hang": ["nvmlEventSetWait"]})

    async def told() -> list[GpuSick]:
        health = Health(look_s=LOOK_S, silent_s=1.0, restart_s=0.1, environment=environment(path))
        async with contextlib.aclosing(health.watch()) as watch:
            first = await asyncio.wait_for(anext(watch), 30)
            write(path, machine())
            return [first, await asyncio.wait_for(anext(watch), 30)]

    assert asyncio.run(told()) == [
        GpuSick("", "NVIDIA's library has not answered for 1 s"),
        GpuSick("", "NVIDIA's library answers again"),
    ]


def test_without_the_library_the_child_ends_and_says_nothing() -> None:
    done = subprocess.run([*nvml_watch.COMMAND, "1"], input=b"", capture_output=True, timeout=30, check=False)

    assert (done.returncode, done.stdout) == (nvml_watch.ABSENT, b"")
