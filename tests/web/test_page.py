"""The report as text: what it says, that no name becomes a tag, that it points nowhere, and how large it may become."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from atoll.cli.audit.document import API_VERSION, KIND, document_of
from atoll.cli.audit.html import page_of
from atoll.cli.audit.markup import el, join
from tests.web.sample import enormous, hostile, node, troubled

VOID = {"meta", "link", "circle", "path", "br", "img"}


class Elements(HTMLParser):
    """The elements of a page in order, and whether each is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def values(self, *names):
        return [value or "" for name, value in self.attributes if name in names]


@pytest.fixture(scope="module")
def page():
    return page_of(document_of(troubled()))


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.split("</style>")[1]))


def test_the_first_lines_tell_what_matters(page):
    text = text_of(page)
    assert "1 pod is split over islands although one island could hold it." in text
    assert "1 node has 4 GPUs free, but no intact island for them." in text
    assert "1 critical finding and 1 warning." in text


def test_findings_stand_before_the_six_points_and_those_in_order(page):
    order = re.findall(r'<section id="(\w+)"', page)
    points = ["topology", "versions", "abilities", "assignments", "fragments", "incidents"]
    assert order == ["findings", *points, "blind"]


def test_a_pod_and_the_uuids_it_holds_stand_together(page):
    row = next(row for row in page.split('<section id="assignments"')[1].split("<tr") if "ml/train-c-gpu-b" in row)
    assert re.findall(r"GPU-gpu-b-000\d", row) == [f"GPU-gpu-b-000{index}" for index in (2, 3, 4, 5)]
    assert "worst link SYS" in row


def test_an_island_tells_its_tiles_in_words(page):
    assert 'aria-label="NUMANode 1: GPU 4 free; GPU 5 free; GPU 6 free; GPU 7 broken or split"' in page


def test_equal_nodes_are_drawn_once(page):
    assert "and 5 nodes that look the same" in text_of(page)
    assert page.count('<article class="node">') == 6


def test_a_defect_links_to_where_it_is_published(page):
    assert 'href="https://github.com/NVIDIA/k8s-device-plugin/issues/2038"' in page


def test_what_could_not_be_seen_is_told_apart_from_what_need_not_be_there(page):
    text = text_of(page)
    assert "refused at line 3: found 7 columns; expected 8" in text
    assert "1 thing that need not be there" in text


def test_nothing_on_the_page_points_outside_but_links_for_people(page):
    found = Elements(page)
    assert not {"script", "iframe", "object", "embed", "img", "form", "base"} & set(found.tags)
    assert "default-src 'none'" in page
    assert "url(" not in page
    assert "@import" not in page
    assert found.values("src", "srcset", "action", "onload", "onclick") == []
    links = [value for value in found.values("href") if not value.startswith(("#", "data:,"))]
    assert all(link.startswith("https://") for link in links)


def test_headings_go_down_one_level_at_a_time(page):
    levels = [int(tag[1]) for tag in Elements(page).tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_no_text_becomes_a_tag_or_an_attribute():
    page = page_of(hostile())
    found = Elements(page)
    assert "script" not in found.tags
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "\x00" not in page
    assert all(value.startswith(("#", "data:,", "https://")) for value in found.values("href"))


def test_a_page_is_made_of_a_document_that_says_nothing():
    text = text_of(page_of({"apiVersion": API_VERSION, "kind": KIND}))
    assert "No node with GPUs was seen." in text
    assert "Nothing was found that a person should act on." in text


def test_thousands_of_nodes_make_a_bounded_page():
    page = page_of(enormous(1000))
    assert len(page) < 1_500_000
    assert page.count('<article class="node">') == 40
    assert re.search(r"[\d,]+ more nodes are not shown here", text_of(page))
    assert "100 more kinds are not shown here" in text_of(page)
    Elements(page)


def test_gpus_outside_of_every_island_are_drawn():
    report = troubled()
    lone = node("gpu-z", "AA..|....")
    document = document_of(report) | {"nodes": [dict(document_of(report)["nodes"][0], islands=[], name=lone.name)]}
    assert "NUMANode unknown not sure" in text_of(page_of(document))


def test_elements_escape_text_and_attributes():
    assert el("p", "<b>", class_='"x"') == '<p class="&quot;x&quot;">&lt;b&gt;</p>'
    assert join("a\u202eb", None, 3, [el("i", "&")]) == "a\\x202eb3<i>&amp;</i>"
    assert el("details", hidden=True, aria_label=None, open=False) == "<details hidden></details>"
