"""The findings: their numbers follow from the measured tables, and a statement that fails is reported as failing."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from helpers import ARCHIVE, ROOT, run_module
from machine_folder import Folder
from made_inputs import write_inputs

from analysis import fill_docs, findings, registry
from analysis.findings import matrix
from analysis.findings.merged.finding import APART
from analysis.findings.sources import Sources
from analysis.quantities.machine import Machine
from analysis.statistics import IN_TURNS, SHARE, TIME
from contracts import UserError, archives, read_json, read_rows, worklogs, write_json, write_rows
from kernels import catalogue

Row = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory, archive: Path, variants_csv: Path) -> dict[str, Row]:
    """Every finding of the archive by name; of claims there are none."""
    folder = tmp_path_factory.mktemp("findings")
    return {row["name"]: row for row in made(folder, archive, variants_csv)}


def made(folder: Path, measured: Path, variants: Path, *others: Path) -> list[Row]:
    """The document as the command makes it."""
    analytic = folder / "analytic.csv"
    done = run_module("experiments.stages.analytic", "--out", analytic)
    assert done.returncode == 0, done.stderr
    more = {"tables": {"analytic": analytic}, "archives": list(map(str, others))}
    inputs = write_inputs(folder / "inputs.json", measured, variants, **more)
    done = run_module("analysis.tabulate", "--inputs", inputs, "--out", folder, "matrix", "findings")
    assert done.returncode == 0, done.stderr
    found: list[Row] = json.loads((folder / "findings.json").read_text())
    return found


def at_size(archive: Path, experiment: str = "sgemm_ladder") -> dict[str, Row]:
    """Rows of bench.csv at 4096 by variant."""
    rows = read_rows(archive / "bench.csv", "bench")
    return {row["variant"]: row for row in rows if row["experiment"] == experiment and row["n"] == 4096}


def test_the_findings_hold_on_the_archive(reported: dict[str, Row]) -> None:
    assert list(reported) == list(findings.manifests())
    unlike = {"on_paper": None} | ({"hopper": False} if ARCHIVE.name == "h100" else {})
    assert {name: row["holds"] for name, row in reported.items()} == dict.fromkeys(reported, True) | unlike
    assert reported["on_paper"]["why"] == "the claims were not judged"


def test_shares_that_a_ladder_keeps_are_of_those_published(reported: dict[str, Row], archive: Path) -> None:
    numbers, rows = reported["ladders"]["numbers"], {row["variant"]: row for row in reported["ladders"]["rows"]}
    published = worklogs.published(ROOT / worklogs.FOLDER)
    shares = [
        row["value"]
        for row in published
        if row["rung"] == "sgemm_warptile" and row["quantity"] == "share_of_cublas" and row["unit"] == "%"
    ]
    gaps = [
        100 - row["value"]
        for row in published
        if row["rung"] == "sgemm_warptile" and row["quantity"] == "gap_to_cublas"
    ]
    warptile = rows["sgemm_warptile"]
    measured = read_rows(archive / "bench.csv", "bench")  # in several experiments, each with a baseline of its own
    own = [row["share_of_baseline"] for row in measured if (row["variant"], row["n"]) == ("sgemm_warptile", 4096)]
    assert warptile["here"] in own
    assert 100 * warptile["theirs"] == pytest.approx(statistics.mean(shares + gaps))
    assert numbers["fp32_least_kept_percent"] == pytest.approx(100 * warptile["here"] / warptile["theirs"])
    plain = [row["here"] / row["theirs"] for row in rows.values() if row["variant"].startswith("sgemm_")]
    assert numbers["fp32_rungs"] == len(plain) > 10
    assert numbers["fp32_median_kept_percent"] == pytest.approx(100 * statistics.median(plain))
    ceilings = read_json(archive / "machine.json", "machine")["ceilings"]
    rate = ceilings["bf16_mma_flop_per_clock_sm"] / ceilings["bf16_wgmma_flop_per_clock_sm"]
    assert numbers["mma_of_wgmma_percent"] == pytest.approx(100 * rate)


def test_steps_are_counted_as_the_table_of_steps_has_them(reported: dict[str, Row]) -> None:
    numbers, rows = reported["counters"]["numbers"], reported["counters"]["rows"]
    meant = [row for row in rows if row["meant"]]
    assert numbers["steps"] == len(rows) and numbers["meant"] == len(meant) > 20
    assert numbers["faster"] == sum(row["speedup"] > 1.02 for row in meant)
    assert numbers["slower"] == sum(row["speedup"] < 0.98 for row in meant)
    assert numbers["faster"] + numbers["same"] + numbers["slower"] == numbers["meant"]
    assert not {row["variant"] for row in rows} & {
        "sgemm_t128x128x8_direct",
        "tf32gemm_bcf_dbf_rna",
    }  # slowed on purpose


def test_a_step_that_misses_one_of_its_counters_is_not_as_meant(reported: dict[str, Row]) -> None:
    by_name = {row["variant"]: row["meant"] for row in reported["counters"]["rows"]}
    assert by_name["sgemm_coalesced"] and not by_name["sgemm_blocktile_2d_padded_ab"]
    assert not by_name["sgemm_at_swizzle_dbf_rw_3blocks"]  # more warps are active, fewer are eligible


def test_wavefronts_of_copies_and_stores_are_those_counted(reported: dict[str, Row], archive: Path) -> None:
    numbers = reported["wavefronts"]["numbers"]
    single = read_rows(archive / "smem_microbench.csv", "smem_microbench")
    counted = {row["pattern"]: row["wavefronts"] for row in single if row["access"] == "cp_async_ca_16"}
    assert numbers["short_wavefronts"] == round(counted["stride 1 from rows of 32 bytes"]) - 3 == 16
    assert numbers["long_wavefronts"] == round(counted["XOR swizzle from rows of 512 bytes"]) - 3 == 4
    between = pd.read_csv(archive / "inter_warp_conflicts.csv")
    between = between[between["bits"].isna() & (between["stores_need"] > 0)]
    excess = 100 * (between["store_wavefronts"] / between["stores_need"] - 1)
    assert numbers["worst_percent"] == pytest.approx(excess.max())
    assert numbers["constant_most_percent"] == pytest.approx(excess[between["source"] == "neither"].max())


def test_blocks_and_power_are_those_measured(reported: dict[str, Row], archive: Path) -> None:
    numbers, rows = reported["blocks"]["numbers"], reported["blocks"]["rows"]
    bench = at_size(archive, "occupancy")
    for row in rows:
        fast, slow = (bench[row[key]]["time_us_median"] for key in ("over", "variant"))
        assert row["speedup"] == pytest.approx(fast / slow, rel=0.01), row["variant"]  # of another experiment's row
    more = [row for row in rows if row["blocks_per_sm_after"] > row["blocks_per_sm_before"]]
    assert numbers["more"] == len(more) == numbers["slower"]
    power = reported["power"]["numbers"]
    timed = [row for row in read_rows(archive / "bench.csv", "bench") if row["dtype"] == "fp32" and row["n"] >= 4096]
    kernels = [r for r in timed if not r["variant"].startswith(("cublas", "torch", "triton", "sgemm_3xtf32"))]
    fastest = max(row["tflops"] for row in kernels)  # of any experiment; one row a problem is reported
    assert power["best_tflops"] == pytest.approx(fastest, rel=0.005)
    assert power["reachable_tflops"] == pytest.approx(power["frugal_gflop_per_j"] * power["limit_w"] / 1000)


def test_where_the_xor_leads_is_worked_out(reported: dict[str, Row]) -> None:
    numbers = reported["alignment"]["numbers"]
    first, slot = numbers["first_address"], numbers["slot_bytes"]
    buffer = range(first + numbers["before_bytes"], first + numbers["before_bytes"] + slot)
    assert numbers["astray_bytes"] == sum(address ^ slot != address + slot for address in buffer) == slot // 4


def test_a_finding_is_a_folder(archive: Path) -> None:
    """Its figure and what it reads are registered by its manifest alone, and changes of its code are known."""
    document = registry.tables()["findings"]
    for name, manifest in findings.manifests().items():
        folder = ROOT / "analysis" / "findings" / name
        assert (folder / "text.typ").is_file() and f"analysis/findings/{name}/finding.py" in document.code
        assert (folder / "figure.py").is_file() == ("figure" in manifest)
        assert set(manifest["reads"]) - {"measured"} <= set(document.reads), name
        if "figure" in manifest:
            figure = registry.figures()[f"finding_{name}"]
            assert figure.title == manifest["figure"] and "report:findings" in figure.reads
            assert f"analysis/findings/{name}/figure.py" in figure.code


def slower_copies(row: Row) -> Row | None:
    return {"wavefronts": row["wavefronts"] + 9} if row["pattern"].startswith("XOR swizzle from rows") else None


def no_power_cap(row: Row) -> Row | None:
    return {"throttle_reasons": "none", "power_w": row["power_w"] and row["power_w"] / 2}


def faster_half(row: Row) -> Row | None:
    share = dict.fromkeys(SHARE, 0.98)
    return share if row["variant"].startswith("hgemm_bcf_dbf_rw") else None


@pytest.mark.parametrize(
    ("name", "file", "edit"),
    [
        ("wavefronts", "smem_microbench", slower_copies),
        ("power", "bench", no_power_cap),
        ("ladders", "bench", faster_half),
    ],
)
def test_a_statement_that_the_tables_contradict_does_not_hold(
    name: str, file: str, edit: Callable[[Row], Row | None], folder: Folder
) -> None:
    def holds() -> bool:
        return findings.compute(name, Sources(folder.inputs())).holds

    assert holds()
    folder.edit(file, edit)
    assert not holds()


def test_what_is_not_there_is_named(folder: Folder) -> None:
    for name in ("smem_microbench", "inter_warp_conflicts"):
        (folder.measured / f"{name}.csv").unlink()
    folder.edit("bench", lambda row: None, keep=lambda row: False)
    rows = {row["name"]: row for row in findings.findings(folder.inputs())}
    assert all(
        rows[name]["holds"] is None and rows[name]["why"] for name in ("wavefronts", "ladders", "power", "blocks")
    )
    assert rows["wavefronts"]["why"] == "smem_microbench.csv has no rows here"


# ---- on several machines ----------------------------------------------------------------------------------------


OTHER = "Other GPU"


def test_another_machine_changes_the_matrix_and_the_status(tmp_path: Path, archive: Path, variants_csv: Path) -> None:
    """Two copies of the archive: one on which a rung is level with cuBLAS at every size; and one on which it has half
    of that at the largest, and where copies were not counted."""
    last, there = "hgemm_wgmma_pingpong_bf16", tmp_path / "there"
    there.mkdir()
    level, halved = Folder(tmp_path, archive), Folder(there, archive)
    for one, at_the_largest in ((level, 1.0), (halved, 0.5)):
        shares = {16384: at_the_largest}
        one.edit("bench", lambda row, shares=shares: dict.fromkeys(IN_TURNS, shares.get(row["n"], 1.0))
                 if row["variant"] == last else None)  # fmt: skip
    (halved.measured / "smem_microbench.csv").unlink()
    provenance = read_json(halved.measured / "provenance.json", "provenance")
    here = provenance["machine"]
    write_json(halved.measured / "provenance.json", "provenance", provenance | {"machine": "other", "gpu": OTHER})
    run = made(tmp_path, level.measured, variants_csv, level.measured, halved.measured)
    found = {row["name"]: row for row in run}
    assert found["hopper"]["status"] == f"holds on {here} only, not on other" and found["hopper"]["holds"]
    assert found["fma"]["status"] == f"holds on all that were tried: {here}, other"
    assert found["wavefronts"]["status"] == f"holds on {here}, the only one that was tried; not tried on other"
    first, second = (row for row in csv.DictReader((tmp_path / "matrix.csv").open()) if row["name"] == "hopper")
    assert (first["machine"], first["holds"], second["machine"], second["holds"]) == (here, "yes", "other", "no")
    assert second["gpu"] == OTHER and second["least_at"].startswith(f"{last}, n = 16384, ")
    assert float(first["least_percent"]) == 100 and float(second["least_percent"]) == 50
    (line,) = (line for line in readme(found.values()).splitlines() if line.startswith("| A ping-pong rung"))
    assert re.fullmatch(r"\| [^|]+ \| yes \(100 to 100%\) \| no \(50 to 100%\) \|", line)


def readme(found: Iterable[Row] | None) -> str:
    """README.md, its table filled with these findings."""
    path, known = ROOT / "README.md", cast(Machine, None)  # no block of it asks for a quantity
    return fill_docs.fill(path.read_text(), known, path, list(found) if found is not None else None)


def test_readme_has_the_matrix_of_every_archive(tmp_path: Path, archive: Path, variants_csv: Path) -> None:
    known = archives.folders(ROOT)
    found = made(tmp_path, archive, variants_csv, *dict.fromkeys([archive, *known]))
    names = {one["machine"] for row in found for one in row["tried"]}
    assert names >= {folder.name for folder in known}
    assert readme(found) == (ROOT / "README.md").read_text(), "out of date: docs/use.md, Add your GPU, has the commands"


def test_the_matrix_needs_the_findings() -> None:
    with pytest.raises(UserError, match=r"README.md:\d+: findings needs --findings FILE.json"):
        readme(None)


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        ([True], "holds on a, the only one that was tried"),
        ([True, True], "holds on all that were tried: a, b"),
        ([True, False, None], "holds on a only, not on b; not tried on c"),
        ([False, False], "does not hold on a, b"),
        ([None, None], "not tried on a, b"),
    ],
)
def test_a_status_says_no_more_than_was_tried(holds: list[bool | None], words: str) -> None:
    tried = [{"machine": name, "holds": one} for name, one in zip("abc", holds, strict=False)]
    assert matrix.status(tried) == words


# ---- past the worklogs ----------------------------------------------------------------------------------------------


def test_the_hopper_ladder_reports_its_last_rung_at_each_size(reported: dict[str, Row], archive: Path) -> None:
    numbers, rows = reported["hopper"]["numbers"], read_rows(archive / "bench.csv", "bench")
    rows = [row for row in rows if row["experiment"] == "hopper_ladder" and row["dtype"] == "bf16"]
    last = {row["n"]: 100 * row["share_in_turns"] for row in rows if row["variant"] == "hgemm_wgmma_pingpong_bf16"}
    assert {row["n"]: row["percent"] for row in numbers["by_size"]} == pytest.approx(last)
    assert numbers["last_percent"] == pytest.approx(last[numbers["n"]])
    assert numbers["rungs"] == len({row["variant"] for row in rows if "wgmma" in row["variant"]})
    shares = {row["label"]: row["share_of_baseline"] for row in reported["hopper"]["rows"]}
    tma = 100 * (shares["wgmma_tma_bf16"] / shares["wgmma_smem_bf16"] - 1)
    assert numbers["steps"][0] == {"label": "wgmma_tma_bf16", "percent": pytest.approx(tma)}


def test_a_last_rung_far_from_the_library_closes_no_gap(folder: Folder, variants_csv: Path) -> None:
    def slow(row: Row) -> Row:
        shares = dict.fromkeys(IN_TURNS, 0.9)
        return row | (shares if row["variant"] == "hgemm_wgmma_pingpong_bf16" else {})

    folder.edit("bench", slow)
    assert {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["hopper"][
        "holds"
    ] is False


def test_merged_loads_are_reported_with_their_price(reported: dict[str, Row], archive: Path) -> None:
    found, rows = reported["merged"], read_rows(archive / "ffma_issue.csv", "ffma_issue")
    loads = [row for row in rows if row["beside"] == "load" and row["bits"] == 128 and row["warps"] == 8]
    apart = [row["extra"] for row in loads if row["lanes"] == "distinct"]
    assert found["part"] == "beyond" and found["holds"] and found["numbers"]["least_more_cycles"] > 1
    assert {(row["bits"], row["merged"]) for row in found["rows"]} == {
        (32, False), (64, False), (64, True), (128, False), (128, True)
    }  # fmt: skip
    assert min(apart) <= found["numbers"]["plain_cycles"] <= max(apart) < found["numbers"]["merged_cycles"]


def times(row: Row, factor: float) -> Row:
    """The same timing so many times as long."""
    return {key: row[key] * factor for key in TIME}


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.9, False)])
def test_a_kernel_that_loses_by_unmerged_loads_speaks_against_it(
    share: float, holds: bool, folder: Folder, variants_csv: Path
) -> None:
    """The kernel without merged loads, as fast as another one, and the one with them, slowed or not."""
    with_merged, without = APART

    def rename(row: Row) -> Row:
        return row | (times(row, 1 / 0.97) if row["variant"] == with_merged else {})

    folder.edit("bench", rename)
    rows = read_rows(folder.measured / "bench.csv", "bench")
    now = {row["variant"]: row["source_hash"] for row in read_rows(variants_csv, "variants")}
    twins = [
        row | {"variant": without, "source_hash": now[without]} | times(row, 0.97 / share)
        for row in rows
        if row["variant"] == with_merged
    ]
    known = [row | {"source_hash": now[with_merged]} if row["variant"] == with_merged else row for row in rows]
    kept = [row for row in known if row["variant"] != without]
    write_rows(folder.measured / "bench.csv", "bench", [*kept, *twins])
    found = {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["merged"]
    assert found["holds"] is holds and "faster for it" in found["summary"]


def test_plain_fmas_are_compared_with_the_fastest_call_of_the_library(reported: dict[str, Row], archive: Path) -> None:
    """The best of each size, worked out again from the timings."""
    found, best = reported["fma"], {}
    for row in read_rows(archive / "bench.csv", "bench"):
        if row["experiment"] == "sgemm_sizes" and row["variant"] in catalogue.load().kernels:
            best[row["n"]] = max(best.get(row["n"], 0.0), row["share_in_turns"])
    numbers = found["numbers"]
    assert found["part"] == "beyond" and found["holds"] and numbers["ahead"] == numbers["squares"] == len(best) == 12
    assert 1 + numbers["mean_percent"] / 100 == pytest.approx(math.prod(best.values()) ** (1 / len(best)))
    assert 1 + numbers["least_percent"] / 100 == pytest.approx(min(best.values()))


def test_a_square_behind_the_library_speaks_against_plain_fmas(folder: Folder, variants_csv: Path) -> None:
    behind = dict(zip(IN_TURNS, (0.9, 0.89, 0.91), strict=True))
    folder.edit("bench", lambda row: behind if row["experiment"] == "sgemm_sizes" and row["n"] == 4096 else None)
    found = {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["fma"]
    assert found["holds"] is False and found["numbers"]["ahead"] == found["numbers"]["squares"] - 1


def test_other_problems_are_reported_if_the_sweep_is_of_these_kernels(folder: Folder, variants_csv: Path) -> None:
    """The best of each problem, worked out again from the sweep."""
    now = {row["variant"]: row["source_hash"] for row in read_rows(variants_csv, "variants")}
    folder.edit("dispatch", lambda row: {"source_hash": now[row["variant"]]})
    best: dict[tuple[int, ...], float] = {}
    for row in read_rows(folder.measured / "dispatch.csv", "dispatch"):
        problem = row["m"], row["n"], row["k"]
        if len(set(problem)) > 1 and row["dispatcher"] == "sgemm_best":
            best[problem] = max(best.get(problem, 0.0), row["share"])
    numbers = [
        {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["fma"]["numbers"]
    ]
    folder.edit("dispatch", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_tma_streamk" else None)
    numbers += [
        {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["fma"]["numbers"]
    ]
    assert [(one["others"], one["others_ahead"]) for one in numbers] == [
        (len(best), sum(share > 1 for share in best.values())),
        (0, 0),
    ]


def test_the_error_of_split_products_is_compared_with_that_of_fp32(reported: dict[str, Row], archive: Path) -> None:
    numbers, rows = reported["fp32_tensor"]["numbers"], read_rows(archive / "error_over_k.csv", "error_over_k")
    rms = {(row["variant"], row["data"], row["k"]): row["rms"] for row in rows}
    longest, own = max(row["k"] for row in rows), "sgemm_3xtf32_wgmma"
    for data in ("uniform", "positive", "wide"):
        fp32 = rms["sgemm_naive", data, longest]
        assert numbers[f"{data}_error_of_fp32"] == pytest.approx(rms[f"{own}_outside", data, longest] / fp32)
        assert numbers[f"{data}_inside_error_of_fp32"] == pytest.approx(rms[own, data, longest] / fp32)
    assert numbers["wide_most_error_of_fp32"] > 1 > numbers["positive_most_error_of_fp32"]


def test_without_errors_the_speed_is_reported_alone(folder: Folder, variants_csv: Path) -> None:
    (folder.measured / "error_over_k.csv").unlink()
    found = {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}["fp32_tensor"]
    assert found["holds"] and "error" not in found["summary"] and "longest_k" not in found["numbers"]


# ---- what bears them out --------------------------------------------------------------------------------------------


def entry(name: str, of: str | None) -> Row:
    """A row of claims.csv of the class `finding`."""
    texts = {"machine": ARCHIVE.name, "origin": "archived", "worklog": "A", "section": "x", "claim": f"{name} is so."}
    states = {
        "class": "finding",
        "counted": False,
        "verdict": "holds",
        "independent": False,
        "why": "so",
        "about": "power",
    }
    return (
        texts | states | {"id": name, "bears_out": of, "remark": "Seen.", "if_stricter": "holds", "if_looser": "holds"}
    )


def test_a_measure_bears_out_a_finding_or_is_a_smaller_one(folder: Folder, variants_csv: Path) -> None:
    write_rows(folder.measured.parent / "claims.csv", "claims_table", [entry("a-one", "power"), entry("a-two", None)])
    found = {row["name"]: row for row in made(folder.measured.parent, folder.measured, variants_csv)}
    assert found["power"]["evidence"] == ["a-one"] and found["power"]["part"] == "worklogs"
    assert list(found) == [*findings.manifests(), "a-two"]
    small = {"part": "smaller", "title": "a-two is so", "holds": True, "summary": "Seen.", "evidence": ["a-two"]}
    assert found["a-two"].items() >= small.items()


def test_a_measure_of_no_finding_is_named(folder: Folder, variants_csv: Path) -> None:
    write_rows(folder.measured.parent / "claims.csv", "claims_table", [entry("a-one", "powr")])
    with pytest.raises(AssertionError, match="unknown finding 'powr' in bears_out of a-one; nearest: power"):
        made(folder.measured.parent, folder.measured, variants_csv)
