"""Medians with bootstrap intervals."""

from __future__ import annotations

import numpy as np

RESAMPLES = 2000
SEED = 20


def median_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Median and its percentile-bootstrap interval (Efron and Tibshirani 1993, ch. 13); repeatable."""
    draws = _indices(len(values), len(values))
    return _interval(float(np.median(values)), np.median(values[draws], axis=1), level)


def ratio_interval(above: np.ndarray, below: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Median of `above` over median of `below`, and its interval; the two are resampled apart."""
    one = np.median(above[_indices(len(above), len(above))], axis=1)
    other = np.median(below[_indices(len(below), len(below), SEED + 1)], axis=1)
    return _interval(float(np.median(above) / np.median(below)), one / other, level)


def second_half_mean(values: np.ndarray) -> float:
    """Worklog C's figure: the mean of the second half of the replays."""
    return float(np.mean(values[len(values) // 2 :]))


def _indices(size: int, count: int, seed: int = SEED) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, (RESAMPLES, count))


def _interval(estimate: float, draws: np.ndarray, level: float) -> tuple[float, float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return estimate, float(low), float(high)
