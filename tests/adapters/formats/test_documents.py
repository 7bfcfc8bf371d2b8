"""JSON and YAML as files hold them: which values they are, where they begin, and what is refused."""

import time

import pytest

from atoll.adapters.formats.text.documents import documents, embedded, items_of, looks_structured, odd_members
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError


def text(body: str) -> DumpText:
    return decode(DumpFile("f", body.encode()))


def values(body: str) -> list[object]:
    return [document.value for document in documents(text(body))]


def refusal(body: str) -> DumpError:
    with pytest.raises(DumpError) as refused:
        documents(text(body))
    return refused.value


JSON_TEXTS = {
    "one object": '{"a": 1}',
    "crlf and blank lines": '\r\n\r\n{\r\n"a": 1\r\n}\r\n',
    "a prompt that begins with a bracket": '[root@n1 ~]# cat x.json\n{"a": 1}\n[root@n1 ~]# ',
    "a prompt after the last brace": '$ cat x.json\n{"a": 1}root@n1:~# ',
    "a warning before": 'Warning: v1 is deprecated\n{\n"a": 1}',
    "coloured": '\x1b[32m{"a"\x1b[0m: 1}',
}


@pytest.mark.parametrize("body", JSON_TEXTS.values(), ids=JSON_TEXTS.keys())
def test_json_is_found_among_what_a_terminal_prints(body: str) -> None:
    assert values(body) == [{"a": 1}]


def test_json_lines_are_values_with_their_lines() -> None:
    found = documents(text('{"a": 1}\n\n{"a": 2} {"a": 3}\n[4]\n'))

    assert [(document.value, document.line) for document in found] == [
        ({"a": 1}, 1), ({"a": 2}, 3), ({"a": 3}, 3), ([4], 4)
    ]  # fmt: skip


REFUSED_JSON = {
    "cut": ('{"a": [1,\n2', "inside a value", 2),
    "a bracket too many": ('{"a": 1}}', "outside any value", 1),
    "a comma too many": ('{"a": 1,\n}', "broken JSON", 2),
    "a wrapped string": ('{"a": "b\nc"}', "broken JSON", 1),
    "a key twice": ('{"a": {"b": 1,\n"b": 2}}', 'the key "b" twice', 2),
    "not a number": ('{"a": NaN}', "a number", 1),
    "thousands of digits": ('{"a": ' + "7" * 5000 + "}", "a number", 1),
    "65 deep": ("[" * 64 + "\n[1]" + "]" * 64, "more than 64 deep", 2),
    "endlessly deep": ("[" * 200_000, "more than 64 deep", 1),
}


@pytest.mark.parametrize(("body", "found", "line"), REFUSED_JSON.values(), ids=REFUSED_JSON.keys())
def test_json_that_cannot_be_trusted_is_refused_with_its_line(body: str, found: str, line: int) -> None:
    error = refusal(body)

    assert found in error.found
    assert error.line == line


CUT = "the end of the file inside a value"


def test_json_that_ends_early_is_told_to_be_cut_wherever_that_is() -> None:
    whole = '{"kind": "List", "n": -12.5e+3, "ok": [true, false, null, {"a": "b\\u00e9\\\\c"}]}\n'

    for end in range(2, len(whole) - 1):
        error = refusal(whole[:end])
        assert (error.found, error.line, "is cut" in error.remedy) == (CUT, 1, True), whole[:end]


@pytest.mark.parametrize("body", ['a: "b c', "a: [1,", "a: {b: 1", "a: 1\nb", "a:\n- {x: 'y\n\n"])
def test_yaml_that_ends_early_is_told_to_be_cut(body: str) -> None:
    error = refusal(f"kind: Pod\n{body}")

    assert error.found == CUT
    assert "is cut" in error.remedy


def test_yaml_is_read_as_kubernetes_reads_it() -> None:
    body = (
        'a: 38:00.0\nb: 0000:17:00.0\nc: yes\nd: "yes"\ne: 010\nf: 0x1F\ng: 2025-10-07T07:15:15Z\nh: 1e3\ni: ~\n'
        "j: 1_000\nk: 08\nl: 1.5\n1: |\n  x\n  y\nm: -7\nn: 190:20:30\no: 0o\np: 0\n"
    )

    assert values(body) == [
        {"a": "38:00.0", "b": "0000:17:00.0", "c": True, "d": "yes", "e": 8, "f": 31, "g": "2025-10-07T07:15:15Z",
         "h": 1000, "i": None, "j": 1000, "k": 8, "l": 1.5, "1": "x\ny\n", "m": -7, "false": "190:20:30",
         "o": "0o", "p": 0}
    ]  # fmt: skip


def test_several_yaml_documents_and_prompts_between_them() -> None:
    found = documents(text("$ kubectl get node a -o yaml\nkind: Node\n---\n# nothing\n---\nkind: Pod\nroot@n1:~# \n"))

    assert [(document.value, document.line) for document in found] == [({"kind": "Node"}, 2), ({"kind": "Pod"}, 6)]


REFUSED_YAML = {
    "a bomb": ("kind: x\na: &a [1]\nb: [*a, *a]\n", "the alias", 3),
    "a tag": ("kind: x\na: !!python/name:os.system ''\n", "the tag", 2),
    "a key twice": ("kind: x\na: {b: 1, b: 2}\n", 'the key "b" twice', 2),
    "a merge": ("kind: x\n<<: {a: 1}\n", "no word", 2),
    "a list as key": ("kind: x\n[a]: 1\n", "no word", 2),
    "deep": ("kind: x\na: " + "[" * 70, "more than 64 deep", 2),
    "broken": ("kind: x\n\ta: 1\n", "broken YAML", 2),
    "two colons": ("kind: a: b\n", "broken YAML", 1),
    "no object": ("nothing at all\n", "no object", 1),
}


@pytest.mark.parametrize(("body", "found", "line"), REFUSED_YAML.values(), ids=REFUSED_YAML.keys())
def test_yaml_that_cannot_be_trusted_is_refused_with_its_line(body: str, found: str, line: int) -> None:
    error = refusal(body)

    assert found in error.found
    assert error.line == line


@pytest.mark.parametrize("junk", ["[", "{", "{\n", "- ", "? ", "&a ", "a: ", '"', "{[", "'", '\\"', "a@b "])
def test_a_megabyte_of_junk_is_refused_at_once(junk: str) -> None:
    body = junk * ((1 << 20) // len(junk.encode()))
    began = time.perf_counter()

    refusal(body)

    assert time.perf_counter() - began < 2


def test_the_members_of_a_list_are_documents_with_their_kind_and_line() -> None:
    body = "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: a}\n\n- metadata:\n    name: b\n"

    members = [member for document in documents(text(body)) for member in items_of(document)]

    assert [(member.value["kind"], member.value["metadata"]["name"], member.line) for member in members] == [
        ("Node", "a", 4), ("Node", "b", 6)
    ]  # fmt: skip


def test_lists_in_lists_are_flattened() -> None:
    body = '{"kind": "List", "items": [{"kind": "List", "items": [{"kind": "Pod"}]}, {"kind": "Node"}]}'

    assert [member.value["kind"] for member in items_of(documents(text(body))[0])] == ["Pod", "Node"]


ODD_LISTS = {
    '{"kind": "List", "items": {"a": 1}}': ("items that are a mapping", 1),
    '{"kind": "PodList", "items": null}': ("items that are null", 1),
    '{"kind": "List", "items": "x"}': ('items that are the text "x"', 1),
    "kind: List\nitems:\n- kind: Pod\n- 1\n": ("an item that is a number", 4),
    "kind: List\nitems:\n- kind: Pod\n- null\n- a\n- [1]\n": ("an item that is null and 2 more like it", 4),
    "kind: NodeList\nitems:\n- kind: Pod\n- true\n": ("an item that is true or false", 4),
    '{"kind": "List", "items": [{"kind": "List", "items": ["a"]}]}': ('an item that is the text "a"', 1),
}


@pytest.mark.parametrize(("body", "found", "line"), [(body, *told) for body, told in ODD_LISTS.items()])
def test_what_is_no_object_in_a_list_is_told_with_its_line(body: str, found: str, line: int) -> None:
    (error,) = odd_members("f", documents(text(body))[0])

    assert (error.file, error.line, error.found) == ("f", line, found)


@pytest.mark.parametrize("body", ['{"kind": "List", "items": []}', '{"items": 1}', "kind: Pod\nitems: 1\n", "[1, 2]"])
def test_what_is_no_list_of_objects_has_no_members_to_doubt(body: str) -> None:
    assert list(odd_members("f", documents(text(body))[0])) == []


STRUCTURED = {
    '{"a": 1}': True,
    "[\n{\n}\n]": True,
    "# a comment\n---\napiVersion: v1\n": True,
    'nvidia.com/gpu.count: "8"\n': True,
    '    nvidia.com/gpu.count: "8"\n    nvidia.com/gpu.memory: "1"\n': True,
    "Architecture: x86_64\nCPU(s): 8\n": False,
    "Driver Version : 535.1\nGPU 00000000:17:00.0\n": False,
    "[root@n1 ~]# nvidia-smi topo -m\n\tGPU0\n": False,
}


@pytest.mark.parametrize(("body", "structured"), STRUCTURED.items())
def test_only_json_and_yaml_of_kubernetes_look_structured(body: str, structured: bool) -> None:
    assert looks_structured(text(body)) == structured


def test_json_inside_a_value_is_read_or_is_none() -> None:
    assert embedded(' {"a": [1]} ') == {"a": [1]}
    assert [embedded(value) for value in (None, 3, "", "{", "[1] x", "[" * 5000, "9" * 5000)] == [None] * 7


def test_half_a_character_is_replaced() -> None:
    assert values('{"a": "\\ud83d\\ude00 \\ud83d"}') == [{"a": "😀 \ufffd"}]
