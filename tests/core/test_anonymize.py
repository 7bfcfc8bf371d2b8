"""A picture without names: every text that could identify is replaced, and the structure stays."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from atoll.core.anonymize import RULES, Kind, anonymized
from atoll.core.audit.audit import audit
from atoll.core.audit.picture import AuditEvent, Blind, Component, Metric, Picture, Role
from atoll.core.evidence.machine import Disagreement, Machine, SeenRemark
from atoll.core.evidence.reading import Format, Remark, SeenAllocation, SeenGpu, SeenNic, Source
from atoll.core.topology import NodeTopology, PairLink
from tests.core.audit.pictures import PODS, node, picture, pod, record, uuid


def filled(kind: Any, place: str) -> Any:
    """A value of that type in which every text names its own place, so that what survives can be told."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is NodeTopology:
        return NodeTopology((filled(get_type_hints(NodeTopology)["devices"], place)[0],), ((PairLink(),),))
    if kind is str:
        return f"secret {place}"
    if origin in {Union, UnionType}:
        return filled(next(each for each in arguments if each is not type(None)), place)
    if origin is tuple:
        members = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(filled(each, place) for each in members)
    if origin is not None and issubclass(origin, Mapping):
        return {filled(arguments[0], place): filled(arguments[1], place)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{f.name: filled(hints[f.name], f"{kind.__name__}.{f.name}") for f in fields(kind)})  # type: ignore[operator]
    return {int: 1, float: 1.0, bool: True}[kind]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, Enum):
        return
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from texts(each)


def test_only_fields_that_are_written_down_as_harmless_survive() -> None:
    left = {text.removeprefix("secret ") for text in texts(anonymized(filled(Picture, "?"))) if "secret" in text}

    harmless = {Kind.KEEP, Kind.OURS, Kind.IMAGE}
    kept = {
        f"{cls.__name__}.{name}" for cls, rules in RULES.items() for name, kind in rules.items() if kind in harmless
    }
    # Where a number or a cell stands beside a name in one tuple, the rule is about the name.
    beside = {"KubeletPolicies.exclusive_cpus", "Zone.resources", "SeenAllocation.devices"}
    assert left <= kept | beside | {"Machine.provenance"}


def test_every_rule_is_about_a_field_that_exists() -> None:
    assert {(cls, name) for cls, rules in RULES.items() for name in rules} <= {
        (cls, field.name) for cls in RULES for field in fields(cls)
    }


def test_names_are_replaced_consistently_so_that_the_audit_says_the_same() -> None:
    seen = picture(node("gpu-box-7"), pods=(pod("llama-train", "gpu-box-7", (2, 3, 4, 5)),))

    clean = anonymized(seen)
    report = audit(clean)

    assert [finding.code for finding in report.findings] == [finding.code for finding in audit(seen).findings]
    assert "node-1: namespace-1/pod-1 holds GPU 2-5" in report.findings[0].title
    everything = " ".join(texts(clean)) + repr(report)
    assert not [name for name in ("gpu-box-7", "llama-train", "team", uuid("gpu-box-7", 2)) if name in everything]


def test_sentences_of_ours_keep_their_words_and_lose_the_names() -> None:
    told = SeenRemark(Source(Format.SYSFS, "f"), Remark("MaskedUUID", f"{uuid('n1', 1)} on n1 is masked"))

    (clean,) = anonymized(picture(node("n1", remarks=(told,)))).nodes

    assert clean.machine.remarks[0].remark.text == "a0000000-0000-4000-8000-000000000002 on node-1 is masked".replace(
        "a0000000", "GPU-a0000000"
    )


def test_replicas_of_one_gpu_stay_replicas_of_one_gpu() -> None:
    real = "GPU-709fac35-5f40-624b-90f7-b0a3db7a97a0"
    records: tuple[tuple[Source, SeenAllocation], ...] = tuple(
        (Source(Format.KUBELET_CHECKPOINT, "c"), record((f"{real}{suffix}",))) for suffix in ("::1", "::2", "-3")
    )

    (clean,) = anonymized(picture(node(), pods=(pod("a", "n1", 3, recorded=records),))).pods

    ids = [ids[0] for _, each in clean.recorded for _, ids in each.devices]
    assert len({each.removesuffix("::1").removesuffix("::2").removesuffix("-3") for each in ids}) == 1
    assert [each[-3:] for each in ids] == ["::1", "::2", ids[2][-3:]]
    assert ids[2].endswith("-3")


def test_messages_of_other_programs_are_dropped() -> None:
    event = AuditEvent("Pod", "team", "a", "FailedScheduling", "0/7 nodes of acme corp", 3)

    (clean,) = anonymized(picture(node(), events=(event,))).events

    assert (clean.reason, clean.count, clean.message, clean.name) == ("FailedScheduling", 3, "", "pod-1")


def test_a_pod_without_an_owner_has_none_afterwards_and_unknown_kinds_of_owners_are_not_named() -> None:
    seen = picture(node(), pods=(pod("bare", "n1", (0,)), pod("owned", "n1", (1,), controller="AcmeJob/secret")))

    bare, owned = anonymized(seen).pods

    assert (bare.controller, owned.controller) == ("", "Owner/pod-3")


def test_what_could_not_be_read_keeps_kinds_of_objects_and_loses_names_of_files() -> None:
    blind = (
        Blind("acme-corp.txt:3", "refused: found acme"),
        Blind("events", "forbidden", "atoll manifests audit-rbac | kubectl apply -f -"),
        Blind("devices.scheduling.koordinator.sh", "not installed", expected=True),
        Blind("notes-of-bob.md", "found no topology", expected=True),
    )

    clean = anonymized(picture(node(), blind=blind))

    assert [each.what for each in clean.blind] == [
        "file-2", "events", "devices.scheduling.koordinator.sh", "file-3",
    ]  # fmt: skip
    assert clean.origin == "a snapshot without names"


def test_only_labels_that_tell_a_model_or_a_setting_are_kept() -> None:
    labels = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.machine": "ACME-Box", "team": "secret"}

    (clean,) = anonymized(picture(replace(node(), labels=labels))).nodes

    assert clean.labels == {"nvidia.com/gpu.product": "H100"}


def test_settings_keep_numbers_and_words_of_placement_and_lose_the_names_of_files() -> None:
    settings = (
        ("MIG_STRATEGY", "mixed"), ("DEFAULT_CONFIG", "acme-a100"), ("config file", "acme-config/acme-a100"),
        ("acme-a100: sharing.timeSlicing.nvidia.com/gpu.replicas", "4"),
    )  # fmt: skip
    plugin = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1", settings=settings)
    asking = pod("a", "n1", (0,), asked=(("atoll.dev/policy", "Restricted"), ("atoll.dev/partition", "acme-left")))
    labels = {"nvidia.com/device-plugin.config": "acme-a100", "nvidia.com/mig.config.state": "failed"}

    clean = anonymized(picture(replace(node(), labels=labels), pods=(asking,), components=(plugin,)))

    told = dict(clean.components[0].settings)
    file = clean.nodes[0].labels["nvidia.com/device-plugin.config"]
    assert (told["MIG_STRATEGY"], told["DEFAULT_CONFIG"]) == ("mixed", file)
    assert told[f"{file}: sharing.timeSlicing.nvidia.com/gpu.replicas"] == "4"
    assert dict(clean.pods[0].asked)["atoll.dev/policy"] == "Restricted"
    assert "acme" not in " ".join(texts(clean))


BARE = Remark("OfflineCPU", "CPU 3 is offline.")


def test_an_identity_of_which_only_one_source_knows_is_replaced_too() -> None:
    serial = Disagreement((0,), "serial", ((PODS, "1322621083"), (PODS, "1322621084")))
    both = Disagreement((0,), "uuid", ((PODS, uuid("n1", 0)), (PODS, "GPU-709fac35-5f40-624b-90f7-b0a3db7a97a0")))
    told = SeenRemark(PODS, Remark("ToolWarning", 'The tool warned: "host acme-7 is old", of d/acme.txt.'))
    seen = node(disagreements=(serial, both), remarks=(told, SeenRemark(Source(Format.SYSFS, "d/acme.txt"), BARE)))

    clean = anonymized(picture(seen))

    assert not [word for word in ("acme", "132262108", "709fac35") if word in " ".join(texts(clean))]
    assert clean.nodes[0].machine.remarks[0].remark.text == 'The tool warned: "…", of file-2.'


def test_interfaces_that_somebody_renamed_and_masks_that_show_a_part_lose_their_names() -> None:
    nics = tuple(SeenNic(name) for name in ("mlx5_0", "ens1f0np0", "enx0242ac11aabb", "acme-storage"))
    gpus = tuple(SeenGpu("GPU0", uuid=each) for each in ("GPU-709fac35-****", "GPU-xxxxxxxx", "N/A"))

    (clean,) = anonymized(picture(replace(node(), machine=Machine("n1", None, (), gpus, nics)))).nodes

    assert [nic.name for nic in clean.machine.nics] == ["mlx5_0", "ens1f0np0", "place-1", "place-2"]
    assert [gpu.uuid for gpu in clean.machine.gpus] == ["GPU-********", "GPU-xxxxxxxx", "N/A"]


def test_reasons_lose_resources_and_what_concerns_a_node_stays_with_it() -> None:
    events = (AuditEvent("Node", "", "gpu-box", "NodeNotReady", ""), AuditEvent("Pod", "a", "b", "OutOfacme.com/x", ""))
    sample = Metric("DCGM_FI_DEV_XID_ERRORS", {"uuid": uuid("gpu-box", 1), "node": "gpu-box", "instance": "acme:1"}, 79)

    clean = anonymized(picture(node("gpu-box"), events=events, metrics=(sample,)))

    assert [(each.name, each.reason) for each in clean.events] == [
        ("node-1", "NodeNotReady"), ("pod-1", "OutOfresource-1"),
    ]  # fmt: skip
    assert {each.code for each in audit(clean).findings} >= {"XidErrors"}
    assert clean.metrics[0].labels == {"uuid": clean.nodes[0].machine.gpus[1].uuid, "node": "node-1"}
