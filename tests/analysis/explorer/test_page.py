"""The explorer in a real browser: it draws, loads nothing, and keeps its state in its address."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer_page import data_of, make
from helpers import ARCHIVE
from machine_folder import Folder
from pypdf import PdfReader
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from analysis.statistics import TIME
from contracts import read_rows, write_rows

pytestmark = pytest.mark.browser
VIEWS = ("findings", "ladder", "sizes", "pair", "banks", "claims")
PHONE = {"width": 390, "height": 740, "deviceScaleFactor": 1, "mobile": True}
DESKTOP = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
MARKS = "return document.querySelectorAll(arguments[0] + ' svg g.mark-' + arguments[1] + ' path').length"


class Shown:
    """The page in the browser."""

    def __init__(self, browser: Any, page: Path) -> None:
        self.browser, self.page = browser, page
        self.size(**DESKTOP)
        browser.get_log("browser"), browser.get_log("performance")  # of tests before

    def size(self, **metrics: Any) -> None:
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, **state: str) -> Shown:
        """Load the page with a state in its address."""
        self.browser.get("about:blank")
        self.browser.get(self.page.as_uri() + "#" + "&".join(f"{key}={value}" for key, value in state.items()))
        return self.drawn()

    def drawn(self) -> Shown:
        """Wait until the page says that it has drawn what its address asks for."""
        ready = "return document.body.dataset.ready === document.body.dataset.view && document.body.dataset.ready"
        WebDriverWait(self.browser, 120).until(lambda browser: browser.execute_script(ready))
        return self

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def choose(self, selector: str, value: str) -> None:
        Select(self.one(selector)).select_by_value(value)
        self.drawn()

    def until(self, happened: Callable[[], Any]) -> None:
        WebDriverWait(self.browser, 60).until(lambda _: happened())

    def marks(self, chart: str, kind: str) -> int:
        return int(self.browser.execute_script(MARKS, chart, kind))

    @property
    def state(self) -> dict[str, str]:
        text = self.browser.current_url.partition("#")[2]
        return dict(part.split("=", 1) for part in text.split("&") if part)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def shown(chromium: Any, page: Path) -> Iterator[Shown]:
    """The page; at the end nothing may stand in the browser's console."""
    found = Shown(chromium, page)
    yield found
    assert found.complaints() == []


def test_the_page_is_one_small_file(page: Path) -> None:
    assert 500_000 < page.stat().st_size < 3_000_000


def test_it_opens_on_three_findings_and_loads_nothing(shown: Shown) -> None:
    shown.open()
    assert shown.one("main section:not([hidden])").get_attribute("id") == "findings"
    assert shown.one("nav a[aria-current]").text == "Findings"
    cards = shown.all("#findings-cards a.card")
    assert len(cards) == 3 and all(len(card.text) > 80 for card in cards)
    view = re.search(r"view=(\w+)", cards[0].get_attribute("href"))
    cards[0].click()
    shown.until(lambda: view and shown.state.get("view") == view[1])
    shown.drawn()
    assert shown.all("main section:not([hidden]) .chart svg")
    shown.open(view="ladder")
    rows = len(shown.all("#ladder-table tbody tr"))
    assert rows > 20 and shown.marks("#ladder-chart", "rect.layer_0_marks") == rows
    asked = []
    for entry in shown.browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    assert any(url.startswith("file:") for url in asked)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_draws_on_a_phone_without_a_sideways_scroll(shown: Shown, view: str) -> None:
    shown.size(**PHONE)
    shown.open(view=view)
    shown.browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert shown.browser.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
    assert len(shown.one(f"#{view}").text) > 100


def test_numbers_on_the_page_are_the_tables(shown: Shown) -> None:
    shown.open(view="ladder", q="share_of_baseline")
    machine = data_of(shown.page)["machines"][0]
    columns, rows = machine["bench"]["columns"], machine["bench"]["rows"]
    timed = [dict(zip(columns, row, strict=True)) for row in rows]
    known = {str(row["share_of_baseline"]) for row in timed if row["experiment"] == "sgemm_ladder"}
    cells = {cell.get_attribute("title") for cell in shown.all("#ladder-table td[title]")}
    assert len(cells) > 10 and cells <= known


def test_choosing_kernels_changes_the_marks(shown: Shown) -> None:
    shown.open(view="sizes", k="sgemm_warptile,cublas_fp32")
    assert shown.marks("#sizes-chart", "line") == 2
    before = shown.marks("#sizes-chart", "symbol")
    shown.one("#sizes-first").click()
    shown.one("#k-sgemm_t128x128x8").click()
    shown.drawn()
    assert shown.marks("#sizes-chart", "line") == 3 and shown.marks("#sizes-chart", "symbol") > before
    assert shown.state["k"] == "sgemm_warptile,cublas_fp32,sgemm_t128x128x8"
    shown.one("#sizes-legend button").click()
    shown.drawn()
    assert shown.state["k"] == "cublas_fp32,sgemm_t128x128x8" and len(shown.all("#sizes-legend li")) == 2


def test_quantity_dtype_and_machine_can_be_chosen(shown: Shown) -> None:
    shown.open(view="ladder")
    shown.choose("#ladder-q", "gflop_per_j")
    assert "GFLOP/J" in shown.one("#ladder-chart").text
    shown.choose("#ladder-d", "bf16")
    labels = shown.one("#ladder-chart").text
    assert "bcf_dbf_rw_bf16" in labels and "warptile" not in labels
    shown.choose("#ladder-m", "ptxsim")
    assert "cycles of an SM" in shown.one("#ladder-chart").text
    assert "Predicted" in shown.one("#ladder-note").text and shown.state["m"] == "ptxsim"


def test_an_address_brings_its_state_back(shown: Shown) -> None:
    shown.open(view="sizes", d="fp32", q="share_of_baseline", k="sgemm_warptile", at="4096")
    address, words = shown.browser.current_url, shown.one("#sizes-read").text
    assert "warptile" in words and "4096" in words
    shown.one("#to-pair").click()
    shown.until(lambda: shown.state.get("view") == "pair")
    shown.drawn()
    shown.browser.back()
    shown.until(lambda: shown.browser.current_url == address)
    shown.drawn()
    assert shown.one("#sizes-read").text == words
    shown.browser.get("about:blank")
    shown.browser.get(address)
    shown.drawn()
    assert shown.one("#sizes-read").text == words and shown.marks("#sizes-chart", "line") == 1


@pytest.mark.parametrize(
    "state",
    [{"view": "ladder", "m": "none"}, {"view": "sizes", "k": "a,b", "q": "x", "n": "7"}, {"view": "pair", "a": "<b>"}],
)
def test_an_address_of_nonsense_opens_what_there_is(shown: Shown, state: dict[str, str]) -> None:
    shown.open(**state)
    assert shown.all("main section:not([hidden]) .chart svg")


def test_two_kernels_are_distinguished(shown: Shown) -> None:
    shown.open(view="pair", a="sgemm_at_tiling", b="sgemm_at_swizzle")
    table = shown.one("#pair-table").text
    for words in ("A: at_tiling", "B: at_swizzle", "Speed, TFLOP/s", "Registers per thread", "shared memory, cycles"):
        assert words in table, words
    assert shown.marks("#pair-stalls", "rect") > 3 and shown.marks("#pair-bounds", "rect") > 3
    assert shown.marks("#pair-steps", "symbol") > 10
    assert "XOR" in shown.one("#pair-changed").text
    shown.choose("#pair-x", "shared_store_conflicts_percent")
    assert "Shared store wavefronts from bank conflicts" in shown.one("#pair-steps").text
    shown.one("#pair-swap").click()
    shown.drawn()
    assert (shown.state["a"], shown.state["b"]) == ("sgemm_at_swizzle", "sgemm_at_tiling")
    shown.open(view="pair", a="sgemm_naive", b="sgemm_coalesced").one("#pair-step1").click()
    shown.drawn()
    assert (shown.state["a"], shown.state["b"]) == ("sgemm_coalesced", "sgemm_smem_tile")


def test_claims_are_filtered_and_linked(shown: Shown) -> None:
    shown.open(view="claims")
    claims = data_of(shown.page)["claims"]
    tested = [one for one in claims if one.get("counted") is not False and not one["verdict"].startswith("not ")]
    seen = [one.get_attribute("id") for one in shown.all("article")]
    assert seen == [f"claim-{one['id']}" for one in tested[:25]]
    shown.open(view="claims", pg="999")
    assert len(shown.all("article")) % 25 == len(claims) % 25
    shown.open(view="claims").choose("#claims-w", "B")
    shown.choose("#claims-v", "does not hold")
    refuted = [one for one in claims if one["worklog"] == "B" and one["verdict"] == "does not hold"]
    wanted = [one["id"] for one in sorted(refuted, key=lambda one: one.get("counted") is False)][:25]
    assert wanted and [one.get_attribute("id") for one in shown.all("article")] == [f"claim-{name}" for name in wanted]
    shown.open(view="claims").one("#claims-s").send_keys("a-cublas-over-naive")
    shown.drawn()
    assert len(shown.all("article")) == 1 and shown.browser.switch_to.active_element.get_attribute("id") == "claims-s"
    shown.one("article summary").click()
    link = next(one for one in shown.all("article li a") if "speedup" in one.text)
    link.click()
    shown.until(lambda: shown.state.get("view") == "sizes")
    shown.drawn()
    assert shown.state["k"] == "sgemm_naive,cublas_fp32" and shown.marks("#sizes-chart", "line") == 2
    shown.open(view="claims", c="a-cublas-over-naive")
    assert shown.one("article.chosen").get_attribute("id") == "claim-a-cublas-over-naive"


def test_the_keyboard_is_enough(shown: Shown) -> None:
    shown.open(view="ladder")
    seen = []
    for _ in range(40):
        shown.browser.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(shown.browser.switch_to.active_element.get_attribute("id"))
    assert {"to-sizes", "to-pair", "to-claims", "to-copy", "ladder-q", "ladder-d"} <= set(seen)
    shown.one("#to-sizes").send_keys(Keys.ENTER)
    shown.until(lambda: shown.state.get("view") == "sizes")
    shown.drawn()
    shown.one("#sizes-chart").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    second = shown.state["at"]
    assert f"At n = {second}" in shown.one("#sizes-read").text
    shown.one("#sizes-chart").send_keys(Keys.ARROW_LEFT)
    assert int(shown.state["at"]) < int(second)
    shown.one("#sizes-q").send_keys("T")
    shown.drawn()
    assert shown.state["q"] == "time_us_median"
    assert shown.browser.switch_to.active_element.get_attribute("id") == "sizes-q"


def test_hovering_shows_the_interval_and_the_kernel_everywhere(shown: Shown) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    shown.open(view="ladder")
    ActionChains(shown.browser).move_to_element(shown.all("#ladder-chart g.mark-rect path")[8]).perform()
    shown.until(lambda: shown.all("#vg-tooltip-element.visible"))
    words = shown.one("#vg-tooltip-element").text
    assert "warptile" in words and "95% interval" in words and "samples" in words
    assert [row.get_attribute("data-kernel") for row in shown.all("tr.hot")] == ["sgemm_warptile"]
    bars = "#ladder-chart g.mark-rect.layer_0_marks path"
    shown.until(
        lambda: [bar.get_attribute("opacity") for bar in shown.all(bars)].count("0.2") == len(shown.all(bars)) - 1
    )


def test_dark_and_print(shown: Shown) -> None:
    colour = "return getComputedStyle(document.querySelector(arguments[0])).getPropertyValue(arguments[1])"

    def colours() -> list[str]:
        parts = (
            ("body", "background-color"),
            ("#ladder-chart text", "fill"),
            ("#ladder-chart g.mark-rect path", "fill"),
        )
        return [shown.browser.execute_script(colour, *part) for part in parts]

    shown.open(view="ladder")
    light = colours()
    shown.one("#to-theme").click()
    shown.drawn()
    assert shown.state["theme"] == "dark"
    assert all(one != other for one, other in zip(light, colours(), strict=True))
    pdf = PdfReader(io.BytesIO(base64.b64decode(shown.browser.print_page())))
    words = "".join(one.extract_text() for one in pdf.pages)
    assert "warptile" in words and "Data type" not in words and len(pdf.pages) < 4


def test_findings_have_a_place_of_their_own(
    chromium: Any, archive: Path, variants_csv: Path, tmp_path: Path, page: Path
) -> None:
    """A line for each of findings.json, with links to what bears it out; one that does not hold says so."""
    (tmp_path / "tables").mkdir()
    rows = read_rows(page.parent / "tables" / "claims.csv", "claims_table")
    for row in rows:
        row["class"] = "finding" if row["id"] == "a-cublas-over-naive" else "claim"
    write_rows(tmp_path / "tables" / "claims.csv", "claims_table", rows)
    plain = {"part": "worklogs", "holds": True, "why": None, "summary": "It is `that`.", "evidence": []}
    plain |= {"tried": [], "status": "holds on h200, the only one that was tried"}
    two = {"tried": [{"machine": "h200"}, {"machine": "other"}], "status": "holds on other only, not on h200"}
    found = [
        plain | {"name": "one", "title": "One thing", "evidence": ["a-cublas-over-naive"]},
        plain | two | {"name": "two", "title": "Another", "holds": False},
        plain | {"name": "three", "title": "A third", "holds": None, "summary": None, "why": "nothing was timed"},
    ]
    (tmp_path / "tables" / "findings.json").write_text(json.dumps(found))
    shown = Shown(chromium, make(tmp_path, archive, variants_csv))
    shown.open()
    assert [line.text for line in shown.all("#findings-list li")] == [
        "One thing. It is that. a-cublas-over-naive",
        "Another. Not here: It is that. It holds on other only, not on h200.",
        "A third. Not computed here: nothing was timed.",
    ]
    shown.one("#findings-list a").click()
    shown.until(lambda: shown.all("article.chosen"))
    assert shown.state["c"] == "a-cublas-over-naive" and shown.one("article.chosen details").get_attribute("open")
    shown.drawn()
    assert shown.complaints() == []


def test_predictions_alone_are_shown(chromium: Any, archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    for name in ("bench", "counters"):
        folder.edit(name, lambda row: row, keep=lambda row: False)
    shown = Shown(chromium, make(tmp_path, folder.measured, folder.variants))
    shown.open()
    assert shown.one("nav a[aria-current]").text == "Ladder"  # there are no findings
    assert (
        shown.marks("#ladder-chart", "rect.layer_0_marks") > 20 and "cycles of an SM" in shown.one("#ladder-chart").text
    )
    shown.open(view="pair", a="sgemm_at_tiling", b="sgemm_at_swizzle")
    assert "Shared store wavefronts" in shown.one("#pair-table").text
    for view in ("sizes", "claims", "banks"):
        shown.open(view=view)
    assert shown.complaints() == []


# ---- several machines ------------------------------------------------------------------------------------------------


def slower(row: dict[str, Any]) -> dict[str, Any]:
    """A timing on a GPU that is slower by a tenth."""
    times = {key: row[key] * 1.1 for key in TIME}
    return times | {"tflops": row["tflops"] / 1.1}


def another_gpu(folder: Path, archive: Path, number: int = 99) -> Folder:
    """A copy of the archive that comes from a slower GPU of another name."""
    other = Folder(folder, archive)
    other.edit("bench", slower)
    path = other.measured / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gpu": f"NVIDIA H{number}", "machine": f"h{number}"}))
    return other


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory, archive: Path, page: Path) -> Path:
    """The explorer of the archive and of another GPU, on which one finding does not hold."""
    folder = tmp_path_factory.mktemp("two")
    other = another_gpu(folder / "other", archive)
    (folder / "tables").mkdir()
    found = json.loads((page.parent / "tables" / "findings.json").read_text())
    for row in found:
        there = row["tried"][0] | {"machine": "h99", "gpu": "NVIDIA H99", "holds": row["name"] != "hopper"}
        row["tried"] = [row["tried"][0], there]
    (folder / "tables" / "findings.json").write_text(json.dumps(found))
    return make(folder, archive, other.variants, other_runs=[str(other.measured)])


def test_the_matrix_says_what_holds_where(chromium: Any, two_machines: Path, archived_gpu: str) -> None:
    shown = Shown(chromium, two_machines).open()
    heads = [head.text for head in shown.all("#findings-matrix thead th")]
    assert heads == ["Finding", f"{archived_gpu} ({ARCHIVE.name})", "NVIDIA H99 (h99)"]
    rows = {row.find_element(By.TAG_NAME, "th").text: row for row in shown.all("#findings-matrix tbody tr")}
    large = [one for one in data_of(two_machines)["findings"] if one["part"] != "smaller"]
    assert len(large) > 5 and list(rows) == [one["title"] for one in large]
    for one in large:
        cells = rows[one["title"]].find_elements(By.TAG_NAME, "td")
        assert cells[1].text.startswith("✗ does not hold" if one["name"] == "hopper" else "✓ holds")
        assert ("% of cuBLAS" in cells[0].text) == (one["tried"][0]["least_percent"] is not None)
    assert shown.complaints() == []


def test_two_machines_are_overlaid(chromium: Any, two_machines: Path) -> None:
    """As the ratio of one to the other, which is what the tables' numbers give, and as lines of both."""
    shown = Shown(chromium, two_machines).open(view="sizes", k="sgemm_warptile,sgemm_tma_streamk")
    assert shown.marks("#sizes-chart", "line") == 2
    name = next(one["name"] for one in data_of(two_machines)["machines"] if one["gpu"] == "NVIDIA H99")
    shown.choose("#sizes-o", name)
    cells = [cell.get_attribute("title") for cell in shown.all("#sizes-table td[title]")]
    assert len(cells) > 20 and {float(cell) for cell in cells} == {1.1}
    assert f"{ARCHIVE.name} / h99" in shown.one("#sizes-chart").text
    shown.choose("#sizes-how", "both")
    assert shown.marks("#sizes-chart", "line") == 4
    heads = [head.get_attribute("textContent") for head in shown.all("#sizes-table thead th")]
    assert set(heads[1:]) == {
        f"{kernel}, {on}" for kernel in ("warptile", "tma_streamk") for on in (ARCHIVE.name, "h99")
    }
    assert shown.complaints() == []


def test_the_usual_kernels_include_the_best_one(shown: Shown) -> None:
    """The kernel that is ahead wherever it was timed, although others were timed at more sizes."""
    shown.open(view="sizes", d="fp32", q="share_of_baseline")
    legend = {item.get_attribute("data-kernel") for item in shown.all("#sizes-legend li")}
    assert {"cublas_fp32", "sgemm_tma_streamk"} <= legend and len(legend) == 6


def test_sizes_that_are_no_multiple_of_eight_are_in_no_line(shown: Shown) -> None:
    shown.open(view="sizes", d="fp32", k="sgemm_naive")
    line = "return document.querySelector('#sizes-chart svg g.mark-line path').getAttribute('d').match(/[ML]/g).length"
    rows = [row.get_attribute("textContent") for row in shown.all("#sizes-table tbody th")]
    odd = [n for n in rows if int(n) % 8]
    assert {"4095", "4097"} <= set(odd)
    assert shown.browser.execute_script(line) == len(rows) - len(odd)
    assert "no multiple of 8" in shown.one("#sizes-note").text


def test_problems_of_any_shape_are_marks(chromium: Any, archive: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path, archive)
    folder.edit("bench", lambda row: {"k": 2 * row["k"]} if row["experiment"] == "sgemm_sizes" else {})
    shown = Shown(chromium, make(tmp_path, folder.measured, folder.variants)).open(view="sizes", shape="any")
    assert "cube root of mnk" in shown.one("#sizes-chart").text and shown.marks("#sizes-chart", "line") == 0
    assert shown.marks("#sizes-chart", "symbol") > 30
    shown.one("#sizes-chart").send_keys(Keys.ARROW_RIGHT)
    assert re.match(r"At 1024x1024x2048", shown.one("#sizes-read").text)
    assert shown.complaints() == []


def test_sources_are_next_to_the_counters(shown: Shown) -> None:
    shown.open(view="pair", a="sgemm_at_tiling", b="sgemm_at_swizzle")
    rows = [row.text for row in shown.all("#pair-table tr")]
    assert any("l1tex__" in row for row in rows) and any("the compiler" in row for row in rows)
    shown.one("#pair-code summary").click()
    first, second = (part.text for part in shown.all("#pair-sources pre"))
    assert "__global__" in first and "__global__" in second and first != second
    assert shown.all("#pair-sources .own")


def test_six_archives_stay_under_five_megabytes(page: Path, archive: Path, tmp_path: Path) -> None:
    """With the claims as judged on each of them, and with figures, which this page has none of, below a megabyte."""
    names = [f"h{number}" for number in range(101, 106)]
    others = [another_gpu(tmp_path / name, archive, int(name[1:])) for name in names]
    rows = read_rows(page.parent / "tables" / "claims.csv", "claims_table")
    (tmp_path / "tables").mkdir()
    many = [row | {"machine": machine} for machine in (ARCHIVE.name, *names) for row in rows]
    write_rows(tmp_path / "tables" / "claims.csv", "claims_table", many)
    shutil.copy(page.parent / "tables" / "findings.json", tmp_path / "tables")
    made = make(tmp_path, archive, others[0].variants, other_runs=[str(one.measured) for one in others])
    assert len([one for one in data_of(made)["machines"] if one["gpu"]]) == 6
    assert made.stat().st_size < 4_000_000
