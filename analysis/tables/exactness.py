"""How near the emulator's counters come to the hardware's: a table in Markdown, which `analysis.fill_docs` puts into
ptxsim/README.md. Both sides are of the archive: what ncu counted, and what the emulator predicted for the same sources.
"""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Inputs
from analysis.tables.predicted import CONFLICTS, differences, names
from analysis.words import significant

EXACT = 1e-4  # percent: the digits that ncu gives


def compared(inputs: Inputs) -> pd.DataFrame:
    """`differences` of an archive's own kernels, whatever their source is now."""
    counters, predictions = inputs.rows("counters"), inputs.rows("predictions")
    keys = ["variant", "n", "source_hash"]
    same = counters.merge(predictions[keys].drop_duplicates(), on=keys)
    return differences(same.assign(stale=False, label=same["variant"]), predictions)


def table(rows: pd.DataFrame) -> list[str]:
    """The lines of the table: one for each counter, those that are always exact first."""
    found = []
    for key, own in rows.groupby("metric"):
        metric = str(key)
        off = own["difference_percent"].abs()
        exact = int((off < EXACT).sum())
        worst = own.iloc[int(off.argmax())]
        far = (
            "–" if exact == len(own) else f"{'+' if worst['difference_percent'] > 0 else '-'}{significant(off.max())}%"
        )
        whose = "" if exact == len(own) else f"`{worst['variant']}`"
        middle = "–" if exact == len(own) else f"{significant(off.median())}%" if off.median() >= EXACT else "0"
        share = " (of wavefronts)" if CONFLICTS in metric else ""
        cells = (names()[metric] + share, f"`{metric}`", f"{exact} of {len(own)}", middle, far, whose)
        found.append((-exact / len(own), off.max(), "| " + " | ".join(cells) + " |"))
    head = ["counter", "ncu's name", "exact", "median difference", "largest", "of"]
    return [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---|", *(line for *_, line in sorted(found))]
