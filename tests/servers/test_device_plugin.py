"""The shim's two faces on the wire: what reaches the kubelet, and what a plugin that misbehaves does not reach."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from atoll.adapters.device_plugin import messages, upstream
from atoll.adapters.device_plugin.messages import PLUGIN
from atoll.adapters.formats.kubelet.protobuf import field, message_field
from atoll.core.shim.effects import Answer, Forward, Note, Refuse, Register, Show
from atoll.core.shim.events import PluginDown, PluginListed, PluginUp, Registered
from atoll.core.shim.values import PluginDevice, PluginOptions
from tests.servers.plugin_wire import GPU, Decides, Plugin, Wire, listing, on_the_wire, preferences_of

OPTIONS = PluginOptions(prefers=True)
ASKED = message_field(1, field(1, b"GPU-a") + field(1, b"GPU-b") + field(3, 1))
ALLOCATED = message_field(1, field(1, b"GPU-a"))


def run(told: Callable[[Wire], Awaitable[None]], decides: Decides | None = None) -> None:
    async def whole() -> None:
        async with on_the_wire(decides) as wire:
            await told(wire)

    asyncio.run(whole())


async def served(wire: Wire, plugin: Plugin, **show: bool) -> None:
    """The plugin stands behind the shim, and the kubelet knows."""
    await plugin.start()
    await plugin.register()
    await wire.until(lambda event: isinstance(event, PluginListed))
    wire.face.show(Show(GPU, **show))  # type: ignore[arg-type]
    assert await wire.face.register(Register(GPU, OPTIONS)) == Registered(GPU)


async def refusal(call: Awaitable[object]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return str(refused.value.details())


def test_a_plugin_that_registers_is_called_back_and_followed():
    async def told(wire: Wire) -> None:
        plugin = wire.plugin(lists=[listing("GPU-a", numa=0), listing("GPU-a", "GPU-b", numa=0)])
        await plugin.start()
        await plugin.register()

        heard = await wire.until(lambda event: isinstance(event, PluginListed) and len(event.devices) == 2)

        assert heard[:2] == [PluginUp(GPU, OPTIONS), PluginListed(GPU, (PluginDevice("GPU-a", numa=(0,)),))]

    run(told)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": "v1alpha"}, "version 'v1alpha' is not spoken here, only v1beta1"),
        ({"resource": "gpu"}, "'gpu' is no name of an extended resource"),
        ({"endpoint": "../k/kubelet.sock"}, "is no name of a socket"),
        ({"endpoint": "other.sock"}, "No such file"),
        ({"endpoint": "kubelet.sock"}, "kubelet.sock is the socket that was asked, and no plugin's"),
        ({"resource": "a b/\n\x1b[31m c"}, "is no name of an extended resource"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_and_says_why(change: dict[str, str], why: str):
    async def told(wire: Wire) -> None:
        plugin = wire.plugin()
        await plugin.start()

        assert why in await refusal(plugin.register(**change))

    run(told)


def test_of_two_that_register_for_one_resource_the_last_counts():
    async def told(wire: Wire) -> None:
        first = wire.plugin("first.sock")
        last = wire.plugin("last.sock", lists=[listing("GPU-z")])
        for plugin in (first, last):
            await plugin.start()
            await plugin.register()

        await wire.until(lambda event: isinstance(event, PluginListed) and event.devices[0].id == "GPU-z")
        wire.face.show(Show(GPU))
        await wire.face.register(Register(GPU, OPTIONS))
        async with wire.kubelet_channel() as channel:
            seen = await channel.unary_stream(f"{PLUGIN}/ListAndWatch")(b"").read()

        assert [each.id for each in messages.devices_of(seen)] == ["GPU-z"]

    run(told)


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff", listing("GPU-a", "GPU-a"), listing("")], ids=["no message", "an id twice", "no id"]
)
def test_a_plugin_that_sends_garbage_is_taken_for_gone_and_its_last_list_stays(garbage: bytes):
    async def told(wire: Wire) -> None:
        plugin = wire.plugin(lists=[listing("GPU-a"), garbage])
        await plugin.start()
        await plugin.register()

        heard = await wire.until(lambda event: isinstance(event, PluginDown))

        assert [each.what for each in heard if isinstance(each, Note)] == ["plugin_unreadable"]
        assert wire.upstreams.listed(GPU) == listing("GPU-a")

    run(told)


def test_the_kubelet_sees_devices_as_it_is_to_see_them_and_again_when_that_changes():
    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin(), strip=True)
        async with wire.kubelet_channel() as channel:
            seen = channel.unary_stream(f"{PLUGIN}/ListAndWatch")(b"")
            first = messages.devices_of(await seen.read())
            wire.face.show(Show(GPU, sick=frozenset({"GPU-b"})))
            second = messages.devices_of(await seen.read())

        assert first == (PluginDevice("GPU-a"), PluginDevice("GPU-b"))
        assert second == (PluginDevice("GPU-a", numa=(1,)), PluginDevice("GPU-b", healthy=False, numa=(1,)))
        assert wire.registered[-1].resource == GPU

    run(told)


def test_a_question_is_answered_refused_or_passed_on():
    replies = iter([Answer(0, frozenset({"GPU-a"})), Refuse(0, "it is somebody's"), Forward(0)])

    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin())
        async with wire.kubelet_channel() as channel:
            ask = channel.unary_unary(f"{PLUGIN}/GetPreferredAllocation")
            assert preferences_of(await ask(ASKED)) == (("GPU-a",),)
            assert await refusal(ask(ASKED)) == "atoll: it is somebody's"
            assert preferences_of(await ask(ASKED)) == (("GPU-b",),)

    run(told, Decides(lambda _: next(replies)))


def test_a_plugin_without_preferences_is_not_asked_for_them():
    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin(prefers=False))
        async with wire.kubelet_channel() as channel:
            assert await channel.unary_unary(f"{PLUGIN}/GetPreferredAllocation")(ASKED) == b""

    run(told, Decides(lambda _: Forward(0)))


def test_an_allocation_that_is_refused_does_not_reach_the_plugin_and_the_plugin_s_answer_comes_back_as_it_is():
    replies = iter([Refuse(0, "others were granted"), Answer(0, frozenset())])

    async def told(wire: Wire) -> None:
        plugin = wire.plugin(allocated=message_field(1, b"whatever it says") + field(15, 1))
        await served(wire, plugin)
        async with wire.kubelet_channel() as channel:
            allocate = channel.unary_unary(f"{PLUGIN}/Allocate")
            assert await refusal(allocate(ALLOCATED)) == "atoll: others were granted"
            assert await allocate(ALLOCATED) == plugin.allocated

    run(told, Decides(lambda _: next(replies)))


def test_fifty_questions_at_once_get_an_answer_each():
    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin())
        async with wire.kubelet_channel() as channel:
            ask = channel.unary_unary(f"{PLUGIN}/GetPreferredAllocation")
            answers = await asyncio.gather(*(ask(ASKED) for _ in range(50)))

        assert {preferences_of(each) for each in answers} == {(("GPU-a",),)}

    run(told)


def test_a_plugin_that_hangs_fails_the_pod_and_not_the_node(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream, "CALL_S", 0.2)

    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin(hangs=True))
        async with wire.kubelet_channel() as channel:
            said = await refusal(channel.unary_unary(f"{PLUGIN}/Allocate")(ALLOCATED))
            assert said.startswith(f"Allocate of the device plugin of {GPU}: DEADLINE_EXCEEDED")
            assert await channel.unary_unary(f"{PLUGIN}/GetPreferredAllocation")(ASKED)

    run(told)


def test_a_call_waits_for_a_plugin_that_restarts_and_not_for_one_that_stays_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream, "RETURN_S", 0.5)

    async def told(wire: Wire) -> None:
        plugin = wire.plugin()
        await served(wire, plugin)
        await plugin.stop()
        await wire.until(lambda event: isinstance(event, PluginDown))
        async with wire.kubelet_channel() as channel:
            allocate = channel.unary_unary(f"{PLUGIN}/Allocate")
            assert await refusal(allocate(ALLOCATED)) == f"no device plugin of {GPU} is there"
            waits = asyncio.ensure_future(allocate(ALLOCATED))
            await plugin.start()
            await plugin.register()
            assert await waits == plugin.allocated

    run(told)


def test_what_is_no_message_is_refused():
    async def told(wire: Wire) -> None:
        await served(wire, wire.plugin())
        async with wire.kubelet_channel() as channel:
            said = await refusal(channel.unary_unary(f"{PLUGIN}/GetPreferredAllocation")(b"\x0a\xff"))
            assert said == "atoll: this is no message of the device plugin interface"

    run(told)


def test_a_kubelet_that_is_not_there_is_told_and_not_waited_for():
    async def told(wire: Wire) -> None:
        plugin = wire.plugin()
        await plugin.start()
        await plugin.register()
        await wire.until(lambda event: isinstance(event, PluginListed))
        wire.face.show(Show(GPU))
        (wire.kubelet_folder / "kubelet.sock").rename(wire.kubelet_folder / "gone.sock")

        outcome = await wire.face.register(Register(GPU, OPTIONS))

        assert outcome.why

    run(told)
