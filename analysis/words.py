"""Numbers and facts in the words of figures and documents."""

from __future__ import annotations

from collections.abc import Iterable


def regime_text(regimes: Iterable[str]) -> str:
    """The regimes in the words of a note: "unlocked clocks", or both."""
    return " and ".join(sorted(set(regimes), reverse=True)) + " clocks"


def data_text(kinds: Iterable[str]) -> str:
    """The kinds of input data in the words of a note: "uniform inputs"."""
    return ", ".join(sorted(set(kinds))) + " inputs"


def significant(value: float) -> str:
    """Three digits: 0.498, 9.31, 35.6, 671."""
    return f"{value:.{3 if value < 1 else 2 if value < 9.995 else 1 if value < 99.95 else 0}f}"
