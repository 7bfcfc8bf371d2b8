"""The resources that pass through the shim: which of them the kubelet knows, and what it sees of their devices.

A plugin that goes away is given a moment to come back, as it does when it restarts, before the kubelet is told: its
devices would all be unhealthy, and pods on their way to them would fail.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from atoll.core.shim.effects import KubeletEffect, Note, Register, Show
from atoll.core.shim.events import KubeletUp, PluginDown, PluginListed, PluginUp, Registered
from atoll.core.shim.values import PluginDevice, PluginOptions
from atoll.services.due import Due

GRACE_S = 5.0
RETRY_S = 1.0
RESOURCES_MAX = 64
FOREVER_S = 1e9


@dataclass(slots=True)
class Relay:
    """One resource."""

    options: PluginOptions
    devices: tuple[PluginDevice, ...] = ()
    down_since: float | None = None
    registration: Due = field(default_factory=lambda: Due(FOREVER_S, RETRY_S))
    shown: Show | None = None
    registered: bool = False

    @property
    def known(self) -> bool:
        """Whether there is anything to tell the kubelet."""
        return bool(self.devices)


class Relays:
    def __init__(self) -> None:
        self.by_resource: dict[str, Relay] = {}

    def take(self, event: PluginUp | PluginListed | PluginDown | KubeletUp | Registered, now: float) -> Iterator[Note]:
        match event:
            case PluginUp(resource, options):
                yield from self._up(resource, options)
            case PluginListed(resource, devices):
                if resource in self.by_resource:
                    self.by_resource[resource].devices = devices
            case PluginDown(resource):
                relay = self.by_resource.get(resource)
                if relay is not None and relay.down_since is None:
                    relay.down_since = now
                    yield Note("plugin_gone", resource)
            case KubeletUp():
                for relay in self.by_resource.values():
                    relay.registration, relay.registered = Due(FOREVER_S, RETRY_S), False
            case Registered(resource, why):
                relay = self.by_resource.get(resource)
                if relay is None:
                    return
                if why:
                    relay.registration.failed(now)
                    yield Note("not_registered", f"{resource}: {why}")
                else:
                    relay.registration.done(now)
                    relay.registered = True

    def _up(self, resource: str, options: PluginOptions) -> Iterator[Note]:
        relay = self.by_resource.get(resource)
        if relay is None and len(self.by_resource) >= RESOURCES_MAX:
            yield Note("too_many_resources", f"{resource} is not passed on: {RESOURCES_MAX} are known already")
            return
        if relay is None:
            self.by_resource[resource] = Relay(options)
            return
        relay.down_since = None
        if relay.options != options:
            relay.options, relay.registration = options, Due(FOREVER_S, RETRY_S)

    def devices(self, resource: str) -> tuple[PluginDevice, ...]:
        relay = self.by_resource.get(resource)
        return relay.devices if relay else ()

    def serve(self, resources: frozenset[str]) -> bool:
        """Whether the kubelet knows some of these resources, and a plugin stands behind each that it knows."""
        found = [relay for name, relay in self.by_resource.items() if name in resources]
        return bool(found) and all(relay.registered and relay.down_since is None for relay in found)

    def held_back(self, resources: frozenset[str]) -> frozenset[str]:
        """Those of the resources that have devices, and that the kubelet was not shown yet."""
        found = ((name, self.by_resource.get(name)) for name in resources)
        return frozenset(name for name, relay in found if relay and relay.known and relay.shown is None)

    def wanted(
        self,
        commanded: frozenset[str],
        sick: frozenset[str],
        now: float,
        *,
        strip: bool,
        unknown: frozenset[str] = frozenset(),
    ) -> Iterator[KubeletEffect]:
        """What the kubelet is to be told now.

        Args:
            commanded: resources of which the shim chooses devices. unknown: of which nobody knows yet whether it does.
        """
        for resource, relay in self.by_resource.items():
            if not relay.known or resource in unknown:
                continue
            ours = resource in commanded
            down = relay.down_since is not None and now - relay.down_since >= GRACE_S
            show = Show(resource, strip=ours and strip, sick=sick if ours else frozenset(), down=down)
            if show != relay.shown:
                relay.shown = show
                yield show
            if relay.registration.start(now):
                options = relay.options
                yield Register(resource, PluginOptions(options.pre_start, prefers=options.prefers or ours))
