"""The archives, loaded once, and what the commands of the pipeline make of them: tables, figures,
documents, page.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from frames import Change, rows_with
from helpers import ROOT, run_module

from analysis import draw
from analysis.results import Results
from contracts import write_json
from contracts.declared import TableRow
from contracts.rows import BankPicture, Lens
from experiments.emulation import bounds, launching, lens, predictions
from kernels import catalogue
from kernels.problem import ProblemSpec
from ptxsim.count import machines

OF_EXPERIMENTS = ("ladder:sgemm_ladder", "ladder:hopper_ladder", "counters:sgemm_ladder")
FIGURES = [*OF_EXPERIMENTS, "sizes:hopper_sizes"]
FIGURES += [name for name in draw.FIGURES if name not in ("ladder", "counters")]
DOCUMENTS = ("paper/paper.typ", "paper/supplement.typ")
CLAIM = {"worklog": "boehm_sgemm", "id": "planted", "line": "312", "kind": "mechanism"}
CLAIM |= {"quote": "bank conflicts <b>vanish</b>", "claim": "A planted claim."}
CLAIM |= {"words": "51 < 292", "claimed": "less than 292 M", "measured": "51 M"}
VERDICTS = {"h100": "holds", "h200": "within noise"}
# By name: a read of eight words, of which `wavefronts` are in each bank that has one
PICTURES = {
    "plain_rows": ("sgemm_blocktile_2d", 8),
    "padded_rows": ("sgemm_blocktile_2d_padded", 1),
}
# Two rungs with 4-way conflicts and without; ldmatrix and cp.async
LENSES = ("sgemm_at_tiling", "sgemm_at_swizzle", "hgemm_bcf_bf16")
H100 = machines.find("h100")
# Experiment, variant, m, n, k and fraction of cuBLAS
SHAPES = [
    ("llm_shapes", "hgemm_best_bf16", 1, 8192, 8192, 0.8),
    ("llm_shapes", "hgemm_best_bf16", 1, 2112, 7168, 1.25),
    ("llm_shapes", "hgemm_best_bf16", 4096, 8192, 8192, 0.96),
    ("llm_shapes_triton", "triton_bf16", 4096, 8192, 8192, 0.7),
    ("any_shape_fp32", "sgemm_tma_streamk", 64, 300, 5000, 0.9),
    ("any_shape_fp32", "sgemm_tma_streamk", 1024, 1024, 1024, 3.0),
    ("any_shape_bf16", "hgemm_best_bf16", 64, 304, 5000, 1.1),
]
# Its rows are made of another kernel's, since an archive may lack them.
LIKE = {"hgemm_best_bf16": "hgemm_wgmma_streamk_bf16"}
Changed = Callable[..., Results]


@pytest.fixture(scope="session")
def h100(variants_csv: Path) -> Results:
    """The archive with five processes a row. No test changes it: see `changed`."""
    return Results(ROOT / "data" / "h100", variants_csv)


@pytest.fixture(scope="session")
def h200(variants_csv: Path) -> Results:
    """The archive with one process a row."""
    return Results(ROOT / "data" / "h200", variants_csv)


@pytest.fixture(scope="session")
def changed() -> Changed:
    """A function: results and, by table, what changes its rows, to results with the changed
    tables.
    """

    def of(results: Results, **changes: Change) -> Results:
        copy = Results(results.folder, results.catalogue)
        copy.variants, copy._read = results.variants, dict(results._read)
        for name in changes.keys() - {"timings", "by_process"}:
            copy._read[name] = changes[name](results.raw(name).copy())
        if "by_process" in changes:
            copy.by_process = changes["by_process"](results.by_process.copy())
        if "timings" in changes or not {"checks", "windows"} & changes.keys():
            copy.timings = changes.get("timings", lambda rows: rows)(results.timings.copy())
        return copy

    return of


@pytest.fixture(scope="session")
def rehearsed(h100: Results, changed: Changed) -> Results:
    """The H100's archive as if it were of a rehearsal."""
    copy, gpu = changed(h100), {"gpu": "NVIDIA H100 rehearsal"}
    copy.provenance = h100.provenance.model_copy(update=gpu)
    return copy


@pytest.fixture(scope="session")
def shaped(h100: Results, changed: Changed) -> Results:
    """The H100's archive with `SHAPES` alone in the experiments of other shapes than squares."""

    def planted(rows: pd.DataFrame) -> pd.DataFrame:
        usual = rows[rows_with(rows, clock_policy="boost", data="uniform")]
        usual = usual.drop_duplicates("variant").set_index("variant", drop=False)
        parts = [rows[~rows["experiment"].isin([shape[0] for shape in SHAPES])]]
        for experiment, variant, m, n, k, fraction in SHAPES:
            values = dict.fromkeys(("fraction", "fraction_low", "fraction_high"), fraction)
            values |= {"sm_clock_mhz": 1500.0, "time_us": 100.0 if m < 4096 else 1000.0}
            row = usual.loc[[LIKE.get(variant, variant)]]
            values |= {"experiment": experiment, "variant": variant}
            parts.append(row.assign(m=m, n=n, k=k, **values))
        return pd.concat(parts, ignore_index=True)

    return changed(h100, timings=planted)


def picture(variant: str, wavefronts: int) -> dict[str, Any]:
    """Return the picture of a read of eight words, `wavefronts` of them in each bank that has one."""
    lanes = [range(row, 8, wavefronts) for row in range(wavefronts)]
    words = [[{"bank": 4 * i, "lanes": [lane]} for i, lane in enumerate(row)] for row in lanes]
    where = {
        "file": "a.cu",
        "line": 7,
        "source": "a[i]",
        "instruction": "ld.shared",
        "about": ["", ""],
    }
    counts = {"kind": "ld", "bits": 32, "wavefronts": wavefronts, "ideal": 1, "summary": "as is"}
    shown = {"variant": variant, "label": variant, "says": "reads"}
    access = {**where, **counts, **shown, "parts": [{"name": "", "wavefronts": words}]}
    return {"title": "Rows", "text": "One bank.", "accesses": [access]}


def seen(name: str, built: Path) -> dict[str, Any]:
    """Return the lens of a kernel with its costs at n = 512, which no check was made of."""
    variant, problem, gpu = catalogue.load().kernels[name], ProblemSpec.square(512), H100
    kernel = launching.load(variant, built)
    predicted = predictions.predict(kernel, variant, problem, gpu.sms)
    rows = bounds.rows(variant, problem, kernel, built / f"{name}.cubin", predicted, gpu)
    costs = lens.Costs.of(problem, predicted, rows)
    return lens.content(variant, kernel, built, gpu.name, costs, [f"checked {name}"])


def ran(module: str, *arguments: object) -> None:
    done = run_module(module, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def analytic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """analytic.csv of this tree."""
    path = tmp_path_factory.mktemp("analytic") / "analytic.csv"
    ran("experiments.stages.analytic", "--out", path)
    return path


@pytest.fixture(scope="session")
def made(
    once: Callable[..., Path], variants_csv: Path, analytic: Path, builds: Callable[..., Path]
) -> Path:
    """A folder with tables/, figures/, lens/, both documents and explorer.html. No test writes to
    it.
    """

    def make(folder: Path) -> None:
        for name in LENSES:
            write_json(folder / "lens" / f"{name}.json", Lens, seen(name, builds(name)))
        tables, figures = folder / "tables", folder / "figures"
        results, catalogue = ("--results", "data/h100"), ("--catalogue", variants_csv)
        common = (*catalogue, "--archives", "data/h100", "data/h200")
        claims = ("--analytic", analytic, "--check", "--out", tables / "claims.csv")
        ran("analysis", "tabulate", *results, *common, "--out", tables)
        ran("analysis", "findings", *common, "--out", tables / "findings.json")
        ran("analysis", "claims", *common, *claims)
        ran("analysis", "draw", *results, *catalogue, "--out", figures, *FIGURES)
        for name, (variant, wavefronts) in PICTURES.items():
            data = picture(variant, wavefronts)
            write_json(figures / f"banks_{name}.json", BankPicture, data)
        places = ("--figures", figures, "--tables")
        ran("analysis", "render", *DOCUMENTS, *places, tables, "--out", folder)
        planted = Path(shutil.copytree(tables, folder / "planted"))
        with (planted / "claims.csv").open("a", newline="") as file:
            for gpu, verdict in VERDICTS.items():
                row = CLAIM | {"gpu": gpu, "verdict": verdict}
                csv.DictWriter(file, TableRow.model_fields).writerow(row)
        page = ("--lens", folder / "lens", "--out", folder / "explorer.html")
        ran("analysis", "explorer", *results, *common, *places, planted, *page)

    return once("analysis", make)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = shutil.which("chromedriver")
    program = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if driver is None or program is None:
        pytest.skip("needs Chromium and its driver: no chromium or no chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for name in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{name}")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
