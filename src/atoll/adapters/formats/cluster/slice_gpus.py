"""The GPUs that devices of ResourceSlices are: names of one GPU put together, MIG devices put into theirs."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from atoll.adapters.formats.cluster.slice_device import SliceDevice, gpu_of
from atoll.adapters.formats.text.objects import text_of
from atoll.core.evidence.identity import is_name
from atoll.core.evidence.reading import MigDevice, Remark, SeenGpu

_FIELDS = tuple(field.name for field in fields(SeenGpu))


@dataclass(frozen=True, slots=True)
class Offered:
    """GPUs in the order of their first names. `twice`: address or UUID -> the names that are one GPU."""

    gpus: tuple[SeenGpu, ...]
    twice: Mapping[str, list[str]]
    remarks: tuple[Remark, ...] = ()


@dataclass(slots=True)
class _Card:
    """One GPU and the devices that are names of it."""

    gpu: SeenGpu
    devices: list[SliceDevice]


def offered_gpus(devices: list[SliceDevice], line: int) -> Offered:
    """Args: devices: the GPUs, MIG devices and the like of one node."""
    cards: list[_Card] = []
    found: dict[str, _Card] = {}
    for device in devices:
        if device.type == "mig":
            continue
        gpu = gpu_of(device)
        keys = [key for key in (gpu.uuid if is_name(gpu.uuid) else None, gpu.pci_address) if key]
        same = next((found[key] for key in keys if key in found and _one_gpu(found[key], device, gpu)), None)
        if same is None:
            same = _Card(gpu, [device])
            cards.append(same)
        else:
            same.gpu = _together(same.gpu, gpu, second_is_host=device.type != "vfio")
            same.devices.append(device)
        for key in keys:
            found.setdefault(key, same)
    _put_mig([device for device in devices if device.type == "mig"], cards, found)
    twice = {
        card.gpu.pci_address or card.gpu.uuid or card.gpu.name: [device.name for device in card.devices]
        for card in cards
        if len(card.devices) > 1
    }
    remarks = [
        Remark("DuplicateDevice", f"{' and '.join(names)} are one GPU at {key}; only one of them can be had.", line)
        for key, names in twice.items()
    ]
    return Offered(tuple(card.gpu for card in cards), twice, (*remarks, *_shared(cards, line)))


def _one_gpu(card: _Card, device: SliceDevice, gpu: SeenGpu) -> bool:
    """Whether a device at the address or with the UUID of another one is the same GPU under another name.

    Partitions of an AMD GPU lie at one address too, are of one type, and are each to be had. One UUID at several
    addresses is a mask or a mistake.
    """
    if card.gpu.pci_address and gpu.pci_address and card.gpu.pci_address != gpu.pci_address:
        return False
    return _kinds_differ(card, device) or any(each.name == device.name for each in card.devices)


def _kinds_differ(card: _Card, device: SliceDevice) -> bool:
    return all((each.driver, each.type) != (device.driver, device.type) for each in card.devices)


def _together(first: SeenGpu, second: SeenGpu, *, second_is_host: bool) -> SeenGpu:
    """One GPU; the name for the host is kept, since pods get that one."""
    name = second.name if second_is_host else first.name
    main, other = (second, first) if second_is_host else (first, second)
    missing = {key: getattr(other, key) for key in _FIELDS if getattr(main, key) in {None, ()}}
    return replace(main, **{**missing, "name": name})


def _put_mig(devices: list[SliceDevice], cards: list[_Card], found: dict[str, _Card]) -> None:
    """MIG devices name their parent; one that is not offered itself is known by that alone."""
    by_parent: dict[str, list[SliceDevice]] = defaultdict(list)
    for device in devices:
        parent = text_of(device.attributes.get("parentUUID")) or str(device.facts.get("pciBusID", ""))
        by_parent[parent].append(device)
    for parent, members in by_parent.items():
        card = found.get(parent) if parent else None
        if card is None:
            whole = gpu_of(members[0])
            model = text_of(members[0].attributes.get("parentProductName")) or whole.model
            card = _Card(
                replace(
                    whole, name=parent or whole.name, uuid=parent or None, memory_mib=None, index=None, model=model
                ),
                [],
            )
            cards.append(card)
        mig = tuple(_mig(number, device) for number, device in enumerate(members))
        card.gpu = replace(card.gpu, mig="Enabled", mig_devices=mig)


def _mig(number: int, device: SliceDevice) -> MigDevice:
    profile = text_of(device.attributes.get("profile")) or None
    return MigDevice(number, profile, uuid=device.facts.get("uuid"))


def _shared(cards: list[_Card], line: int) -> list[Remark]:
    at: dict[str, list[str]] = defaultdict(list)
    for card in cards:
        if card.gpu.pci_address:
            at[card.gpu.pci_address].append(card.gpu.name)
    return [
        Remark("SharedAddress", f"{', '.join(names[:16])} are all at {address}: parts of one GPU.", line)
        for address, names in at.items()
        if len(names) > 1
    ]
