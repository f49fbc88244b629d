"""The explorer of both archives, made once by its command, and a browser to look at it."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, run_module

CLAIM = {"worklog": "boehm_sgemm", "id": "conflicts", "line": "312", "kind": "mechanism", "words": "51 M < 292 M"}
CLAIM |= {"quote": "bank conflicts <b>vanish</b>", "claim": "Warptiling removes bank conflicts."}
CLAIMS = [CLAIM | {"gpu": "h100", "verdict": "holds"}, CLAIM | {"gpu": "h200", "verdict": "within noise"}]
CLAIMS += [
    CLAIM | {"worklog": "sgemm_cu", "id": "occupancy", "kind": "anywhere", "gpu": "any", "verdict": "does not hold"}
]
ON_GPUS = [
    {"gpu": "h100", "model": "H100", "holds": True, "title": "Conflicts moved", "sentence": "`at_tiling` has 52.6 M."},
    {"gpu": "h200", "model": "H200", "holds": None, "title": "Undecided", "sentence": "Not measured here."},
]
FINDINGS = [{"name": "conflicts_moved", "title": "Conflicts moved", "gpus": ON_GPUS}]
ACCESS = {
    "variant": "sgemm_blocktile_2d_padded",
    "says": "reads of A",
    "file": "sgemm/a.cu",
    "line": 7,
    "wavefronts": 1,
}
PICTURE = {"title": "Rows, padded", "text": "One bank.", "accesses": [ACCESS | {"ideal": 1}]}
SVG = '<?xml version="1.0"?>\n<svg viewBox="0 0 90 20"><text y="15" fill="currentColor">bank 0</text></svg>'


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with claims.csv, findings.json and a bank picture."""
    folder = tmp_path_factory.mktemp("tables")
    with (folder / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(CLAIMS[0]))
        writer.writeheader()
        writer.writerows(CLAIMS)
    (folder / "findings.json").write_text(json.dumps(FINDINGS))
    (folder / "banks_padded_rows.json").write_text(json.dumps(PICTURE))
    (folder / "banks_padded_rows.svg").write_text(SVG)
    return folder


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory, variants_csv: Path, tables: Path) -> Path:
    """The explorer of data/h100, with data/h200 beside it."""
    out = tmp_path_factory.mktemp("explorer") / "explorer.html"
    data = ("--results", "data/h100", "--archives", "data/h100", "data/h200", "--catalogue", variants_csv)
    done = run_module("analysis.explorer", *data, "--tables", tables, "--figures", tables, "--out", out, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = shutil.which("chromedriver")
    program = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if driver is None or program is None:
        pytest.skip("needs Chromium and its driver: no chromium or no chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> str:
    """The repository's root as the working directory: sources and experiments are read from there."""
    monkeypatch.chdir(ROOT)
    return os.getcwd()
