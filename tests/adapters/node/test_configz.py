"""What a kubelet says of its own configuration, and what is not believed of it."""

import asyncio
import json

import pytest

from atoll.adapters.kube.credentials import Fixed
from atoll.adapters.node.configz import Configz, parts_of
from atoll.core.agent.events import OwnNode
from atoll.core.errors import DumpError
from atoll.core.facts import StockParts


def configz(**config: object) -> bytes:
    told = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod", "cpuManagerPolicy": "none"}
    return json.dumps({"kubeletconfig": {**told, "memoryManagerPolicy": "None", **config}}).encode()


def test_the_policies_are_read() -> None:
    assert parts_of(configz()) == StockParts("restricted", "pod", "none", "None")


def test_options_count_that_are_switched_on() -> None:
    options = {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "8", "another": "false"}

    assert parts_of(configz(topologyManagerPolicyOptions=options)).options == ("prefer-closest-numa-nodes",)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kubeletconfig": {}}', b'{"kubeletconfig": 1}', b"\xff"])
def test_an_answer_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises((ValueError, DumpError)):
        parts_of(body)


@pytest.mark.parametrize("node", [OwnNode("n1", "u"), OwnNode("n1", "u", host="127.0.0.1")])
def test_a_node_that_does_not_tell_where_its_kubelet_is_leaves_it_unknown(node: OwnNode) -> None:
    told = asyncio.run(Configz(Fixed(None), "", ()).ask(node))

    assert (told.parts, told.why) == (None, "the Node does not tell where its kubelet listens")


def test_a_kubelet_that_is_not_there_is_said_so() -> None:
    told = asyncio.run(Configz(Fixed(None), "", ()).ask(OwnNode("n1", "u", host="127.0.0.1", port=1)))

    assert told.parts is None
    assert told.why.startswith("https://127.0.0.1:1/configz: ")
