"""What holds where: each finding on this machine and on every archive, with the shares of the kernels that it is about.

matrix.csv: name, part, title and status of a finding; a machine and its gpu; holds there ("yes", "no", or "not tried",
with why); and of the finding's kernels the least and the greatest share of cuBLAS in turns over all sizes, data and
clocks, in percent, with where that is.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis import registry
from analysis.findings.sources import Row, Sources
from analysis.inputs import Inputs

SHARES = ("least_percent", "least_at", "greatest_percent", "greatest_at")
COLUMNS = ["name", "part", "title", "status", "machine", "gpu", "holds", "why", *SHARES]
WORDS = {True: "yes", False: "no", None: "not tried"}


def measured_findings() -> list[str]:
    """The findings that a machine decides, in the paper's order: all but those about the claims themselves."""
    return [name for name, manifest in registry.findings().items() if "report:claims" not in manifest["reads"]]


def on(of: Sources, row: Row, kernels: list[str]) -> Row:
    """A finding on one machine. `kernels`: those whose shares it is about."""
    rows = [
        (one, f"{name}, n = {n}, {data}, {regime}")
        for (name, n, data, regime), rows in of.machine.index("bench").items()
        for one in rows
        if name in kernels and not one["stale"]
    ]
    timed = [(100 * float(one["share_in_turns"]), where) for one, where in rows]
    found = {"machine": of.machine.name, "gpu": of.measured.provenance["gpu"], "holds": row["holds"], "why": row["why"]}
    ends = [*min(timed), *max(timed)] if timed else [None] * len(SHARES)
    return found | dict(zip(SHARES, ends, strict=True))


def status(tried: list[Row]) -> str:
    """On which machines a finding holds, in words."""
    held, failed, waiting = ([one["machine"] for one in tried if one["holds"] is so] for so in (True, False, None))
    if failed and held:
        words = [f"holds on {', '.join(held)} only, not on {', '.join(failed)}"]
    elif failed:
        words = [f"does not hold on {', '.join(failed)}"]
    elif len(held) > 1:
        words = [f"holds on all that were tried: {', '.join(held)}"]
    else:
        words = [f"holds on {name}, the only one that was tried" for name in held]
    return "; ".join([*words, *([f"not tried on {', '.join(waiting)}"] if waiting else [])])


def matrix(inputs: Inputs) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {key: row[key] for key in ("name", "part", "title", "status")} | one | {"holds": WORDS[one["holds"]]}
        for row in inputs.findings()
        for one in row["tried"]
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
