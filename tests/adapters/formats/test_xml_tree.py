"""The XML tree: what is found in a pasted file, which line it is from, and what is refused."""

import pytest

from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.formats.text.xml_tree import DEPTH_MAX, VALUE_MAX, Element, find_xml, parse_xml
from atoll.core.errors import DumpError

SESSION = """
user@host:~$ cat log.xml
<?xml version="1.0" encoding="ISO-8859-1" ?>
<!DOCTYPE log SYSTEM "log_v12.dtd">
<log>
\t<gpu id="00000000:17:00.0">
\t\t<name> Größe </name>
\t</gpu>
</log>user@host:~$ ls <none>
user@host:~$
"""


def parse(text: str) -> Element:
    return parse_xml(decode(DumpFile("log.xml", text.encode())))


def refusal(text: str) -> DumpError:
    with pytest.raises(DumpError) as refused:
        parse(text)
    return refused.value


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_document_is_found_in_a_pasted_session_and_keeps_the_lines_of_the_file(end: str) -> None:
    root = parse(SESSION.replace("\n", end))

    assert (root.tag, root.line) == ("log", 5)
    gpu = root.child("gpu")
    assert gpu is not None
    assert (gpu.get("id"), gpu.get("name"), gpu.line) == ("00000000:17:00.0", None, 6)
    assert root.words("gpu", "name") == "Größe"  # whatever encoding was declared
    assert root.words("gpu", "uuid") is None
    assert [element.tag for element in root.walk()] == ["log", "gpu", "name"]


def test_a_document_needs_no_declaration() -> None:
    assert parse("<!-- Copyright\n<old/> -->\n<system version='1'/>").line == 3
    assert parse("$ cat t\n  <system>\n</system>\n").line == 2
    assert parse("<!-- one --> <!-- two --><system/>").line == 1


def test_a_quoted_mail_is_read() -> None:
    quoted = "\n".join(f"> {line}" for line in SESSION.split("\n"))

    assert parse(quoted).words("gpu", "name") == "Größe"


@pytest.mark.parametrize("text", ["GPU0 <none>\n", "PCI\n<none>\n<none>\n", "a < b\n", "\n1 <b\n"])
def test_angle_brackets_alone_are_no_document(text: str) -> None:
    assert find_xml(decode(DumpFile("-", text.encode()))) is None
    assert refusal(text).found == "no XML"


def test_text_around_and_between_children_is_joined() -> None:
    assert parse("<a>one <b>two</b>\n  <c/> three&amp;four</a>").text == "one  three&four"


REFUSED = {
    "an entity bomb": '<!DOCTYPE a [<!ENTITY b "c">]>\n<a>&b;</a>',
    "an external entity": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    "a parameter entity": '<!DOCTYPE a [<!ENTITY % b "c"> %b;]><a/>',
    "an undefined entity": "<a>&b;</a>",
    "an undefined entity in an attribute, though a DTD is named": '<!DOCTYPE a SYSTEM "x"><a b="&c;"/>',
    "depth": "<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1),
    "a cut file": "<a><b>",
    "a cut tag": "<a><b",
    "only a declaration": '<?xml version="1.0"?>\n',
    "an unclosed DOCTYPE": "<!DOCTYPE a SYSTEM 'b",
    "an unclosed declaration": '<?xml version="1.0"\n<a/>',
    "an unclosed comment": '<?xml version="1.0"?>\n<!-- <a/>',
    "words before the root": '<?xml version="1.0"?>\nhere it is\n<a/>',
    "a tag that is closed by another": "<a><b></a></b>",
    "an attribute twice": '<a b="" b=""/>',
    "a character that XML has not": "<a>&#0;</a>",
    "a second document": '<a/>\n$ again\n<?xml version="1.0"?>\n<a/>',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_broken_or_hostile_is_refused_with_its_place(text: str) -> None:
    refused = refusal(text)

    assert refused.file == "log.xml"
    assert refused.line > 0
    assert refused.column > 0


def test_a_refusal_names_the_place_in_the_file_as_it_was_given() -> None:
    refused = refusal("$ cat a\n\x1b[1m<a>\x1b[0m <b></c></a>\n")

    assert (refused.line, refused.column) == (2, 18)  # its name, behind two escapes
    assert "inside <b> of line 2" in refused.found


def test_values_are_bounded() -> None:
    long = "x" * (VALUE_MAX // 2)

    assert "text of <a>" in refusal_of_parts(f"<a>{long}<b/>", f"{long}x</a>").found
    assert "attribute" in refusal_of_parts(f'<a b="{long}', f'{long}x"/>').found


def refusal_of_parts(*parts: str) -> DumpError:
    """A text that is too large for one file today, handed over decoded."""
    raw = "".join(parts)
    text = decode(DumpFile("log.xml", b"<a/>"))
    whole = type(text)(name="log.xml", raw=raw, lines=tuple(raw.split("\n")))
    with pytest.raises(DumpError) as refused:
        parse_xml(whole)
    return refused.value
