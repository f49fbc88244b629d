"""The archives, loaded once, and what the commands of the pipeline make of them: tables, figures,
documents, page.
"""

from __future__ import annotations

import copy
import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import ROOT, run_module

from analysis import draw
from analysis.results import Results
from contracts.declared import TableRow

OF_EXPERIMENTS = [
    "ladder:sgemm_ladder",
    "ladder:hopper_ladder",
    "counters:sgemm_ladder",
    "sizes:hopper_sizes",
]
FIGURES = [*OF_EXPERIMENTS, *(name for name in draw.FIGURES if name not in ("ladder", "counters"))]
DOCUMENTS = ("paper/paper.typ", "paper/supplement.typ")
CLAIM = {
    "worklog": "boehm_sgemm",
    "id": "planted",
    "line": "312",
    "kind": "mechanism",
    "words": "51 M < 292 M",
}
CLAIM |= {"quote": "bank conflicts <b>vanish</b>", "claim": "A planted claim."}
CLAIMS = [
    CLAIM | {"gpu": "h100", "verdict": "holds"},
    CLAIM | {"gpu": "h200", "verdict": "within noise"},
]
PICTURE = {
    "title": "Rows",
    "text": "One bank.",
    "accesses": [{"variant": "sgemm_blocktile_2d_padded", "line": 7}],
}
SVG = '<?xml version="1.0"?>\n<svg viewBox="0 0 90 20"><text y="15" fill="currentColor">bank 0</text></svg>'


@pytest.fixture(scope="session")
def h100(variants_csv: Path) -> Results:
    """The archive with five processes a row. No test changes it: see `changed`."""
    return Results(ROOT / "data" / "h100", variants_csv)


@pytest.fixture(scope="session")
def h200(variants_csv: Path) -> Results:
    """The archive with one process a row."""
    return Results(ROOT / "data" / "h200", variants_csv)


@pytest.fixture(scope="session")
def changed() -> Callable[..., Results]:
    """A function: results and, by table, what changes a copy of its rows, to results with the
    changed tables.
    """

    def of(results: Results, **changes: Callable[[pd.DataFrame], pd.DataFrame]) -> Results:
        found = copy.copy(results)
        found.__dict__["_read"] = dict(results._read)
        for name in (
            "timings",
            "squares",
            "counters",
            "predictions",
            "checks",
            "failed",
            "left_out",
            "note",
            "_measured_with",
        ):
            found.__dict__.pop(name, None)
        for name, change in changes.items():
            if name == "timings":
                found.__dict__["timings"] = change(results.timings.copy())
            else:
                found._read[name] = change(results.raw(name).copy())
        if not {"timings", "checks", "windows"} & set(changes):
            found.__dict__["timings"] = results.timings
        return found

    return of


@pytest.fixture(scope="session")
def rehearsed(h100: Results, changed: Callable[..., Results]) -> Results:
    """The H100's archive as if it were of a rehearsal."""
    found = changed(h100, timings=lambda rows: rows)
    found.__dict__["provenance"] = h100.provenance.model_copy(
        update={"gpu": "NVIDIA H100 rehearsal"}
    )
    return found


@pytest.fixture(scope="session")
def shaped(h100: Results, changed: Callable[..., Results]) -> Results:
    """The H100's archive; its shapes are four of language models and three random ones, with
    planted fractions.
    """
    planted = [  # experiment, variant, m, n, k, fraction of cuBLAS
        ("llm_shapes", "hgemm_best_bf16", 1, 8192, 8192, 0.8),
        ("llm_shapes", "hgemm_best_bf16", 1, 2112, 7168, 1.25),
        ("llm_shapes", "hgemm_best_bf16", 4096, 8192, 8192, 0.96),
        ("llm_shapes_triton", "triton_bf16", 4096, 8192, 8192, 0.7),
        ("any_shape_fp32", "sgemm_tma_streamk", 64, 300, 5000, 0.9),
        ("any_shape_fp32", "sgemm_tma_streamk", 1024, 1024, 1024, 3.0),
        ("any_shape_bf16", "hgemm_best_bf16", 64, 304, 5000, 1.1),
    ]

    def add(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[~rows["experiment"].isin([one[0] for one in planted])]
        made = []
        for experiment, variant, m, n, k, fraction in planted:
            one = rows[
                (rows["variant"] == variant)
                & (rows["clock_policy"] == "boost")
                & (rows["data"] == "uniform")
            ]
            given = {"experiment": experiment, "m": m, "n": n, "k": k, "sm_clock_mhz": 1500.0}
            ends = dict.fromkeys(("fraction", "fraction_low", "fraction_high"), fraction)
            time_us = 100.0 if m < 4096 else 1000.0
            made.append(one.iloc[[0]].assign(**given, **ends, time_us=time_us))
        return pd.concat([rows, *made], ignore_index=True)

    return changed(h100, timings=add)


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
def made(once: Callable[..., Path], variants_csv: Path, analytic: Path) -> Path:
    """A folder with tables/, figures/, both documents and explorer.html. No test writes to it."""

    def make(folder: Path) -> None:
        common = ("--catalogue", variants_csv, "--archives", "data/h100", "data/h200")
        tables, figures = folder / "tables", folder / "figures"
        ran("analysis", "tabulate", "--results", "data/h100", *common, "--out", tables)
        ran("analysis", "findings", *common, "--out", tables / "findings.json")
        ran(
            "analysis",
            "claims",
            *common,
            "--analytic",
            analytic,
            "--check",
            "--out",
            tables / "claims.csv",
        )
        ran("analysis", "draw", "--results", "data/h100", *common[:2], "--out", figures, *FIGURES)
        (figures / "banks_padded_rows.json").write_text(json.dumps(PICTURE))
        (figures / "banks_padded_rows.svg").write_text(SVG)
        ran(
            "analysis",
            "render",
            *DOCUMENTS,
            "--tables",
            tables,
            "--figures",
            figures,
            "--out",
            folder,
        )
        planted = Path(shutil.copytree(tables, folder / "planted"))
        with (planted / "claims.csv").open("a", newline="") as file:
            csv.DictWriter(file, TableRow.model_fields).writerows(CLAIMS)
        places = ("--tables", planted, "--figures", figures, "--out", folder / "explorer.html")
        ran("analysis", "explorer", "--results", "data/h100", *common, *places)

    return once("analysis", make)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = shutil.which("chromedriver")
    program = next(
        (path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))),
        None,
    )
    if driver is None or program is None:
        pytest.skip("needs Chromium and its driver: no chromium or no chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
