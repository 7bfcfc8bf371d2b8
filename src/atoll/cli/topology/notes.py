"""What stands below a drawn machine: MIG devices, NICs, who disagreed, remarks, and where everything comes from."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from atoll.cli.topology.origins import indices, place
from atoll.core.audit.picture import Blind
from atoll.core.errors import printable
from atoll.core.evidence.machine import Disagreement, Machine
from atoll.core.id_list import ranges

SHOWN_MAX = 8
"""Lines of one kind; one wrong file can disagree on every pair of GPUs."""


def print_notes(machine: Machine, console: Console, *, wide: bool) -> None:
    """Print what is known beside the topology; `wide` cuts nothing."""
    most = None if wide else SHOWN_MAX
    _print(console, _mig_lines(machine), most)
    _print(console, _about(machine), most)
    _print(console, _disagreements(machine), most, "yellow")
    _print(console, _remarks(machine), most, "cyan")
    _print(console, [f"from {', '.join(_sources(machine, most))}"] if machine.sources else [], most, "dim")


def print_blind(blind: Sequence[Blind], console: Console, *, wide: bool) -> None:
    """What of a folder was not read: refusals one by one, files of other kinds as a number."""
    refused = [each for each in blind if not each.expected]
    lines = [f"not read: {each.what} {each.why}" + (f". {each.remedy}" if each.remedy else "") for each in refused]
    _print(console, lines, None if wide else 4 * SHOWN_MAX, "magenta")
    if others := len(blind) - len(refused):
        are = "1 file is of no kind that is" if others == 1 else f"{others} files are of no kind that is"
        _print(console, [f"{are} read here"], None, "dim")


def _print(console: Console, lines: Iterable[str], most: int | None, style: str = "") -> None:
    found = list(lines)
    for line in found[:most]:
        console.print(Text(printable(line), style), soft_wrap=True)
    if most is not None and len(found) > most:
        console.print(Text(f"and {len(found) - most} more like these (-o wide)", "dim"), soft_wrap=True)


def _mig_lines(machine: Machine) -> Iterable[str]:
    for index, gpu in zip(indices(machine), machine.gpus, strict=False):
        if gpu.mig_devices:
            profiles = Counter(device.profile or "unnamed" for device in gpu.mig_devices)
            slices = ", ".join(f"{count}× {profile}" for profile, count in profiles.items())
            yield f"MIG on GPU {index}: {slices}"
        elif (gpu.mig or "").lower() == "enabled":
            yield f"MIG on GPU {index}: enabled, no device listed"
    partitions: dict[str, list[int]] = {}
    for index, gpu in zip(indices(machine), machine.gpus, strict=False):
        if gpu.partition is not None:
            partitions.setdefault(gpu.partition, []).append(index)
    for partition, gpus in partitions.items():
        yield f"partition {partition} on GPU {ranges(gpus)}"


def _about(machine: Machine) -> Iterable[str]:
    if machine.versions:
        yield "versions: " + ", ".join(f"{name} {version}" for name, version in machine.versions)
    apart = [nic for nic in machine.nics if nic.physical is None]
    drawn = {nic.name for nic in machine.topology.nics} if machine.topology else set()
    named = [nic.device or nic.name for nic in apart if nic.name not in drawn]
    if named:
        more = f" and {len(named) - SHOWN_MAX} more" if len(named) > SHOWN_MAX else ""
        yield f"NICs without a known link: {', '.join(named[:SHOWN_MAX])}{more}"
    if machine.cpus is not None and machine.cpus.node_cpus:
        nodes, sockets = len(machine.cpus.node_cpus), machine.cpus.sockets
        yield f"CPUs: {nodes} NUMA node{'' if nodes == 1 else 's'}, sockets {sockets or 'unknown'}"
    if machine.kubelet is not None and machine.kubelet.topology_manager:
        policy = machine.kubelet
        yield f"kubelet: Topology Manager {policy.topology_manager} {policy.topology_manager_scope}".rstrip()


def _disagreements(machine: Machine) -> Iterable[str]:
    index = indices(machine)
    same: dict[tuple[str, tuple[str, ...]], list[Disagreement]] = {}
    for each in machine.disagreements:
        sources = tuple(place(source) for source, _ in each.said)
        same.setdefault((each.fact, sources), []).append(each)
    for (fact, _), found in same.items():
        first = found[0]
        gpus = " and ".join(f"GPU {index[at]}" for at in first.gpus)
        words = "; ".join(
            f"{place(source)} says {word}" + (" (taken)" if n == 0 else "")
            for n, (source, word) in enumerate(first.said)
        )
        more = f"; and {len(found) - 1} more of these" if len(found) > 1 else ""
        yield f"disagree on {fact.replace('_', ' ')}" + (f" of {gpus}" if gpus else "") + f": {words}{more}"


def _remarks(machine: Machine) -> Iterable[str]:
    same: dict[tuple[str, str], list[str]] = {}
    for seen in machine.remarks:
        same.setdefault((seen.remark.code, seen.source.file), []).append(seen.remark.text)
    for (code, file), texts in same.items():
        more = f" And {len(texts) - 1} more of these." if len(texts) > 1 else ""
        yield f"{code} in {file}: {texts[0]}{more}"


def _sources(machine: Machine, most: int | None) -> list[str]:
    named = list(dict.fromkeys(f"{source.format} ({source.file})" for source in machine.sources))
    hidden = len(named) - most if most is not None else 0
    return named[:most] + ([f"{hidden} more"] if hidden > 0 else [])
