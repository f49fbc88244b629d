"""Intervals: by bootstrap, of samples; and of repetitions, in fresh processes and on other cards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from contracts import interval_columns
from contracts.samples import SHORT_US

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


# ---- how far a repetition lands from the one before -----------------------------------------------------------------

REPEATED = ["variant", "m", "n", "k", "alpha", "beta", "regime", "data"]  # what rows of one measurement share
SHARE, IN_TURNS, TIME = (
    interval_columns("bench", column) for column in ("share_of_baseline", "share_in_turns", "time_us_median")
)
TIMED = {  # columns of bench.csv whose intervals cover repetitions: value, low, high
    "share": SHARE,
    "share_in_turns": IN_TURNS,
    "time": TIME,
    "per_clock": ("flop_per_clock_sm", "flop_per_clock_ci_low", "flop_per_clock_ci_high"),  # added by `covering`
}
UNKNOWN = 0.005  # the noise where an archive repeats too little: shares of three cards of one model differ by 0.45%
REGIMES = ("fp32, power", "power", "short", "steady")
LEAST_REPEATS = 8  # degrees of freedom, below which a standard deviation is not believed
RANGE = {2: 1.128, 3: 1.693, 4: 2.059, 5: 2.326, 6: 2.534, 7: 2.704, 8: 2.847}  # of so many normal values, in sigmas
LIMIT = 1.96  # standard deviations to either side: 95%


def regimes(bench: pd.DataFrame) -> pd.Series:
    """The regime of each row's noise, one of `REGIMES`: "power" where the power cap held the clock ("fp32, power": with
    fp32 data), "short" where a run takes less than `SHORT_US`, else "steady"."""
    power = bench["throttle_reasons"].astype(str).str.contains("power_cap")
    short = bench["time_us_median"].astype(float) < SHORT_US
    return pd.Series(
        np.select([power & (bench["dtype"] == "fp32"), power, short], REGIMES[:-1], REGIMES[-1]), bench.index
    )


def noise(bench: pd.DataFrame, leases: pd.DataFrame | None = None) -> pd.DataFrame:
    """How far repetitions of a measurement lie apart on this machine: one row for each regime and key of `TIMED`.

    Columns: regime, quantity, repeats (degrees of freedom), half_width: relative, of a 95% interval. It comes from rows
    that several experiments measured, each in its own process, from the range over the processes of a row, and from
    `leases` (rows of lease_medians.csv): what cards differ by comes on top.
    """
    rows = bench.assign(noise_regime=regimes(bench)).reindex(
        columns=[*bench, "noise_regime", *({end for _, *ends in TIMED.values() for end in ends} - set(bench))]
    )
    keys = [key for key in REPEATED if key in rows]
    of_leases = between_leases(bench, leases)
    found = []
    for quantity, (value, low, high) in TIMED.items():
        for regime in REGIMES:
            own = rows[(rows["noise_regime"] == regime) & rows[value].notna()]
            squares, freedom = _of_processes(own, value, low, high)
            logs = own.drop_duplicates([*keys, value])[value].astype(float).map(np.log)
            groups = logs.groupby([own.loc[logs.index, key] for key in keys], observed=True)
            freedom += int((groups.size() - 1).sum())
            squares += float(((logs - groups.transform("mean")) ** 2).sum())
            half = UNKNOWN if freedom < LEAST_REPEATS else LIMIT * float(np.sqrt(squares / freedom))
            half = float(np.hypot(half, of_leases.get(regime, 0.0)))
            found.append({"regime": regime, "quantity": quantity, "repeats": freedom, "half_width": half})
    return pd.DataFrame(found)


def covering(bench: pd.DataFrame, leases: pd.DataFrame | None = None) -> pd.DataFrame:
    """The rows with intervals that cover fresh processes and leases: those of a single process are as wide at least
    as the machine's noise in their regime, those of several, whose intervals are of processes, as cards differ.
    """
    if bench.empty:
        return bench
    known = noise(bench, leases).set_index(["regime", "quantity"])["half_width"]
    own = regimes(bench)
    of_leases = own.map(between_leases(bench, leases)).astype(float).fillna(0.0)
    several = bench["processes"].fillna(1).astype(int) >= max(2, PROCESSES)
    for quantity, (value, low, high) in TIMED.items():
        half = own.map(known.xs(quantity, level="quantity")).where(~several, of_leases)
        middle = bench[value].astype(float)
        bench = bench.assign(
            **{
                low: np.fmin(bench[low].astype(float) if low in bench else middle, middle * (1 - half)),
                high: np.fmax(bench[high].astype(float) if high in bench else middle, middle * (1 + half)),
            }
        )
    return bench


PROCESSES = 5  # whose least and greatest median are a 94% interval by themselves


def _of_processes(rows: pd.DataFrame, value: str, low: str, high: str) -> tuple[float, int]:
    """The sum of squares, and the degrees of freedom, of the ranges over the processes of rows."""
    rows = rows[(rows["processes"].fillna(1).astype(int) >= 2) & rows[low].notna()].drop_duplicates([value, low, high])
    count = rows["processes"].astype(int).clip(upper=max(RANGE))
    sigma = (rows[high] - rows[low]).astype(float) / rows[value].astype(float) / count.map(RANGE)
    return float((sigma**2 * (count - 1)).sum()), int((count - 1).sum())


def between_leases(bench: pd.DataFrame, leases: pd.DataFrame | None) -> dict[str, float]:
    """Half the width of a 95% interval of a share from card to card, relative, by regime, where two cards measured
    enough alike. `leases`: rows of lease_medians.csv."""
    if leases is None or leases.empty:
        return {}
    keys = ["variant", "m", "n", "k", "regime", "data"]
    regime = bench.assign(noise_regime=regimes(bench)).drop_duplicates(keys)[[*keys, "noise_regime"]]
    rows = leases.merge(regime, on=keys)
    logs = (rows["baseline_time_us_median"].astype(float) / rows["time_us_median"].astype(float)).map(np.log)
    groups = logs.groupby([rows[key] for key in keys], observed=True)
    squares, freedom = (logs - groups.transform("mean")) ** 2, 1 - 1 / groups.transform("size")
    of = {str(name): part for name, part in rows.groupby("noise_regime").groups.items()}
    return {
        name: LIMIT * float(np.sqrt(squares[part].sum() / freedom[part].sum()))
        for name, part in of.items()
        if freedom[part].sum() >= 1
    }
