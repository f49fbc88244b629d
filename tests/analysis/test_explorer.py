"""What the explorer's page holds, without a browser."""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from frames import with_cells
from helpers import refused

from analysis.explorer import page as command
from analysis.explorer.content import (
    LADDERS,
    Sources,
    claims,
    core,
    measured,
    parts,
    rungs,
    significant,
    without_lens,
)
from analysis.explorer.lenses import read
from analysis.findings import FIGURES, FINDINGS
from analysis.results import Results
from contracts import REHEARSAL


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_fractions_are_the_interleaved_ones_of_the_timings(h100: Results) -> None:
    keys = ["experiment", "variant", "n", "data", "clock_policy"]
    columns = ["fraction", "fraction_low", "fraction_high", "tflops"]
    expected = h100.squares.set_index(keys)[columns].map(significant).sort_index()
    rows = pd.DataFrame(rows_of(measured(h100)["timings"])).set_index(keys)[columns].sort_index()
    assert len(rows) > 300 and rows.astype(float).equals(expected.astype(float))


def test_a_kernel_that_failed_a_check_is_named_and_has_no_number(
    h100: Results, changed: Callable[..., Results], tmp_path: Path
) -> None:
    failed = changed(h100, checks=with_cells("passed", False, variant="sgemm_warptile"))
    sources = Sources([failed], tmp_path, tmp_path)
    data, numbers = core(sources), parts(sources)["gpu0"]
    failing = "1 kernel, failed the check "
    (line,) = (line for line in data["gpus"][0]["left_out"] if line.startswith(failing))
    assert line.endswith(": warptile")
    for name in ("timings", "counters"):
        named = {row["variant"] for row in rows_of(numbers[name])}
        assert "sgemm_warptile" not in named and "sgemm_vectorized" in named
    assert "sgemm_warptile" not in numbers["minimum_cycles"]
    # nothing was written there
    assert (data["findings"], data["claims"], data["pictures"]) == ([], 0, {})


def test_a_rung_without_a_lens_is_named_with_the_reason(h100: Results, made: Path) -> None:
    known = read([made / "lens"])
    failed = known | {
        "sgemm_at_tiling": known["sgemm_at_tiling"].model_copy(update={"passed": False})
    }
    sources = Sources([h100], made / "tables", made / "figures", failed)
    assert "sgemm_at_tiling" not in rungs(sources) and "sgemm_at_swizzle" in rungs(sources)
    lines = without_lens(sources)
    assert lines[0] == "left out of the lens, failed a check: sgemm_at_tiling"
    assert lines[1].startswith("left out of the lens, not emulated: sgemm_naive, ")
    assert without_lens(Sources([h100], made / "tables", made / "figures")) == []


def test_a_rehearsal_has_a_banner_that_stays(rehearsed: Results, h100: Results, made: Path) -> None:
    banner = f'<p class="warning" role="note">{REHEARSAL}</p>'
    for results in (rehearsed, h100):
        text = command.page(Sources([results], made / "tables", made / "figures"))
        assert (banner in text) is (results is rehearsed)
        assert ".warning { position: sticky; top: 0;" in text


def test_what_a_view_needs_is_there(h100: Results, h200: Results, made: Path) -> None:
    sources = Sources([h100, h200], made / "tables", made / "figures")
    data, texts = core(sources), parts(sources)["sources"]
    assert [(gpu["model"], gpu["processes"]) for gpu in data["gpus"]] == [("H100", 5), ("H200", 1)]
    kernels, ladders = data["kernels"], {ladder["name"] for ladder in data["ladders"]}
    worklogs = {"sgemm_warptile": "boehm_sgemm", "sgemm_tma": "ours", "cublas_fp32": "library"}
    assert {name: kernels[name]["worklog"] for name in worklogs} == worklogs
    written = {kernel["source"] for kernel in kernels.values() if kernel["kind"] == "kernel"}
    assert written <= set(texts) and set(LADDERS) <= ladders
    expected = {"plain_rows": ["sgemm_blocktile_2d"]}
    assert data["pictures"] == expected | {"padded_rows": ["sgemm_blocktile_2d_padded"]}
    for name, (*_, view) in FINDINGS.items():
        state = {"a": "", "b": "", "draw": "", "ladder": "sgemm_ladder."} | (view or {})
        named = {state["a"], state["b"], *state["draw"].split(",")} - {""}
        assert named <= set(kernels) and state["ladder"].partition(".")[0] in ladders, name


def test_a_claim_has_one_entry_with_a_verdict_for_each_gpu() -> None:
    row = {"worklog": "w", "id": "a", "claim": "Faster.", "kind": "mechanism", "rule_hash": "0"}
    verdicts = [{"gpu": "h100", "verdict": "holds"}, {"gpu": "h200", "verdict": "does not hold"}]
    (claim,) = claims([row | verdict for verdict in verdicts])
    assert claim["gpus"] == verdicts
    rows = [row | {"gpu": "any"}, row | {"worklog": "other", "gpu": "any"}]
    assert [claim["worklog"] for claim in claims(rows)] == ["w", "other"]


def test_the_page_is_one_small_file_whose_parts_unpack(made: Path) -> None:
    text = (made / "explorer.html").read_text()
    assert 500_000 < len(text.encode()) < command.MAX_BYTES
    part = r'<script type="application/gzip" id="part-(\w+)">(.*?)</script>'
    unpacked = {
        name: gzip.decompress(base64.b64decode(packed)).decode()
        for name, packed in re.findall(part, text)
    }
    names = {"gpu0", "gpu1", "claims", "sources", "explanations", "pictures", "figures", "vega"}
    names |= {f"lens_{path.stem}" for path in (made / "lens").iterdir()}
    assert set(unpacked) == names and set(json.loads(unpacked["figures"])) == {*FIGURES.values()}
    assert "vegaEmbed" in unpacked["vega"]
    svgs = list(json.loads(unpacked["figures"]).values())
    ids = re.findall(r' id="([^"]+)"', re.sub(part, "", text) + "".join(svgs))
    assert svgs and sorted(set(ids)) == sorted(ids)
    for svg in svgs:  # What clips a cell is in the same picture.
        names = set(re.findall(r"url\(#([^)]+)\)", svg))
        assert svg.startswith("<svg") and names
        assert names == set(re.findall(r'<clipPath id="([^"]+)"', svg))


def test_a_page_that_is_too_large_and_foreign_findings_are_one_line(
    h100: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict.fromkeys(("tables", "figures", "out"), Path("x"))
    given |= {
        "lens": [],
        "results": h100.folder,
        "archives": [],
        "catalogue": h100.catalogue,
        "here": None,
    }
    monkeypatch.setattr(command, "page", lambda sources: "a" * 6_000_001)
    with refused("6,000,001 bytes is not allowed; allowed: at most 6,000,000"):
        command.run(argparse.Namespace(**given))
    (tmp_path / "findings.json").write_text("{}")
    with refused(r"findings\.json: dict is not allowed; allowed: a list"):
        core(Sources([h100], tmp_path, tmp_path))
