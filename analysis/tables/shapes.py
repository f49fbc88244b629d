"""llm_shapes.csv: the shapes of language models, as fractions of cuBLAS and of the bound that
binds.

One row for each variant, (n, k) and m. fraction is of cuBLAS, interleaved. bound names the longer
of two times: to move A, B and C once at the DRAM bandwidth of a copy, or to do the multiply-adds at
the tensor cores' measured rate and the clock of the run, which the power limit has lowered where it
binds. bound_us is that time, in microseconds, and fraction_of_bound is bound_us over the variant's
time. Empty where machine.json has no such rate.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.results import Results
from contracts.dtypes import dtypes

LLM = ("llm_shapes", "llm_shapes_triton")
RANDOM = ("any_shape_fp32", "any_shape_bf16")
COLUMNS = [
    "variant",
    "label",
    "b_layout",
    "n",
    "k",
    "m",
    "time_us",
    "fraction",
    "fraction_low",
    "fraction_high",
]
COLUMNS += ["bound", "bound_us", "fraction_of_bound", "sm_clock_mhz"]


def timed(results: Results, experiments: tuple[str, ...]) -> pd.DataFrame:
    """Timings of these experiments, of any shape, with `boost` clocks."""
    rows = results.timings
    rows = rows[rows["experiment"].isin(experiments) & rows["clock_policy"].eq("boost")]
    return rows.reset_index(drop=True)


def with_bounds(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Timings of 16-bit kernels with bound, bound_us and fraction_of_bound."""
    ceilings = vars(results.machine.ceilings)
    per_clock, copied = (
        ceilings.get(key) for key in ("bf16_wgmma_flop_per_clock_sm", "dram_copy_gb_per_s")
    )
    if per_clock is None or copied is None:
        return rows.assign(bound=None, bound_us=np.nan, fraction_of_bound=np.nan)
    m, n, k = (rows[axis].astype(float) for axis in "mnk")
    # Without rows, the column is still one of numbers.
    element_bytes = rows["dtype"].map(lambda name: dtypes()[name].bytes).astype(float)
    moved = (m * k + k * n + m * n) * element_bytes
    flop_per_us = per_clock * results.machine.sm_count * rows["sm_clock_mhz"]
    times = pd.DataFrame({"DRAM": moved / (copied * 1e3)})
    times["tensor cores"] = 2 * m * n * k / flop_per_us
    longest = times.max(axis=1)
    bound = np.where(times["DRAM"] >= times["tensor cores"], "DRAM", "tensor cores")
    return rows.assign(bound=bound, bound_us=longest, fraction_of_bound=longest / rows["time_us"])


def llm_shapes_table(results: Results) -> pd.DataFrame:
    """The table, variants in the catalogue's order, (n, k) in the experiment's, m ascending; no
    rows where none ran.
    """
    rows = with_bounds(results, timed(results, LLM))
    rows = rows.assign(pair=rows.groupby(["n", "k"], sort=False).ngroup())
    return rows.sort_values(["order", "pair", "m"], kind="stable", ignore_index=True)[COLUMNS]
