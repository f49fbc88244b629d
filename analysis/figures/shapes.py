"""Dispatchers on problems that are not square: nothing to show until an experiment has measured them."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.results import Results


def draw(results: Results, experiment: str | None = None) -> Figure:
    """The figure."""
    return style.empty(results, "Dispatchers on other shapes")
