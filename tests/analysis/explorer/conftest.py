"""The explorer of the archive, made once by its command, and a browser to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer_page import make
from helpers import run_module
from made_inputs import write_inputs


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory, archive: Path, variants_csv: Path) -> Path:
    """The explorer of the archived measurements, with verdicts on every claim and the findings."""
    folder = tmp_path_factory.mktemp("explorer")
    analytic, claims = folder / "analytic.csv", folder / "tables" / "claims.csv"
    assert run_module("experiments.stages.analytic", "--out", analytic).returncode == 0
    judged = ("--analytic", analytic, "--variants", variants_csv, "--archives", archive, "--out", claims)
    done = run_module("analysis.claims.judge", *judged)
    assert done.returncode == 0, done.stderr
    inputs = write_inputs(folder / "planned.json", archive, variants_csv, tables={"analytic": analytic})
    done = run_module("analysis.tabulate", "--inputs", inputs, "--out", folder / "tables", "findings")
    assert done.returncode == 0, done.stderr
    return make(folder, archive, variants_csv)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by Selenium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    driver = shutil.which("chromedriver")
    program = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if driver is None or program is None:
        pytest.skip("needs Chromium and its driver: no chromium or no chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()
