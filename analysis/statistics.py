"""Medians, and bootstrap intervals: the only ones in this project."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

RESAMPLES = 2000
BATCH = 500  # resamples at a time: the median of 300 values over them stays in a processor's cache
LEVEL = 0.95

Statistic = Callable[..., np.ndarray]  # of one array a sample, over their axis `axis`


def interval(
    statistic: Statistic, samples: Sequence[np.ndarray], key: str, level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the percentile-bootstrap interval of `statistic` (Efron and Tibshirani 1993, ch. 13).

    Each sample, of at least two values, is resampled apart. The generator is seeded by `key`: a row's interval depends
    on no other row. Percentiles, not BCa: the jackknife that BCa rests on is degenerate for medians.
    """
    from scipy import stats  # half a second, which not all who read tables need

    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:16]))
    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        batch=BATCH,
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=rng,
    ).confidence_interval
    return found.low, found.high
