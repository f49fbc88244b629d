"""The paper and the report, drawn from the archive by a real Snakemake run: what they say, and how they open."""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, copy_tree, run, run_module, snakemake
from made_inputs import write_inputs
from pypdf import PdfReader

from analysis import explorer, registry
from contracts import read_json
from kernels import catalogue

NOTHING = "Nothing to be done"


def output(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def jobs(words: str) -> dict[str, int]:
    """Snakemake's table of jobs."""
    table = words.partition("Job stats:")[2].partition("\n\n")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}


# ---- the paper, of kernels of every family ---------------------------------------------------------------------------

SOME = ["sgemm_naive", "sgemm_blocktile_2d", "sgemm_vectorized", "sgemm_warptile", "hgemm_naive_bf16"]
SOME += ["tf32gemm_bcf_dbf", "cublas_fp32", "cublas_bf16", "cublas_tf32", "torch_matmul_fp32"]
OF_SOME = ("--config", f"variants={json.dumps(SOME)}")
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")  # none there


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Path:
    """A copy of the project in which all is made, with paper and report drawn from the archive."""
    tree = copy_tree(tmp_path_factory.mktemp("full") / "project")
    done = snakemake(tree, "all", *OF_SOME, **OFFLINE)
    assert done.returncode == 0, output(done)
    return tree


def test_all_makes_a_report_that_needs_nothing_else(full: Path) -> None:
    """Offline: made behind a proxy that is not there, and with no address to load from."""
    page = (full / "results" / "report.html").read_text()
    assert len(page) > 1_000_000
    assert re.findall(r"""<(?:script|img|link|iframe)[^>]*\b(?:src|href)\s*=\s*["']?(?:https?:)?//""", page) == []
    for word in ("ladder_sgemm_ladder", "Correctness", "Counters", "Paper", "GEMM Ladder rebuilds the kernels"):
        assert word in page, word
    assert len(page) < 12_000_000 and (full / "results" / "explorer.html").stat().st_size < 5_000_000
    assert NOTHING in output(snakemake(full, "all", *OF_SOME))


@pytest.mark.parametrize(("name", "title"), [("paper", "GEMM Ladder"), ("supplement", "GEMM Ladder: supplement")])
def test_both_documents_say_what_machine_and_that_it_is_archived(
    name: str, title: str, full: Path, archive: Path
) -> None:
    reader, text = PdfReader(full / "results" / f"{name}.pdf"), words(full / "results" / f"{name}.pdf")
    provenance = read_json(archive / "provenance.json", "provenance")
    assert reader.metadata is not None and reader.metadata.title == title
    assert f"Timings, checks and counters from the archive: {provenance['gpu']}, {provenance['date']}" in text
    assert provenance["driver"] in text and provenance["toolchain"]["nvcc"] in text
    for one in SOME:
        assert catalogue.load().find(one).label in text, one
    assert "cuBLAS" in text and "torch.matmul" in text


def test_figures_are_there_in_both_formats(full: Path, archived_gpu: str) -> None:
    figures = full / "results" / "figures"
    expected = {
        "ladder_sgemm_ladder",
        "ladder_hgemm_ladder",
        "sizes_sgemm_sizes",
        "roofline",
        "counters",
        "correctness",
    }
    assert expected <= {path.stem for path in figures.glob("*.svg")} == {path.stem for path in figures.glob("*.pdf")}
    for path in set(figures.glob("*.svg")) - set(figures.glob("banks_*.svg")):  # these show nothing that is measured
        assert f"archived: {archived_gpu}" in " ".join(path.read_text().split()), path.name
    assert all(len(PdfReader(path).pages) == 1 for path in figures.glob("*.pdf"))


def test_a_paper_drawn_again_is_the_same_bytes(full: Path, tmp_path: Path) -> None:
    """One figure of each kind and the tables, from the same archive, and the paper from them: in other processes."""
    results, seed = full / "results", {"PYTHONHASHSEED": "7", "PYTHONPATH": str(full)}

    def made() -> dict[str, bytes]:
        files = [path for folder in (".", "figures", "tables") for path in (results / folder).glob("*.*")]
        kept = [path for path in files if path.suffix in (".pdf", ".svg", ".csv", ".json")]
        return {path.relative_to(results).as_posix(): path.read_bytes() for path in kept}

    before = made()
    alone = ("counters", "correctness", "roofline", "clock_split", "energy", "occupancy", "published")
    names = ("ladder_sgemm_ladder", "sizes_sgemm_sizes", *alone)
    inputs = ("--inputs", results / "inputs.json", "--tables", results / "tables")
    done = run_module("analysis.draw", *inputs, "--out", tmp_path, *names, cwd=full, **seed)
    assert done.returncode == 0, output(done)
    drawn = {f"figures/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}
    assert set(drawn) == {f"figures/{name}.{suffix}" for name in names for suffix in ("svg", "pdf")}
    assert [name for name in drawn if before[name] != drawn[name]] == []
    (results / "tables" / "summary.json").unlink()
    for name in DOCUMENTS:
        (results / f"{name}.pdf").unlink()
    done = snakemake(full, *(f"results/{name}.pdf" for name in DOCUMENTS), *OF_SOME, PYTHONHASHSEED="7")
    assert done.returncode == 0, output(done)
    assert {"paper_pdf", "report_tables"} <= set(jobs(output(done))) and "build_variant" not in jobs(output(done))
    after = made()
    assert len(before) > 100 and [name for name in before if before[name] != after.get(name)] == []


def test_the_readme_shows_what_the_archive_draws(archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    """The README's figure is the pipeline's own, from the archive as it is."""
    inputs = write_inputs(tmp_path / "inputs.json", archive, variants_csv)
    done = run_module("analysis.draw", "--inputs", inputs, "--out", tmp_path, "ladder_sgemm_ladder")
    assert done.returncode == 0, done.stderr
    assert (ROOT / "docs" / "ladder.svg").read_bytes() == (tmp_path / "ladder_sgemm_ladder.svg").read_bytes()


def test_drawing_again_with_nothing_changed_does_nothing(full: Path) -> None:
    assert NOTHING in output(run(["snakemake", "--cores", "2", "paper", *OF_SOME], full))


def test_drawing_takes_what_was_emulated_as_it_is(full: Path) -> None:
    """After a change of the emulator and of a kernel, `all` runs them again, and a figure is only drawn."""
    changed = [full / "ptxsim" / "banks.py", full / "kernels" / "sgemm" / "naive.cu"]
    before = [path.read_text() for path in changed]
    try:
        for path, text in zip(changed, before, strict=True):
            path.write_text(text + "\n")
        drawing = snakemake(full, "-n", "results/figures/energy.svg", "results/paper.pdf", *OF_SOME)
        made = snakemake(full, "-n", "all", *OF_SOME)
    finally:
        for path, text in zip(changed, before, strict=True):
            path.write_text(text)
    assert drawing.returncode == made.returncode == 0, output(drawing) + output(made)
    planned = jobs(output(made))
    assert planned["emulate"] == len([name for name in SOME if name in catalogue.load().runnable])
    assert planned["build_variant"] == 1
    assert not {"emulate", "build_variant", "resources_table"} & set(jobs(output(drawing)))
    assert "figures_ladder" in jobs(output(drawing))  # the kernel that changed is marked


def test_all_plans_no_measurement(full: Path) -> None:
    done = run(["snakemake", "--cores", "2", "-n", "all"], full)
    assert done.returncode == 0
    assert not {"check", "bench", "profile"} & set(jobs(output(done)))


def test_nothing_to_archive_without_a_gpu(full: Path) -> None:
    def archived() -> dict[str, bytes]:
        files = (path for path in (full / "data").rglob("*") if path.is_file())
        return {path.relative_to(full).as_posix(): path.read_bytes() for path in files}

    before = archived()
    done = snakemake(full, "archive")
    assert done.returncode != 0 and "Traceback" not in output(done)
    assert "nothing to archive" in output(done)
    assert archived() == before


# ---- the paper's sections --------------------------------------------------------------------------------------------


@functools.cache
def printed(pdf: Path) -> tuple[str, dict[tuple[float, bool], str]]:
    """The text of a PDF, white space made even, and one text of each size in points, as printed, whatever a figure's
    scale, with whether it is of a figure. Super- and subscripts are left out. What is drawn again is the same bytes."""
    sizes: dict[tuple[float, bool], str] = {}

    def note(text: str, ctm: list[float], tm: list[float], font: Any, size: float) -> None:
        scale = abs((tm[0] * tm[3] - tm[1] * tm[2]) * (ctm[0] * ctm[3] - ctm[1] * ctm[2])) ** 0.5
        of_figure = "DejaVuSans" in str((font or {}).get("/BaseFont")) and "Mono" not in str(font["/BaseFont"])
        if len(text.strip()) > 4:
            sizes.setdefault((size * scale, of_figure), text.strip())

    text = " ".join(page.extract_text(visitor_text=note) for page in PdfReader(pdf).pages)
    return " ".join(text.split()), sizes


def words(pdf: Path) -> str:
    """The text of a PDF, white space made even."""
    return printed(pdf)[0]


DOCUMENTS = ("paper", "supplement")
SECTIONS = re.compile(r'#include "(.*?)"')


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_section_is_there_in_order(name: str, full: Path) -> None:
    text = words(full / "results" / f"{name}.pdf").replace("’", "'")
    titles = [
        line.removeprefix("= ").split(" <")[0]
        for path in SECTIONS.findall((full / f"paper/{name}.typ").read_text())
        for line in (full / "paper" / path).read_text().splitlines()
        if line.startswith("= ")
    ]
    assert len(titles) > 8
    places = [re.search(rf"(\d+|[A-Z]) {re.escape(title)}", text) for title in titles]
    numbered = [match.start() for match in places if match]
    assert len(numbered) == len(titles) and numbered == sorted(numbered)


@pytest.mark.parametrize(("name", "folder"), [("paper", "sections"), ("supplement", "supplement")])
def test_no_source_of_a_document_is_left_out(name: str, folder: str) -> None:
    """Every section is included, and every file of both documents is an input of the rule that makes them."""
    included = set(SECTIONS.findall((ROOT / f"paper/{name}.typ").read_text()))
    there = {f"{folder}/{path.name}" for path in (ROOT / "paper" / folder).glob("*.typ")}
    assert included == there - {"supplement/parts.typ"}


def test_the_paper_has_at_most_fourteen_pages(full: Path) -> None:
    assert 3 < len(PdfReader(full / "results" / "paper.pdf").pages) <= 14
    assert 20 < len(PdfReader(full / "results" / "supplement.pdf").pages) < 52  # every experiment is archived


def test_no_measured_number_is_typed_into_the_paper() -> None:
    """What reads like a measurement comes from a table: no digits stand before a unit of speed, time or share."""
    units = r"(TFLOP/s|GFLOP/s|GFLOP/J|% of cuBLAS|×(?! \d)|µs|MHz|times as fast)"
    for path in sorted((ROOT / "paper").rglob("*.typ")):
        prose = re.sub(r"//.*", "", path.read_text())
        assert re.findall(rf"(?<![#\w.])\d[\d.,]* ?{units}", prose) == [], path.name


@pytest.mark.parametrize(("name", "least"), [("paper", 8.0), ("supplement", 7.0)])
def test_no_text_is_too_small(name: str, least: float, full: Path) -> None:
    """Words of figures have seven points."""
    sizes = printed(full / "results" / f"{name}.pdf")[1]
    assert {size: text for (size, figure), text in sizes.items() if size < 0.995 * (7 if figure else least)} == {}
    assert len(sizes) > 5


OPTIONAL = ("steps", "predicted", "bounds", "claims", "machines")
OPTIONAL_FIGURES = ("published", "occupancy", "clock_split", "energy", "machines", "claims")


def test_both_documents_say_of_each_table_that_is_not_there_that_it_is_not(full: Path, tmp_path: Path) -> None:
    """Without steps, predictions, bounds, claims and other runs: sentences in place of numbers, and no error."""
    results = tmp_path / "results"
    shutil.copytree(full / "results" / "tables", results / "tables")
    shutil.copytree(full / "results" / "figures", results / "figures")
    for name in OPTIONAL:
        (results / "tables" / f"{name}.csv").unlink(missing_ok=True)
    for name in OPTIONAL_FIGURES:
        (results / "figures" / f"{name}.pdf").unlink(missing_ok=True)
    folders = ("--tables", results / "tables", "--figures", results / "figures")
    sources = [ROOT / f"paper/{name}.typ" for name in DOCUMENTS]
    done = run_module("analysis.render", *sources, *folders, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    supplement, paper = words(tmp_path / "supplement.pdf"), words(tmp_path / "paper.pdf")
    assert "The claims were not judged in this copy" in supplement
    assert "No step of this section has both timings and counters here" in supplement
    assert "Machine against machine" not in supplement
    assert "The claims were not judged in this copy" in paper
    assert "The emulator’s counters have nothing here to be held against" in paper
    for name, text in (("supplement", supplement), ("paper", paper)):
        assert text != words(full / "results" / f"{name}.pdf")


# ---- the report, in a browser ----------------------------------------------------------------------------------------

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Put into a copy of the report: what goes wrong is kept, then every entry of every category is looked at as a reader
# does, and what was found is left in the page.
LISTEN = """<script>
const faults = [];
window.addEventListener("error", event => faults.push(String(event.message)));
window.addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
console.error = (...words) => faults.push(words.join(" "));
</script>"""
LOOK = """<script>
const pause = ms => new Promise(done => setTimeout(done, ms));
const shown = selector => [...document.querySelectorAll(selector)].map(element => element.textContent.trim());
async function until(test) { for (let i = 0; i < 100 && !test(); i++) await pause(10); return test(); }
async function picture(path) {
  app.setView({content: "img", contentPath: results[path].data_uri, resultPath: path});
  const there = () => [...document.querySelectorAll("#app img")].find(
    image => image.src === results[path].data_uri && image.complete && image.naturalWidth > 0);
  const image = await until(there);
  return image ? [image.naturalWidth, image.naturalHeight] : null;
}
async function table(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const frame = document.createElement("iframe");
  frame.srcdoc = new TextDecoder().decode(bytes);
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const inside = frame.contentDocument, seen = {rows: 0, sorts: false};
  await until(() => inside.querySelector("th [role=button]"));
  for (const part of inside.querySelectorAll("section")) {
    const column = () => [...part.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent).join();
    const button = part.querySelector("th [role=button]");
    seen.rows += part.querySelectorAll("tbody tr").length;
    button.click();
    await pause(50); // it sorts once the click is done
    const up = column();
    button.click();
    await pause(50);
    seen.sorts ||= up !== column();
  }
  frame.remove();
  return seen;
}
(async () => {
  const found = {pictures: {}, listed: {}, rules: Object.keys(rules).length};
  await until(() => document.querySelectorAll("#app li").length > 3);
  found.menu = shown("#app li");
  const opening = document.querySelector("#app .prose");
  const links = [...opening.querySelectorAll("a")].map(a => a.getAttribute("href"));
  found.opening = {drawn: opening.querySelectorAll("svg path").length, links: links};
  found.rulegraph = !!(await until(() => document.querySelector("#app canvas, #app svg")));
  for (const category of Object.keys(categories).sort()) {
    for (const [subcategory, paths] of Object.entries(categories[category])) {
      app.setView({navbarMode: "menu"});
      await until(() => shown("#app li").includes("General"));
      app.setView({navbarMode: "subcategory", category: category, subcategory: subcategory});
      await until(() => !shown("#app li").includes("General"));
      found.listed[`${category}/${subcategory}`] = document.querySelector("#app").textContent;
      for (const path of paths) {
        if (results[path].mime_type === "image/svg+xml") found.pictures[path] = await picture(path);
      }
    }
  }
  found.tables = await table("@tables@");
  const all = of => Object.fromEntries(Object.entries(results).map(([path, it]) => [path, of(it)]));
  found.captions = all(it => it.caption || "");
  found.labels = all(it => Object.values(it.labels || {}));
  found.categories = categories;
  found.faults = faults;
  const left = document.createElement("pre");
  left.id = "found";
  left.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
  document.body.append(left);
})();
</script>"""


class Found(HTMLParser):
    """What LOOK left in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.text = False, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "pre" and ("id", "found") in attrs

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


@pytest.fixture(scope="module")
def opened(full: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a browser makes of the report."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is on PATH")
    folder = tmp_path_factory.mktemp("browser")
    page = (full / "results" / "report.html").read_text()
    assert page.count("</body>\n") == 1
    copy = folder / "report.html"
    tables = base64.b64encode((full / "results" / "report" / "tables.html").read_bytes()).decode()
    look = LOOK.replace("@tables@", tables)
    copy.write_text(page.replace("<head>", "<head>" + LISTEN, 1).replace("</body>\n", look + "</body>\n", 1))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'data'}",
    ]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=120000"]
    command = [browser, *options, *offline, "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True)
    parser = Found()
    parser.feed(done.stdout)
    assert parser.text, f"the report did not come to its end: {done.stderr[-2000:]}"
    found = json.loads(base64.b64decode(parser.text))
    found["console"] = [line for line in done.stderr.splitlines() if ":CONSOLE" in line and "error" in line.lower()]
    return found


def test_the_report_opens_without_a_fault(opened: dict[str, Any]) -> None:
    assert opened["faults"] == [] and opened["console"] == []
    assert opened["rulegraph"] and opened["rules"] > 20


def test_the_report_opens_with_the_ladder_and_leads_to_paper_and_explorer(opened: dict[str, Any]) -> None:
    assert opened["opening"]["drawn"] > 100 and {"paper.pdf", "supplement.pdf", "explorer.html"} <= set(
        opened["opening"]["links"]
    )


def test_the_report_has_its_categories_in_order(opened: dict[str, Any]) -> None:
    listed = [item for item in opened["menu"] if re.match(r"\d ", item)]
    subjects = ["Paper", "Ladder", "Counters", "Correctness", "Tables", "Second opinions", "Claims"]
    assert listed == sorted(opened["categories"]) == [f"{number} {name}" for number, name in enumerate(subjects, 1)]
    assert {"All kernels", "Worklog A"} <= set(opened["categories"]["2 Ladder"])
    for category, below in opened["categories"].items():
        assert len(below) == 1 or "Other" not in below, f"{category}: {list(below)}"


def test_every_figure_of_the_report_is_shown_with_a_size_a_title_and_a_caption(
    opened: dict[str, Any], full: Path
) -> None:
    figures = {f"results/figures/{path.name}" for path in (full / "results" / "figures").glob("*.svg")}
    shown = opened["pictures"]
    drawn = registry.outputs(read_json(full / "results" / "inputs.json", "inputs")["experiments"])
    elsewhere = {name for name, (one, _) in drawn.items() if one.name in explorer.STANDS_FOR} - {explorer.OPENING}
    elsewhere |= {path.stem for path in (full / "results" / "figures").glob("banks_*.svg")}
    elsewhere |= {name for name, (one, _) in drawn.items() if one.category == "1 Paper"}
    empty = {name for name in drawn if not registry.has_content(full / "results" / "figures" / f"{name}.svg")}
    assert empty and not empty & {Path(path).stem for path in shown}
    elsewhere |= empty
    assert figures - set(shown) == {f"results/figures/{name}.svg" for name in elsewhere} & figures
    assert [path for path, size in shown.items() if not size or min(size) < 40] == []
    for path, caption in opened["captions"].items():
        assert len(re.sub(r"<.*?>", "", caption)) > 40, path
    for place, paths in ((f"{c}/{s}", p) for c, below in opened["categories"].items() for s, p in below.items()):
        for path in paths:
            assert any(label in opened["listed"][place] for label in opened["labels"][path]), f"{path} in {place}"


def test_the_tables_next_to_the_report_have_their_rows_and_sort(opened: dict[str, Any], full: Path) -> None:
    """The page of tables, to which the report links."""
    assert opened["tables"]["rows"] > 100 and opened["tables"]["sorts"]
    assert "report/tables.html" in opened["opening"]["links"]
    text = (full / "results/report/tables.html").read_text()
    assert "Correctness" in text and "Hardware counters" not in text  # which the explorer shows
