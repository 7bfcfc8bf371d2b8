"""The page on the node side: its commands and its object are what the program takes, its faults are tests."""

import re
from pathlib import Path

import msgspec
import yaml

from atoll.adapters.kube import wire_atoll
from atoll.adapters.kube.codec_inventory import config_of
from atoll.core.facts import Enforcement
from atoll.core.ledger import NodeMode
from atoll.models.setup import GPUS_MAX
from atoll.services.agent import LOOK_S, RENEW_S
from atoll.services.residents import TOLD_WITHIN_S
from tests.docs.test_readme import FENCE, must_be_taken

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "node-side.md").read_text()


def test_its_commands_are_taken_by_the_program() -> None:
    lines = [line[2:] for language, body in FENCE.findall(PAGE) if language == "console" for line in body.splitlines()]
    parts = (part.split("#")[0].split() for line in lines for part in line.split("|"))
    calls = [words for program, *words in parts if program == "atoll"]

    assert [words[:2] for words in calls] == [["manifests", "crds"], ["manifests", "agent"], ["agent", "--once"]]
    for words in calls:
        must_be_taken(words)


def test_its_object_switches_observe_mode_on() -> None:
    (text,) = (body for language, body in FENCE.findall(PAGE) if language == "yaml")

    config = config_of(msgspec.convert(yaml.safe_load(text), wire_atoll.NodeConfig))

    assert (config.mode, config.enforcement) == (NodeMode.OBSERVE, Enforcement.ENFORCE)


def test_its_times_and_bounds_are_those_of_the_program() -> None:
    assert f"every {LOOK_S / 60:.0f} minutes" in PAGE
    assert f"every {RENEW_S:.0f} s its Lease" in PAGE
    assert f"within {TOLD_WITHIN_S:.0f} s" in PAGE
    assert f"more than {GPUS_MAX} GPUs" in PAGE


def test_the_tests_that_it_names_are_there() -> None:
    for name in re.findall(r"`tests/e2e/(test_\w+\.py)`", PAGE):
        assert (PROJECT / "tests" / "e2e" / name).exists(), name
