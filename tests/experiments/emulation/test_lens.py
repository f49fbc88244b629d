"""What each line of a kernel costs adds up to the kernel's counters and minimum cycles."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import refused

import ptxsim
from contracts import validated
from contracts.rows import Lens
from experiments.emulation import bounds, launching, lens, predictions
from kernels import catalogue
from kernels.problem import ProblemSpec
from ptxsim.count import machines, wavefronts
from ptxsim.count.register_banks import MERGED

KERNELS = catalogue.load().kernels
H100 = machines.find("h100")
SIZE = 2048
# Scalar and wide accesses, ldmatrix with cp.async, wgmma with TMA and a persistent grid
EACH = ["sgemm_at_tiling", "hgemm_bcf_bf16", "hgemm_wgmma_persistent_bf16"]


@pytest.fixture(scope="module")
def seen(builds):
    """A function: name of a kernel to its lens and its rows of bounds.csv."""

    @functools.cache
    def of(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        variant, folder = KERNELS[name], builds(name)
        kernel, problem = launching.load(variant, folder), ProblemSpec.square(SIZE)
        predicted = predictions.predict(kernel, variant, problem, H100.sms)
        rows = bounds.rows(variant, problem, kernel, folder / f"{name}.cubin", predicted, H100)
        costs = lens.Costs.of(problem, predicted, rows)
        content = lens.content(variant, kernel, folder, H100.name, costs, ["checked"])
        validated(content, Lens, name)
        return content, {row["resource"]: row for row in rows}

    return of


@pytest.mark.parametrize("name", EACH)
def test_lines_add_up_to_the_counters_and_the_issue_cycles(seen, name: str) -> None:
    content, bound = seen(name)
    totals, accesses = content["totals"], content["accesses"]

    def added(key: str, *spaces: str) -> float:
        return sum(access[key] for access in accesses if access["space"] in spaces)

    assert added("wavefronts", "shared") == totals["memory_l1_wavefronts_shared"] > 0
    assert added("ideal", "shared") == totals["memory_l1_wavefronts_shared_ideal"]
    bulk = sum(totals[f"l2_sectors_bulk_{kind}.sum"] for kind in ("ld", "st"))
    # A cp.async reads global memory and writes shared memory.
    sectors = added("sectors", "global", "shared")
    assert sectors == totals["memory_l2_theoretical_sectors_global"] + bulk > 0
    executed = sum(row[4] for row in content["sass"])
    if "issue" in bound:  # executions that are no estimate
        assert executed == pytest.approx(bound["issue"]["amount"])
    cycles = sum(row[4] * row[5] for row in content["sass"]) + MERGED * added(
        "merged_loads", "shared"
    )
    if "issue_model" in bound:  # of kernels with FFMAs
        schedulers = H100.issue_per_clock * H100.sms
        assert cycles / schedulers == pytest.approx(bound["issue_model"]["minimum_cycles"])
    # All code but a few instructions without a line is of a chain.
    lineless = sum(row[4] for row in content["sass"] if row[3] is None)
    assert lineless < 0.02 * executed


def test_recorded_addresses_cost_what_is_counted(seen) -> None:
    """At the line of at_tiling that stores the transposed tile, four lanes meet in each bank."""
    content, _ = seen("sgemm_at_tiling")
    source = content["sources"][content["source"]].splitlines()
    worst = max(content["accesses"], key=lambda access: access["wavefronts"] - access["ideal"])
    (_, line), *_ = content["chains"][worst["chain"]]
    assert "a_tile[load_a_col + " in source[line - 1] and worst["kind"] == "st"
    for access in content["accesses"]:
        for space, count in (("shared", "wavefronts"), ("global", "sectors")):
            if access[space] is None:
                continue
            addresses = np.array([[-1 if a is None else a for a in access[space]["addresses"]]])
            active, width, store = addresses >= 0, access["width"], access["kind"] == "st"
            served = (
                wavefronts.shared(addresses, active, width, store=store)
                if space == "shared"
                else wavefronts.sectors(addresses, active, width)
            )
            # The access of a whole warp is like the others.
            assert served[0][0] == access[count] / access["requests"]


def test_a_kernel_without_line_information_is_one_line(builds, tmp_path: Path) -> None:
    name, folder = EACH[0], builds(EACH[0])
    ptx = re.sub(r"\t\.(loc|file).*\n", "", (folder / f"{name}.ptx").read_text())
    with refused(f"{name}: no line information; compile with nvcc -lineinfo"):
        lens.content(KERNELS[name], ptxsim.load(ptx), folder, H100.name, lens.Costs(), [])
