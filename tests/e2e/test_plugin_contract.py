"""What the shim relies on in a device plugin: NVIDIA's own, where `$ATOLL_NVIDIA_PLUGIN` names its program, and the one
of these tests, which stands for it everywhere else.

`make nvidia-plugin` builds NVIDIA's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from atoll.adapters.device_plugin import messages
from atoll.adapters.device_plugin.upstream import PluginFailed, Upstreams
from atoll.adapters.formats.kubelet.protobuf import field as encoded
from atoll.adapters.formats.kubelet.protobuf import fields, message_field
from atoll.core.shim.events import PluginDown, PluginEvent, PluginListed, PluginUp
from atoll.core.shim.values import PluginOptions
from atoll.servers.device_plugin import PluginFace
from tests.e2e.commanded_site import commanded_site
from tests.e2e.observed_site import NVLINKS, PCIE
from tests.e2e.one_commanded import KEEP, STRIP, Fault, Spot, kubelet, plugin, shim
from tests.realkube.fake_plugin import RESOURCE, VISIBLE, FakePlugin, Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.namespaces import needs_mounts
from tests.realkube.nvidia_plugin import PROGRAM, NvidiaPlugin
from tests.realkube.process import Piece
from tests.realkube.real_agent import gpu_uuid, write_machine, write_sysfs

pytestmark = [pytest.mark.e2e, needs_mounts]

GPUS = [Gpu(gpu_uuid(0, n), n // 4) for n in range(8)]
SPEAKS_S = 20
QUIET_S = 2

Plugin = FakePlugin | NvidiaPlugin
Scene = Callable[["Wire"], Coroutine[None, None, None]]


@dataclass
class Wire:
    """A plugin and the shim's face for it, in a folder that is both's."""

    folder: Path
    plugin: Plugin
    face: PluginFace
    upstreams: Upstreams

    async def start(self) -> None:
        if isinstance(self.plugin, NvidiaPlugin):
            self.plugin.start()
        else:
            await asyncio.to_thread(self.plugin.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.plugin.stop)

    async def hears(self, kind: type[PluginEvent]) -> PluginEvent:
        async with asyncio.timeout(SPEAKS_S):
            async for event in self.upstreams.watch():
                if isinstance(event, kind):
                    return event
        raise AssertionError("a plugin's events never end")


@pytest.fixture(params=["ours", *(["nvidia"] if PROGRAM else [])])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plugin]:
    folder, machine = tmp_path / "plugins", tmp_path / "machine.json"
    folder.mkdir()
    if request.param == "nvidia":
        write_machine(machine, GPUS, PCIE, NVLINKS)
        write_sysfs(tmp_path, [gpu.numa for gpu in GPUS])

        def run(name: str, command: object) -> Piece:
            piece = Piece(name, command, tmp_path / "log")  # type: ignore[arg-type]
            piece.start()
            return piece

        yield NvidiaPlugin(folder, machine, tmp_path / "sys", "nvidia", run)
    else:
        with GpuAllocator() as allocator:
            yield FakePlugin(folder, GPUS, PCIE, NVLINKS, allocator)


@contextlib.asynccontextmanager
async def wired(made: Plugin) -> AsyncIterator[Wire]:
    upstreams = Upstreams(made.folder)
    face = PluginFace(made.folder, upstreams)
    await face.start()
    wire = Wire(made.folder, made, face, upstreams)
    try:
        await wire.start()
        yield wire
    finally:
        await wire.stop()
        await wire.face.close()
        await upstreams.close()


def play(made: Plugin, scene: Scene) -> None:
    async def whole() -> None:
        async with wired(made) as wire:
            await scene(wire)

    asyncio.run(whole())


def test_it_registers_its_resource_and_lists_each_gpu_with_its_numa_node(made: Plugin) -> None:
    async def scene(wire: Wire) -> None:
        assert await wire.hears(PluginUp) == PluginUp(RESOURCE, PluginOptions(prefers=True))
        listed = await wire.hears(PluginListed)
        assert isinstance(listed, PluginListed)
        assert {device.id: device.numa for device in listed.devices} == {gpu.uuid: (gpu.numa,) for gpu in GPUS}
        assert all(device.healthy for device in listed.devices)

    play(made, scene)


def test_it_allocates_what_it_is_told_to(made: Plugin) -> None:
    uuids = [GPUS[n].uuid for n in (6, 1, 3)]

    async def scene(wire: Wire) -> None:
        await wire.hears(PluginListed)
        answer = await wire.upstreams.call(RESOURCE, "Allocate", allocating(*uuids))
        assert set(variables_of(answer)[VISIBLE].split(",")) == set(uuids)

    play(made, scene)


def test_it_refuses_what_it_does_not_have(made: Plugin) -> None:
    async def scene(wire: Wire) -> None:
        await wire.hears(PluginListed)
        with pytest.raises(PluginFailed):
            await wire.upstreams.call(RESOURCE, "Allocate", allocating("GPU-of-another-node"))

    play(made, scene)


def test_it_prefers_as_many_as_it_is_asked_for(made: Plugin) -> None:
    async def scene(wire: Wire) -> None:
        await wire.hears(PluginListed)
        available = b"".join(text(1, gpu.uuid) for gpu in GPUS)
        asked = message_field(1, available + encoded(3, 4))
        answer = await wire.upstreams.preferred(RESOURCE, asked)
        (ids,) = messages.allocated_of(answer)
        assert len(set(ids)) == 4
        assert set(ids) <= {gpu.uuid for gpu in GPUS}

    play(made, scene)


def test_it_registers_anew_when_a_kubelet_makes_its_socket(made: Plugin) -> None:
    async def scene(wire: Wire) -> None:
        await wire.hears(PluginListed)
        if isinstance(wire.plugin, FakePlugin):
            wire.plugin.follow()
        await wire.face.close()
        wire.face = PluginFace(wire.folder, wire.upstreams)
        await wire.face.start()

        await wire.hears(PluginDown)
        await wire.hears(PluginUp)
        await wire.hears(PluginListed)

    play(made, scene)


def test_its_end_is_seen(made: Plugin) -> None:
    async def scene(wire: Wire) -> None:
        await wire.hears(PluginListed)
        await wire.stop()
        assert await wire.hears(PluginDown) == PluginDown(RESOURCE)
        await wire.start()
        await wire.hears(PluginListed)

    play(made, scene)


def allocating(*uuids: str) -> bytes:
    return message_field(1, b"".join(text(1, uuid) for uuid in uuids))


def text(number: int, words: str) -> bytes:
    return encoded(number, words.encode())


def variables_of(answer: bytes) -> dict[str, str]:
    """Of the first container of an AllocateResponse."""
    (container,) = (value for number, value in fields(answer) if number == 1)
    assert isinstance(container, bytes)
    entries = [dict(fields(value)) for number, value in fields(container) if number == 1 and isinstance(value, bytes)]
    return {entry[1].decode(): entry[2].decode() for entry in entries}


if PROGRAM:  # everywhere else the plugin of tests is in this place

    def test_behind_the_shim_nvidia_s_plugin_gives_what_was_granted() -> None:
        faults: list[Fault] = [shim, kubelet, plugin]
        with commanded_site([STRIP, KEEP], nvidia=True) as site:
            for where in (STRIP, KEEP):
                spot = Spot(site, "-".join(["n", *where]))
                first, second = spot.runs("first", 4), spot.runs("second", 2)
                for fault in faults:
                    spot.strike(fault)
                    spot.until_held(first=first, second=second)
                third = spot.runs("third", 1)
                spot.until_held(first=first, second=second, third=third)
                spot.restarts_with("second", second)
                spot.make_whole()
