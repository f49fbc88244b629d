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

from analysis.explorer import page as command
from analysis.explorer.content import (
    LADDERS,
    Sources,
    claims,
    core,
    measured,
    parts,
    significant,
)
from analysis.findings import FINDINGS
from analysis.results import Results
from contracts import REHEARSAL, UserError


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_fractions_are_the_interleaved_ones_of_the_timings(h100: Results) -> None:
    keys = ["experiment", "variant", "n", "data", "clock_policy"]
    columns = ["fraction", "fraction_low", "fraction_high", "tflops"]
    expected = h100.squares.set_index(keys)[columns].map(significant).sort_index()
    found = pd.DataFrame(rows_of(measured(h100)["timings"])).set_index(keys)[columns].sort_index()
    assert len(found) > 300 and found.astype(float).equals(expected.astype(float))


def test_a_kernel_that_failed_a_check_is_named_and_has_no_number(
    h100: Results, changed: Callable[..., Results], tmp_path: Path
) -> None:
    fail = lambda rows: rows.assign(passed=rows["passed"] & (rows["variant"] != "sgemm_warptile"))
    sources = Sources([changed(h100, checks=fail)], tmp_path, tmp_path)
    found, numbers = core(sources), parts(sources)["gpu0"]
    (line,) = found["gpus"][0]["left_out"]
    assert line.startswith("1 kernel, failed the check ") and line.endswith(": warptile")
    named = {row["variant"] for table in ("timings", "counters") for row in rows_of(numbers[table])}
    assert (
        "sgemm_warptile" not in named | set(numbers["minimum_cycles"])
        and "sgemm_vectorized" in named
    )
    # nothing was written there
    assert (found["findings"], found["claims"], found["pictures"]) == ([], 0, {})


def test_a_rehearsal_has_a_banner_that_stays(rehearsed: Results, h100: Results, made: Path) -> None:
    banner = f'<p class="warning" role="note">{REHEARSAL}</p>'
    texts = [
        command.page(Sources([one], made / "tables", made / "figures")) for one in (rehearsed, h100)
    ]
    assert [banner in text for text in texts] == [
        True,
        False,
    ] and ".warning { position: sticky; top: 0;" in texts[0]


def test_what_a_view_needs_is_there(h100: Results, h200: Results, made: Path) -> None:
    sources = Sources([h100, h200], made / "tables", made / "figures")
    found, texts = core(sources), parts(sources)["sources"]
    assert [(gpu["model"], gpu["processes"]) for gpu in found["gpus"]] == [("H100", 5), ("H200", 1)]
    worklogs = {"sgemm_warptile": "boehm_sgemm", "sgemm_tma": "ours", "cublas_fp32": "library"}
    assert {name: found["kernels"][name]["worklog"] for name in worklogs} == worklogs
    assert all(
        kernel["source"] in texts
        for kernel in found["kernels"].values()
        if kernel["kind"] == "kernel"
    )
    assert found["pictures"] == {"padded_rows": ["sgemm_blocktile_2d_padded"]}
    ladders = {ladder["name"] for ladder in found["ladders"]}
    assert set(LADDERS) <= ladders
    for name, state in ((name, state) for name, (*_, state) in FINDINGS.items() if state):
        kernels = [state[key] for key in ("a", "b") if key in state] + [
            *filter(None, state.get("draw", "").split(","))
        ]
        assert set(kernels) <= set(found["kernels"]), name
        assert state.get("ladder", "sgemm_ladder.").partition(".")[0] in ladders, name


def test_a_claim_has_one_entry_with_a_verdict_for_each_gpu() -> None:
    row = {"worklog": "w", "id": "a", "claim": "Faster.", "kind": "mechanism", "rule_hash": "0"}
    (claim,) = claims(
        [
            row | {"gpu": "h100", "verdict": "holds"},
            row | {"gpu": "h200", "verdict": "does not hold"},
        ]
    )
    assert [(one["gpu"], one["verdict"]) for one in claim["gpus"]] == [
        ("h100", "holds"),
        ("h200", "does not hold"),
    ]
    assert (
        claims([row | {"gpu": "any"}, row | {"worklog": "other", "gpu": "any"}])[1]["worklog"]
        == "other"
    )


def test_the_page_is_one_small_file_whose_parts_unpack(
    made: Path, h100: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (made / "explorer.html").read_text()
    assert 500_000 < len(text.encode()) < command.LARGEST
    packed = dict(
        re.findall(r'<script type="application/gzip" id="part-(\w+)">(.*?)</script>', text)
    )
    assert set(packed) == {"gpu0", "gpu1", "claims", "sources", "pictures", "vega"}
    unpacked = {
        name: gzip.decompress(base64.b64decode(part)).decode() for name, part in packed.items()
    }
    assert (
        json.loads(unpacked["pictures"])["padded_rows"]["svg"].startswith("<svg")
        and "vegaEmbed" in unpacked["vega"]
    )
    given = dict.fromkeys(("tables", "figures", "out"), Path("x"))
    given |= {"results": h100.folder, "archives": [], "catalogue": h100.catalogue, "here": None}
    monkeypatch.setattr(command, "page", lambda sources: "a" * 5_000_001)
    with pytest.raises(
        UserError, match="5,000,001 bytes is not allowed; allowed: at most 5,000,000"
    ):
        command.run(argparse.Namespace(**given))
    (tmp_path / "findings.json").write_text("{}")
    with pytest.raises(UserError, match=r"findings\.json: dict is not allowed; allowed: a list"):
        core(Sources([h100], tmp_path, tmp_path))
