"""Lists in files that hold other things than objects: the file and the fault are named, and no object is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from atoll.adapters.formats.folder import read_bundle
from tests.adapters.survey_objects import node, pod


@pytest.mark.parametrize("odd", [1, None, "a", [], True, 1.5])
def test_an_item_that_is_no_object_is_named_with_its_file_and_hides_no_other(odd: Any, tmp_path: Path) -> None:
    listed = {"kind": "List", "items": [node("n1"), odd, pod("p")]}
    (tmp_path / "all.json").write_text(json.dumps(listed))

    bundle = read_bundle(tmp_path)

    assert [found.document.value["kind"] for found in bundle.objects] == ["Node", "Pod"]
    assert [(each.what, each.why.partition(";")[0].split(" that ")[0]) for each in bundle.blind] == [
        ("all.json:1", "was refused: found an item")
    ]


@pytest.mark.parametrize("odd", [{"a": {"kind": "Pod"}}, None, 3, "x"])
def test_items_that_are_no_list_are_named_with_their_file(odd: Any, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "PodList", "items": odd}))
    (tmp_path / "nodes.json").write_text(json.dumps(node("n1")))

    bundle = read_bundle(tmp_path)

    assert [found.file for found in bundle.objects] == ["nodes.json"]
    (blind,) = bundle.blind
    assert (blind.what, blind.expected) == ("pods.json:1", False)
    assert blind.why.startswith("was refused: found items that are ")
