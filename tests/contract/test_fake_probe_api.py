"""The fake node of probes keeps the same contract as the real adapter."""

import asyncio

import pytest

from tests.contract import probe_api
from tests.contract.fake_probe_api import FakeProbeApi


class FakeOutside:
    def __init__(self) -> None:
        self.api = FakeProbeApi()
        self.uuids = frozenset(self.api.uuids)


@pytest.mark.parametrize("sentence", probe_api.sentence.bodies, ids=probe_api.sentence.names)
def test_the_fake_node_keeps_the_contract(sentence: probe_api.Sentence) -> None:
    asyncio.run(sentence(FakeOutside()))
