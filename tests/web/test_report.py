"""The report in a real browser: quiet, alone, narrow, dark, printed, and readable."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from atoll.cli.audit.document import document_of
from atoll.cli.audit.html import page_of
from tests.data import REQUIRED
from tests.web.sample import enormous, hostile, troubled

pytestmark = pytest.mark.browser

NAMES = (os.environ.get("ATOLL_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
WIDTHS = (400, 768, 1280)
CONTRAST_MIN = 4.5

CONTRASTS = """() => {
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const brush = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = colour => { brush.clearRect(0, 0, 1, 1); brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1);
                           return [...brush.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
  const ground = element => { for (; element; element = element.parentElement) {
    const colour = rgba(getComputedStyle(element).backgroundColor); if (colour[3] === 255) return colour; }
    return rgba('Canvas'); };
  const seen = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length) continue;
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    seen.push([(a + .05) / (b + .05), `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`]);
  }
  return seen.sort((x, y) => x[0] - y[0])[0];
}"""


@dataclass
class Opened:
    """A page in the browser, and what it did that it should not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = next((found for name in NAMES if name and (found := shutil.which(name))), None)
    if path is None:
        message = "no chromium here: run .ci/chromium, or set ATOLL_CHROMIUM"
        pytest.fail(message) if REQUIRED else pytest.skip(message)
    home = str(tmp_path_factory.mktemp("chromium"))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=path, args=QUIET, env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    documents = {"troubled": document_of(troubled()), "hostile": hostile(), "enormous": enormous(1000), "empty": {}}
    for name, document in documents.items():
        (folder / f"{name}.html").write_text(page_of(document), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in documents}


def opened(context: BrowserContext, file: Path) -> Opened:
    shown = Opened(context.new_page())

    def watch(route: Route) -> None:
        url = route.request.url
        if url.startswith(("data:", "file:")):
            route.continue_()
        else:
            route.abort()
        if url != file.as_uri() and not url.startswith("data:"):
            shown.requests.append(url)

    shown.page.on("console", lambda message: shown.complaints.append(message.text))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    shown.page.on("dialog", lambda dialog: shown.complaints.append(f"dialog: {dialog.message}") or dialog.dismiss())
    shown.page.route("**/*", watch)
    shown.page.goto(file.as_uri())
    return shown


@pytest.mark.parametrize("name", ["troubled", "hostile", "enormous", "empty"])
def test_the_page_complains_of_nothing_and_asks_nobody(browser, files, name):
    with browser.new_context() as context:
        shown = opened(context, files[name])
        shown.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert shown.complaints == []
        assert shown.requests == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["troubled", "hostile"])
def test_the_page_never_scrolls_sideways(browser, files, name, width):
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = opened(context, files[name]).page
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_scrolls_inside_itself_and_by_keyboard(browser, files):
    with browser.new_context(viewport={"width": 400, "height": 900}) as context:
        region = opened(context, files["troubled"]).page.get_by_role("region", name="Known defects", exact=True)
        region.focus()
        assert region.evaluate("one => one.scrollWidth > one.clientWidth && document.activeElement === one")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser, files, scheme):
    with browser.new_context(color_scheme=scheme) as context:
        page = opened(context, files["troubled"]).page
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        ratio, where = page.evaluate(CONTRASTS)
        assert ratio >= CONTRAST_MIN, where


def test_dark_is_dark_and_light_is_light(browser, files):
    grounds = []
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme) as context:
            page = opened(context, files["troubled"]).page
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(247, 248, 250)", "rgb(18, 23, 29)"]


def test_a_hostile_name_is_shown_as_it_is(browser, files):
    with browser.new_context() as context:
        page = opened(context, files["hostile"]).page
        assert page.evaluate("document.scripts.length") == 0
        assert page.get_by_role("heading", level=1).inner_text().startswith('https://10.20.0.1:6443<script>alert("x")')


def test_the_six_points_lead_to_their_sections(browser, files):
    with browser.new_context() as context:
        page = opened(context, files["troubled"]).page
        links = page.get_by_role("navigation", name="The six points").get_by_role("link")
        assert links.count() == 6
        for number in range(6):
            target = links.nth(number).get_attribute("href") or ""
            assert page.locator(target).get_by_role("heading", level=2).count() == 1


def test_a_node_is_read_out_island_by_island(browser, files):
    with browser.new_context() as context:
        page = opened(context, files["troubled"]).page
        tiles = page.get_by_role("img", name="NUMANode 0: GPU 0 held by A; GPU 1 held by A; GPU 2 free; GPU 3 free")
        assert tiles.count() == 1


def test_the_page_prints_with_everything_open(browser, files):
    with browser.new_context() as context:
        page = opened(context, files["troubled"]).page
        assert page.pdf().startswith(b"%PDF-")
        page.emulate_media(media="print")
        uuids = page.locator("#assignments .uuids").first
        assert uuids.is_visible()
        assert page.locator(".scroll").first.evaluate("one => getComputedStyle(one).overflowX") == "visible"
