"""The page on command mode: its commands and its objects are what the program takes, its faults are tests."""

import re
from pathlib import Path

import msgspec
import yaml

from atoll.adapters.kube import manifests_shim, wire_atoll
from atoll.adapters.kube.codec_inventory import config_of
from atoll.core.facts import Enforcement, Hints
from atoll.core.ledger import NodeMode
from tests.docs.test_readme import FENCE, must_be_taken

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "command-mode.md").read_text()
OBJECTS = [yaml.safe_load(body) for language, body in FENCE.findall(PAGE) if language == "yaml"]


def test_its_commands_are_taken_by_the_program() -> None:
    lines = [line[2:] for language, body in FENCE.findall(PAGE) if language == "console" for line in body.splitlines()]
    parts = (part.split("#")[0].split() for line in lines for part in line.split("|"))
    calls = [words for program, *words in parts if program == "atoll"]

    assert [words[1] for words in calls] == ["crds", "rbac", "admission", "agent", "shim", "shim"]
    for words in calls:
        must_be_taken(words)


def test_its_pool_is_commanded() -> None:
    config = config_of(msgspec.convert(OBJECTS[1], wire_atoll.NodeConfig))

    assert (config.mode, config.enforcement, config.hints) == (NodeMode.COMMAND, Enforcement.ENFORCE, Hints.STRIP)


def test_the_folder_that_the_plugin_is_given_is_the_shim_s() -> None:
    (volume,) = OBJECTS[0]["spec"]["template"]["spec"]["volumes"]

    assert volume["hostPath"]["path"] == manifests_shim.PLUGIN_FOLDER
    assert manifests_shim.KUBELET_FOLDER in PAGE


def test_the_tests_that_it_names_are_there() -> None:
    for name in re.findall(r"`(?:tests/e2e/)?(test_\w+\.py)`", PAGE):
        assert (PROJECT / "tests" / "e2e" / name).exists(), name
