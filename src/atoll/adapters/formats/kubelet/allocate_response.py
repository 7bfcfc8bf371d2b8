"""What a device plugin answered to Allocate: which GPUs a container really sees, whatever the kubelet calls them.

A plugin may name them in an environment variable, in CDI device names, in an annotation for CDI, or as mounts below
/var/run/nvidia-container-devices. The kubelet keeps the answer as protobuf in its checkpoint.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from atoll.adapters.formats.kubelet.protobuf import MESSAGE_MAX, fields

_ENVS, _MOUNTS, _ANNOTATIONS, _CDI_DEVICES = 1, 2, 4, 5  # of ContainerAllocateResponse
_KEY, _VALUE = 1, 2  # of a map's entry; a Mount's container_path and a CDIDevice's name have number 1 too

_VISIBLE = re.compile(r"[A-Z0-9_]*VISIBLE_DEVICES")
_UUID = re.compile(r"(?:GPU|MIG|MLU|DCU|PPU|XPU)-[0-9A-Za-z][\w./-]{0,120}")
_MOUNTED = "/var/run/nvidia-container-devices/"
_CDI_PREFIX = "cdi.k8s.io/"


@dataclass(frozen=True, slots=True)
class Visible:
    """Attributes:
    uuids: in order, each once.
    settings: the *_VISIBLE_DEVICES variables as they are; a vendor may count instead of naming ("0,1", "all").
    """

    uuids: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]


def visible_devices(encoded: str) -> Visible | None:
    """Read a base64 ContainerAllocateResponse; None where it is none."""
    if len(encoded) > MESSAGE_MAX * 4 // 3:
        return None
    try:
        message = base64.b64decode("".join(encoded.split()), validate=True)
        settings, names = _named(message)
    except (binascii.Error, ValueError):  # Malformed and UnicodeDecodeError are ValueErrors
        return None
    uuids = dict.fromkeys(name for name in names if _UUID.fullmatch(name))
    return Visible(tuple(uuids), tuple(settings))


def _named(message: bytes) -> tuple[list[tuple[str, str]], list[str]]:
    settings: list[tuple[str, str]] = []
    names: list[str] = []
    for number, content in fields(message):
        if number == _ENVS:
            key, value = _entry(content)
            if _VISIBLE.fullmatch(key):
                settings.append((key, value))
                names += _split(value)
        elif number == _ANNOTATIONS:
            key, value = _entry(content)
            if key.startswith(_CDI_PREFIX):
                names += _split(value)
        elif number == _CDI_DEVICES:
            names += _split(_entry(content)[0])
        elif number == _MOUNTS:
            path = _entry(content)[0]
            if path.startswith(_MOUNTED):
                names.append(path.removeprefix(_MOUNTED))
    return settings, names


def _entry(content: bytes) -> tuple[str, str]:
    found = dict(fields(content))
    return found.get(_KEY, b"").decode(), found.get(_VALUE, b"").decode()


def _split(listed: str) -> Iterator[str]:
    """Names of a comma list, without the kind that CDI puts before them: nvidia.com/gpu=GPU-…"""
    for name in listed.split(","):
        yield name.strip().rpartition("=")[2]
