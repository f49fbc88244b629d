"""The explorer in a real browser: what a reader sees, with keyboard, phone and dark colours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from helpers import ROOT, run_module

from analysis.numbers import Numbers
from analysis.results import Results

pytest.importorskip("selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

pytestmark = pytest.mark.browser
VIEWS = ("ladder", "lens", "steps", "findings", "sizes", "compare", "roofline", "claims", "banks")
DESKTOP = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
CHECKS = (Path(__file__).with_name("page_checks.js")).read_text()


class Shown:
    """The page in the browser, which opens on `first_view`."""

    def __init__(self, browser: Any, page: Path, first_view: str = "ladder") -> None:
        self.browser, self.page, self.first_view = browser, page, first_view
        self.size(DESKTOP)
        browser.get_log("browser"), browser.get_log("performance")  # what earlier tests left

    def size(self, metrics: dict[str, Any]) -> None:
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, **state: object) -> Shown:
        """Load the page with a state in its hash."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.page.as_uri()}#{urlencode(state, safe=',')}")
        return self.drawn()

    def drawn(self) -> Shown:
        """Wait until the view in the hash is drawn, not the one before it."""
        wanted = self.state.get("view", self.first_view)
        views = (wanted,) if wanted in VIEWS else VIEWS
        self.until(lambda: self.script("return document.body.dataset.ready") in views)
        return self

    def script(self, text: str) -> Any:
        return self.browser.execute_script(text)

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self.one(selector).text)

    def press(self, key: str) -> None:
        self.browser.switch_to.active_element.send_keys(key)

    def choose(self, selector: str, value: str) -> None:
        Select(self.one(selector)).select_by_value(value)
        self.until(lambda: value in self.state.values())
        self.drawn()

    def until(self, happened: Callable[[], Any]) -> None:
        WebDriverWait(self.browser, 60, poll_frequency=0.05).until(lambda _: happened())

    @property
    def state(self) -> dict[str, str]:
        return dict(parse_qsl(self.browser.current_url.partition("#")[2]))


@pytest.fixture
def shown(chromium: Any, made: Path) -> Iterator[Shown]:
    """The page; at the end the console is empty and nothing was loaded from the network."""
    yield Shown(chromium, made / "explorer.html")
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    for entry in chromium.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith(("file:", "data:", "about:", "blob:"))


def test_it_opens_on_the_ladder_with_the_fractions_and_gains_of_the_timings(
    shown: Shown, h100: Results
) -> None:
    shown.open()
    assert shown.text("nav a[aria-current]") == "Ladder"
    groups = [title.text.split("\n")[0] for title in shown.all("#ladder-rungs h3")]
    assert groups[:2] == ["Simon Boehm", "Vinay Jumani, profiling"]
    assert groups[-2:] == ["This project", "Libraries"]
    article = shown.one("#ladder-rungs h3 a").get_attribute("href")
    assert article == "https://siboehm.com/articles/22/CUDA-MMM"
    rows = h100.squares
    rows = rows[(rows["experiment"] == "sgemm_ladder") & (rows["dtype"] == "fp32")]
    assert len(shown.all("a.rung")) == len(rows) > 20
    fractions = rows.set_index("variant")["fraction"]
    steps = {"sgemm_coalesced": "sgemm_naive", "sgemm_at_swizzle": "sgemm_at_tiling"}
    for variant, over in steps.items():
        row, fraction = shown.text(f"#rung-{variant}"), fractions[variant]
        assert f"{100 * fraction:.1f}%" in row and f"×{fraction / fractions[over]:.2f}" in row
    bars = shown.script(
        "return [...document.querySelectorAll('a.rung')].map(rung => {"
        "  const track = rung.querySelector('.track'), full = parseFloat(getComputedStyle(track, '::after').left);"
        "  return [rung.querySelector('.bar').getBoundingClientRect().width / full, rung.children[2].textContent];"
        "})"
    )
    for length, text in bars:  # a bar is as long as the fraction beside it
        assert 100 * length == pytest.approx(float(text.rstrip("%")), abs=0.2)


def test_the_keyboard_chooses_a_rung_and_its_diff_shows_the_changed_lines(shown: Shown) -> None:
    shown.open()
    shown.script("document.getElementById('rung-sgemm_naive').focus()")
    shown.press(Keys.ARROW_DOWN)
    shown.press(Keys.ENTER)
    shown.until(lambda: shown.state.get("kernel") == "sgemm_coalesced")
    shown.drawn()
    assert shown.script("return document.activeElement.id") == "rung-sgemm_coalesced"
    assert "coalesced" in shown.text("#live")
    assert "make try KERNEL=sgemm_coalesced" in shown.text("#rung-run")
    rows = shown.script(
        "const texts = row => [...row.cells].map(cell => cell.textContent);"
        "return [...document.querySelectorAll('.diff tbody tr')].map(texts)"
    )
    for side, name in enumerate(("naive", "coalesced")):
        lines = (ROOT / "kernels" / "sgemm" / f"{name}.cu").read_text().splitlines()
        cells = [row[2 * side : 2 * side + 2] for row in rows if len(row) == 4]
        assert {int(number): text for number, text in cells if number} == dict(enumerate(lines, 1))
    for look in ("removed", "added"):
        lines = [cell.text for cell in shown.all(f".diff td.{look}")]
        assert any("threadIdx" in line for line in lines)
        # The comment at the head is folded, not marked.
        assert not any(line.startswith("//") for line in lines)
    shown.browser.back()
    shown.until(lambda: "kernel" not in shown.state)


def test_a_rung_shows_its_limiter_four_counters_and_an_arrow(shown: Shown, h100: Results) -> None:
    shown.open(kernel="sgemm_warptile")
    rows = [row.text for row in shown.all("#rung-facts tbody tr")]
    assert len(rows) == 6 and rows[0].startswith("Limiter") and rows[1].startswith("Top stall")
    numbers = Numbers(h100)
    cycles = numbers.value("sgemm_warptile", "sm_cycles_mean").value
    issue, fma, shared = (
        numbers.minimum_cycles("sgemm_warptile", name).value for name in ("issue", "fma", "shared")
    )
    assert issue > max(fma, shared)
    assert f"Issue slots, ≥ {100 * issue / cycles:.0f}%" in rows[0].replace("\u00a0", " ")
    facts = shown.text("#rung-facts")
    assert "Shared bank conflicts" in facts and "as meant" in facts
    assert len(shown.all("#rung-roofline svg .mark-symbol path")) >= 2
    shown.open(kernel="sgemm_blocktile_2d_padded")
    assert shown.one("#rung-picture a").get_attribute("href").endswith("show=padded_rows")


def test_a_rung_has_a_picture_of_its_tile_and_its_timeline(shown: Shown) -> None:
    shown.open(ladder="hopper_ladder.bf16", kernel="hgemm_wgmma_store_bf16")
    labels = [picture.get_attribute("aria-label") for picture in shown.all("#rung-tile svg")]
    assert [label.partition(".")[0] for label in labels] == ["Block", "Warp", "Thread", "Timeline"]
    text = shown.text("#rung-tile")
    assert "128 × 256 of C, held by 8 warps. 4 more warps load" in text and "192 KiB" in text
    shown.open(kernel="cublas_fp32")
    assert not shown.all("#rung-tile svg")


def test_a_step_is_hidden_until_it_has_been_predicted(shown: Shown) -> None:
    shown.open(kernel="sgemm_at_swizzle")
    speed = shown.text("#rung-speed")
    shown.one("#predict").send_keys(Keys.SPACE)
    shown.until(lambda: shown.state.get("predict") == "yes")
    shown.drawn()
    assert shown.script("return document.activeElement.id") == "predict"
    assert speed not in shown.text("#ladder") and not shown.all(
        "#rung-facts tr, #rung svg .mark-symbol"
    )
    for name, result in {"at_tiling": "%", "at_swizzle": "?", "tma": "?", "": "%"}.items():
        text = shown.text(f"#rung-sgemm_{name}" if name else "#rung-cublas_fp32")
        assert result in text and ("%" in text) is (result == "%"), name
    shown.one("#predict-submit").click()  # chosen is nothing yet
    assert "guess" not in shown.state
    for name, value in {
        "counter": "shared_conflicts",
        "direction": "fall",
        "limiter": "Latency",
    }.items():
        Select(shown.one(f"#predict-{name}")).select_by_value(value)
    shown.one("#predict-submit").send_keys(Keys.ENTER)
    shown.until(lambda: "guess" in shown.state)
    shown.drawn()
    counter, limiter = (row.text for row in shown.all("#rung-predict li"))
    assert counter.startswith("✓ right") and "52.6 M to 2.49 M" in counter
    assert limiter.startswith("✗ wrong") and "Register banks" in limiter
    assert speed == shown.text("#rung-speed") and "as meant" in shown.text("#rung-facts")
    assert shown.script("return document.activeElement.textContent") == "Your prediction"
    shown.open(kernel="sgemm_at_swizzle", predict="yes", guess="sgemm_at_swizzle.nail.fall.Latency")
    assert "There is no guess" in shown.text("#unknown") and shown.all("#predict-submit")


def test_pads_and_swizzles_can_be_changed_and_stay_in_the_link(shown: Shown) -> None:
    shown.open(kernel="sgemm_at_tiling")
    assert "4 wavefronts where 1 would do" in shown.text("#rung-play")
    Select(shown.one("#play-SWIZZLE")).select_by_visible_text("r ^ p / 4 * 8")
    assert "1 wavefront, no conflict" in shown.text("#rung-play")
    assert "1 wavefront, no conflict" in shown.text("#live")
    played = shown.state["play"]
    shown.open(kernel="sgemm_at_tiling", play=played)
    assert "1 wavefront, no conflict" in shown.text("#rung-play")
    shown.open(kernel="sgemm_vectorized", play="sgemm_vectorized.0.TN:4")
    assert "the last pass is a full one" in shown.text("#rung-play")
    shown.open(kernel="sgemm_vectorized", play="sgemm_vectorized.0.A_PAD:3")
    assert "no A_PAD “3”" in shown.text("#unknown")


def test_another_quantity_keeps_the_kernels(shown: Shown) -> None:
    shown.open(view="sizes")
    kernels = shown.text("#sizes-legend")
    assert "tma_streamk" in kernels and "cuBLAS" in kernels
    for key in ("tflops", "power_w", "fraction_isolated"):
        shown.choose("#sizes-q", key)
        assert shown.text("#sizes-legend") == kernels
    at = shown.text("#sizes-table thead th")
    shown.script("document.getElementById('sizes-chart').focus()")
    shown.press(Keys.ARROW_RIGHT)
    shown.until(lambda: shown.text("#sizes-table thead th") != at)
    assert shown.text("#live").startswith(f"n = {shown.state['at']}")
    assert shown.all("#sizes-chart svg") and not shown.all("#sizes-chart svg .mark-area")


def test_a_fraction_and_the_two_speeds_beside_it_agree(shown: Shown, h100: Results) -> None:
    shown.open(ladder="hopper_ladder.bf16", n=4096)
    assert shown.text("#rung-title").startswith("wgmma_streamk_bf16")  # not the last, slower rung
    for row in shown.all("a.rung"):
        words = row.text.replace("\n", " ").split()
        at = words.index("of", words.index(next(word for word in words if word.endswith("%"))))
        fraction, own, library = (float(words[i].rstrip("%")) for i in (at - 2, at - 1, at + 1))
        assert 100 * own / library == pytest.approx(fraction, abs=0.3)


def test_another_view_keeps_the_kernel_and_what_is_not_there_is_said(shown: Shown) -> None:
    shown.open(ladder="hopper_ladder.bf16", kernel="hgemm_wgmma_pingpong_bf16", n=8192)
    for view, selector in {
        "compare": "#compare-table thead",
        "sizes": "#sizes-legend",
        "roofline": "#roofline-table strong",
        "findings": "h2",
        "ladder": "#rung-title",
    }.items():
        shown.one(f"#to-{view}").click()
        shown.until(lambda view=view: shown.state.get("view", "ladder") == view)
        shown.drawn()
        assert view == "findings" or "wgmma_pingpong_bf16" in shown.text(selector)
    assert shown.text("#unknown") == "" and "n = 8192" in shown.text("#rung-facts").lower()
    shown.open(view="wat", ladder="nope", kernel="sgemm_nope", n=7, nail=1)
    for word in ("“nail”", "“wat”", "“nope”", "“sgemm_nope”"):
        assert word in shown.text("#unknown")


def test_the_keys_n_and_p_choose_the_next_rung_and_the_one_before(shown: Shown) -> None:
    shown.open(kernel="sgemm_coalesced")
    for key, kernel in (("n", "sgemm_smem_tile"), ("p", "sgemm_coalesced")):
        shown.press(key)
        shown.until(lambda kernel=kernel: shown.state.get("kernel") == kernel)
        shown.drawn()


def test_each_step_has_its_gain_and_the_counters_that_it_was_meant_to_move(shown: Shown) -> None:
    shown.open(view="steps")
    (row,) = [row.text for row in shown.all("#steps-table tr") if row.text.startswith("warptile")]
    assert "over vectorized" in row and "×1.30" in row and "292 M → 51.1 M" in row
    assert "✓" in row
    finding = shown.open(view="findings").text("#finding-steps_pay")
    counts = re.search(r"(\d+) of (\d+) steps moved every counter as meant", finding)
    assert counts and f"{counts[1]} of {counts[2]} moved" in shown.open(view="steps").text(
        "#steps-note"
    )


@pytest.mark.parametrize("ladder", ["sgemm_ladder.fp32", "hopper_ladder.bf16", "hgemm_ladder.bf16"])
def test_the_names_in_a_roofline_do_not_overlap(ladder: str, shown: Shown) -> None:
    shown.open(view="roofline", ladder=ladder)
    assert shown.script(f"{CHECKS} return overlapping()") == []


def test_no_id_occurs_twice_and_each_further_wavefront_is_seen(shown: Shown) -> None:
    for view in VIEWS:
        shown.open(view=view)
        ids = shown.script("return [...document.querySelectorAll('[id]')].map(node => node.id)")
        assert sorted(set(ids)) == sorted(ids), view
    for look, count in {"operand": 8, "crowded": 1, "further": 7}.items():
        assert len(shown.all(f"#banks rect.{look}")) == count, look


@pytest.mark.parametrize("theme", ("light", "dark"))
def test_each_view_fits_a_phone_stands_out_from_its_background_and_names_the_older_protocol(
    shown: Shown, theme: str
) -> None:
    shown.size(PHONE if theme == "dark" else DESKTOP)
    for view in VIEWS:
        shown.open(view=view, theme=theme, gpu="h200")
        assert shown.script(f"{CHECKS} return faint()") == [], view
        assert shown.script(f"{CHECKS} return named()") == [], view
        if view not in ("claims", "banks"):
            assert "older protocol, one process" in shown.text(f"#{view}")
        if theme == "dark":
            width = shown.script("return document.documentElement.scrollWidth")
            assert width == PHONE["width"] and not shown.all("details.fold[open]"), view
            shown.script("document.querySelectorAll('details').forEach(fold => fold.open = true)")
            assert shown.script(f"{CHECKS} return small()") == [], view


def test_claims_are_filtered_and_their_text_is_never_html(shown: Shown) -> None:
    select = Select(shown.open(view="claims").one("#claims-verdict"))
    assert select.first_selected_option.text == "does not hold"
    groups = shown.all("#claims-list details")
    assert groups and not any(group.get_attribute("open") for group in groups)
    shown.open(view="claims", verdict="all")
    shown.one("#claims-text").send_keys("planted")
    shown.until(lambda: shown.text("#claims-count").startswith("1 of"))
    (card,) = shown.all("#claims-list article")
    assert "bank conflicts <b>vanish</b>" in card.text and "line 312" in card.text
    assert "H100 holds less than 292 M 51 M" in card.text and "H200 within noise" in card.text
    shown.choose("#claims-verdict", "does not hold")
    assert shown.text("#claims-count").startswith("0 of")


def test_a_finding_leads_to_what_shows_it(shown: Shown) -> None:
    shown.open(view="findings")
    card = shown.text("#finding-conflicts_moved")
    assert "✓ holds" in card and "at_tiling" in card and "`" not in card
    assert "at_swizzle_stores\n71%" in card  # its bar
    assert "± not decided" in shown.text("#finding-hopper_level")
    shown.one("#finding-conflicts_moved a").click()
    shown.until(lambda: shown.state.get("a") == "sgemm_at_tiling")
    shown.drawn()
    table = shown.text("#compare-table")
    assert table.index("Limiter") < table.index("Timing") and "252 M" in table and "×4.80" in table
    assert shown.all("#compare-a optgroup[label='WingEdge777, SGEMM, fp32']")
    shown.open(view="findings")
    for link in [card.get_attribute("href") for card in shown.all("#findings-list a")]:
        assert shown.open(**dict(parse_qsl(link.partition("#")[2]))).text("#unknown") == "", link


# ---- the lens ------------------------------------------------------------------------------------


def middle_of(shown: Shown, pane: str) -> str:
    """The text of the first chosen row that is to be seen in a column; empty where there is none."""
    return str(
        shown.script(
            f"const pane = document.getElementById('{pane}'), box = pane.getBoundingClientRect();"
            "const isSeen = row => row.getBoundingClientRect().top > box.top + 40"
            "  && row.getBoundingClientRect().bottom < box.bottom;"
            "return [...pane.querySelectorAll('.row.chosen')].find(isSeen)?.textContent ?? ''"
        )
    )


COLUMNS = ("lens-source-pane", "lens-machine-pane", "lens-cost-pane")


def test_the_lens_opens_on_the_conflicts_and_its_columns_follow_a_click(shown: Shown) -> None:
    shown.open(view="lens", kernel="sgemm_at_tiling")
    source, machine, cost = (middle_of(shown, pane) for pane in COLUMNS)
    line = re.match(r"\d+", source)
    assert line and "a_tile[load_a_col + 0][to] = a_fetched[i].x;" in source
    assert machine.startswith("STS [") and cost.startswith(line[0])
    colours = shown.script(
        "const rows = document.querySelectorAll('#lens-source .hue0, #lens-machine .hue0, #lens-access .taken');"
        "return [...rows].map(row => getComputedStyle(row).backgroundColor)"
    )
    assert colours and "rgba(0, 0, 0, 0)" not in colours
    words = shown.text("#lens-line")
    assert "4 wavefronts, 1 would do: a 4-way bank conflict" in words
    cells = [cell.get_attribute("data-lanes") for cell in shown.all("#lens-access td.taken")]
    assert len(cells) == 32 and cells[:3] == ["0", "4", "8"]  # four lanes want each of eight banks
    # A click on a load of shared memory
    shown.script(
        "const isLoad = row => row.textContent.startsWith('LDS.128') && row.dataset.line;"
        "[...document.querySelectorAll('#lens-machine .row')].find(isLoad).click()"
    )
    shown.until(lambda: shown.state.get("line") not in (None, line[0]))
    assert all(middle_of(shown, pane) for pane in COLUMNS)
    assert "*reinterpret_cast<const float4*>(&" in middle_of(shown, COLUMNS[0])
    assert "no conflict" in shown.text("#lens-line")
    at = int(shown.state["line"])
    shown.script("document.getElementById('lens-source').focus()")
    shown.press(Keys.ARROW_DOWN)
    shown.until(lambda: int(shown.state["line"]) > at)
    assert shown.text("#live").startswith(f"line {shown.state['line']}: ")
    shown.one("#lens-to-ptx").click()
    shown.until(lambda: "ld.shared" in shown.one("#lens-machine").get_attribute("textContent"))


def test_the_columns_of_the_lens_scroll_together(shown: Shown) -> None:
    shown.open(view="lens", kernel="sgemm_at_tiling", line=60)
    tops = "return [...document.querySelectorAll('.pane')].map(pane => Math.round(pane.scrollTop))"
    for pane in COLUMNS:
        before = shown.script(tops)
        shown.script(
            f"const pane = document.getElementById('{pane}');"
            "pane.scrollTop = pane.scrollTop > 200 ? 0 : pane.scrollHeight"
        )
        shown.until(
            lambda before=before: all(
                x != y for x, y in zip(before, shown.script(tops), strict=True)
            )
        )
        source, _, cost = shown.script(tops)
        assert source == cost


def test_the_lens_shows_the_change_against_the_rung_before(shown: Shown) -> None:
    shown.open(view="lens", kernel="sgemm_at_swizzle")
    assert "to zero" in shown.text("#lens-cost thead")  # the conflicts
    facts = shown.text("#lens-facts")
    assert "Shared bank conflicts" in facts and "as meant" in facts and "Register banks" in facts
    shown.one("#lens-steps a").click()
    shown.until(lambda: shown.state.get("kernel") == "sgemm_at_tiling")
    # An include's lines have their costs, too.
    shown.open(view="lens", kernel="sgemm_at_tiling", file="kernels/include/outer_product.cuh")
    assert "FFMA" in middle_of(shown, "lens-machine-pane") and "%" not in shown.text("#unknown")
    shown.open(view="lens", kernel="hgemm_bcf_bf16")
    assert "by XOR with the row's number" in shown.text("#lens-said")  # docs/kernels/hgemm.md


def test_the_page_of_one_kernel_says_first_that_it_failed(
    chromium: Any, made: Path, variants_csv: Path, tmp_path: Path
) -> None:
    content = json.loads((made / "lens" / "sgemm_at_swizzle.json").read_text())
    failed = ["FAILED mine, 64x64x64, on ptxsim: a race", "checked mine: 3 of 29 cases passed"]
    content |= {"variant": "mine", "label": "mine", "builds_on": "sgemm_at_tiling"}
    content |= {"passed": False, "checks": failed, "idea": "<b>mine</b>"}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    over = made / "lens" / "sgemm_at_tiling.json"
    options = ("--over", over, "--results", "data/h100", "--catalogue", variants_csv)
    out = tmp_path / "mine.html"
    done = run_module("analysis", "lens", tmp_path / "mine.json", *options, "--out", out)
    assert done.returncode == 0, done.stderr
    shown = Shown(chromium, out, "lens").open()
    assert [link.text for link in shown.all("nav a")] == ["Lens"]
    assert shown.text("#lens").split("\n")[1].startswith("FAILED mine, 64x64x64")
    assert "<b>mine</b>" in shown.text("#lens-idea")  # text, not HTML
    facts = shown.text("#lens-facts")
    assert "predicted by ptxsim" in facts and "minimum cycles" in facts
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    assert out.stat().st_size < 500_000


def test_the_page_s_wavefronts_are_those_that_were_counted(chromium: Any, made: Path) -> None:
    script = (ROOT / "analysis" / "explorer" / "banks.js").read_text()
    call = (
        "wavefronts(access.shared.addresses, access.width, access.kind, access.global?.addresses)"
    )
    chromium.get("about:blank")
    for path in sorted((made / "lens").iterdir()):
        accesses = json.loads(path.read_text())["accesses"]
        whole = [a for a in accesses if a["shared"] and a["wavefronts"] % a["requests"] == 0]
        script_of_all = f"{script} return arguments[0].map(access => {call}.length)"
        counts = chromium.execute_script(script_of_all, whole)
        assert counts == [a["wavefronts"] // a["requests"] for a in whole] and counts, path.name


def test_a_browser_that_cannot_unpack_the_page_is_told_so(shown: Shown) -> None:
    source = {"source": "delete window.DecompressionStream"}
    script = shown.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    try:
        shown.browser.get("about:blank")
        shown.browser.get(shown.page.as_uri())
        shown.until(lambda: "DecompressionStream" in shown.text("#unknown"))
    finally:
        shown.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_the_lens_hides_the_result_of_a_step_that_is_to_be_predicted(shown: Shown) -> None:
    shown.open(kernel="sgemm_at_swizzle", predict="yes")
    shown.script("location.hash = '#view=lens&kernel=sgemm_at_swizzle&predict=yes'")
    shown.until(lambda: shown.script("return document.body.dataset.ready") == "lens")
    seen = {pane: shown.one(f"#{pane}").is_displayed() for pane in COLUMNS}
    assert list(seen.values()) == [True, True, False] and shown.all("#lens-predict form")
    assert not shown.all("#lens-facts table") and not shown.text("#lens-said")
    ids = shown.script("return [...document.querySelectorAll('[id]')].map(node => node.id)")
    assert sorted(set(ids)) == sorted(ids)
    shown.one("#lens-to-predict").click()
    shown.until(lambda: shown.one("#lens-cost-pane").is_displayed())
    assert shown.all("#lens-tile svg")
