"""Figures of findings, as wide as a column of the paper, drawn from findings.json."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.sources import Row, Statement
from analysis.inputs import Inputs
from analysis.quantities.machine import Missing
from contracts import UserError


def starred(measured: Measured, rows: Sequence[Row]) -> list[str]:
    """The rows' labels; those of our own rungs, which follow no worklog, with a star."""
    variants = measured.variants
    ours = set(variants.loc[(variants["kind"] == "kernel") & variants["origin"].isna(), "variant"])
    return [f"{row['label']}*" if row["variant"] in ours else str(row["label"]) for row in rows]


def of_finding(name: str) -> Callable[[Callable[[Measured, Statement], Figure]], Callable[[Inputs], Figure]]:
    """The figure of a finding as it was computed, or a panel that says what is missing for it."""

    def decorate(draw: Callable[[Measured, Statement], Figure]) -> Callable[[Inputs], Figure]:
        @functools.wraps(draw)
        def drawn(inputs: Inputs) -> Figure:
            measured = inputs.measured()
            row = next((row for row in inputs.findings() if row["name"] == name), None)
            if row is None:
                raise UserError(f"findings.json has no {name}; python -m analysis.tabulate findings makes it")
            try:
                if row["why"] is not None:
                    raise Missing(row["why"])
                return draw(measured, Statement(*(row[key] for key in ("holds", "summary", "numbers", "rows"))))
            except Missing as missing:
                return style.left_out(measured, row["title"], f"{missing}.", width=style.COLUMN)

        return drawn

    return decorate
