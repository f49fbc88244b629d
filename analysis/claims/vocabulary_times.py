"""What a claim's expression may ask about time, clock and power: functions over bench.csv and timing_methods.csv."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.claims import estimates
from analysis.claims.estimates import Estimate, Truth
from analysis.claims.machine_tables import Lookup, Missing, whole
from contracts import UserError, choose
from contracts.dtypes import dtypes


class Times(Lookup):
    """Functions of a launch's time, of ways to take it, and of what it does over variants and sizes."""

    def time_us(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """Median time of a launch, in microseconds."""
        row = self._bench(v, n, data, experiment, regime)
        return Estimate(row["time_us_median"], row["time_us_ci_low"], row["time_us_ci_high"])

    def tflops(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """2 n^3 over the time, in TFLOP/s."""
        return estimates.divide(2e-6 * whole(n) ** 3, self.time_us(v, n, data, experiment, regime))

    def share(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """Speed as a fraction of the cuBLAS baseline's, timed alternating in the same process (1 is as fast)."""
        return _share(self._bench(v, n, data, experiment, regime))

    def speedup(
        self,
        v: str,
        over: str,
        n: Any = 4096,
        data: str = "uniform",
        experiment: str | None = None,
        regime: str = "unlocked",
    ) -> Estimate:
        """How many times as fast as `over`: ratio of their shares of one baseline, else of their times."""
        one, other = self._pair(v, over, n, data, experiment, regime)
        if one["baseline"] == other["baseline"]:
            return estimates.divide(_share(one), _share(other))
        times = [Estimate(r["time_us_median"], r["time_us_ci_low"], r["time_us_ci_high"]) for r in (one, other)]
        return estimates.divide(times[1], times[0])

    def flop_per_clock(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """FLOP per clock and SM."""
        row = self._bench(v, n, data, experiment, regime)
        time = Estimate(row["time_us_median"], row["time_us_ci_low"], row["time_us_ci_high"])
        return estimates.multiply(row["flop_per_clock_sm"], estimates.divide(row["time_us_median"], time))

    def peak_share(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """FLOP per clock and SM as a fraction of the measured ceiling of its arithmetic (FMA, or best tensor)."""
        row = self._bench(v, n, data, experiment, regime)
        measured = self._machine.measured.machine["ceilings"]
        found = [measured[key] for key in dtypes()[row["dtype"]].ceilings if key in measured]
        if not found:
            raise Missing(f"machine.json has no measured ceiling of {row['dtype']} arithmetic")
        return estimates.divide(self.flop_per_clock(v, n, data, experiment, regime), max(found))

    def sm_clock(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """SM clock during the samples, in MHz."""
        row = self._bench(v, n, data, experiment, regime)
        clock = [float(row[f"sm_clock_{part}mhz"]) for part in ("", "min_", "max_")]
        return Estimate(clock[0], min(clock), max(clock))

    def power_w(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """Watts over a window of this variant alone; its interval: from the least to the most of such windows."""
        return self._of_windows("power_w", v, n, data, experiment, regime)

    def gflop_per_j(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """GFLOP per joule; its interval: from the least to the most of such windows."""
        return self._of_windows("gflop_per_j", v, n, data, experiment, regime)

    def temperature_c(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """GPU temperature at the end of the window, in degrees Celsius."""
        return self._reading("temperature_c", v, n, data, experiment, regime)

    def throttle_reasons(
        self, v: str, n: Any = 4096, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> str:
        """NVML's clock event reasons seen in the window, joined by +: a text, "none" where there was none."""
        return str(self._bench(v, n, data, experiment, regime)["throttle_reasons"])

    # ---- ways of timing -------------------------------------------------------------------------------------------

    def protocol_us(self, v: str, protocol: str, n: Any = 4096) -> Estimate:
        """What a way of timing reports for a launch: ours, worklog_c, host_clock, no_flush, launch_gap, zeros, ..."""
        rows = self._machine.rows("timing_methods")
        rows = rows[(rows["variant"] == self._known(v)) & (rows["n"] == whole(n)) & (rows["protocol"] == protocol)]
        return Estimate.of(float(self._one("timing_methods", rows, f"{v}, {protocol}, at n = {whole(n)}")["time_us"]))

    def gap(self, v: str, protocol: str, n: Any = 4096) -> Estimate:
        """The time that a way of timing reports over ours."""
        return estimates.divide(self.protocol_us(v, protocol, n), self.protocol_us(v, "ours", n))

    # ---- over variants and sizes ----------------------------------------------------------------------------------

    def fastest(
        self,
        n: Any,
        *variants: str,
        per: str = "time",
        data: str = "uniform",
        experiment: str | None = None,
        regime: str = "unlocked",
    ) -> str:
        """The variant that does most per "time", "clock" or "joule"; two whose intervals meet come as "a or b"."""
        choose(dict.fromkeys(("time", "clock", "joule")), per, "per", "fastest")
        if len(variants) < 2:
            raise UserError("fastest needs at least two variants")
        query = (data, experiment, regime)
        baselines = {self._bench(name, n, *query)["baseline"] for name in variants}
        speed = self.share if len(baselines) == 1 else self.tflops
        of = {"time": speed, "clock": self.flop_per_clock, "joule": self.gflop_per_j}[per]
        found = {name: of(name, n, *query) for name in variants}
        best = max(found.values(), key=lambda estimate: estimate.value)
        ranked = sorted(found, key=lambda name: -found[name].value)
        return " or ".join(name for name in ranked if found[name] is best or found[name].high >= best.low)

    def sizes(
        self, v: str, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> tuple[int, ...]:
        """The sizes at which a variant was timed."""
        self._known(v)
        rows = self._machine.rows("bench")
        rows = rows[(rows["variant"] == v) & (rows["data"] == data) & (rows["regime"] == regime)]
        if experiment is not None:
            choose(self._experiments, experiment, "experiment", "experiments/")
            rows = rows[rows["experiment"] == experiment]
        self._one("bench", rows, f"{v}, {regime}, {data}")
        return tuple(sorted(int(n) for n in set(rows["n"])))

    def crossover(
        self, a: str, b: str, data: str = "uniform", experiment: str | None = None, regime: str = "unlocked"
    ) -> Estimate:
        """The smallest measured size from which on `a` stays faster than `b` at every larger one; infinite if none."""
        query = (data, experiment, regime)
        common = sorted(set(self.sizes(a, *query)) & set(self.sizes(b, *query)))
        if len(common) < 2:
            raise Missing(f"bench.csv has fewer than two sizes of both {a} and {b}, {regime}, {data}")
        gains = [self.speedup(a, b, n, *query) for n in common]

        def start(end: str) -> float:
            stays = float("inf")
            for n, gain in zip(reversed(common), reversed(gains), strict=True):
                if getattr(gain, end) <= 1:
                    break
                stays = n
            return stays

        return Estimate(start("value"), start("high"), start("low"))

    def min_over(self, f: Any, sizes: Any) -> Estimate:
        """The smallest f(n): min_over(lambda n: share("sgemm_warptile", n), sizes("sgemm_warptile"))."""
        return estimates.least(self._each(f, sizes))

    def max_over(self, f: Any, sizes: Any) -> Estimate:
        """The largest f(n)."""
        return estimates.greatest(self._each(f, sizes))

    def mean_over(self, f: Any, sizes: Any) -> Estimate:
        """The mean of f(n); its interval is from the mean of the lower ends to that of the upper ones."""
        found = self._each(f, sizes)
        return estimates.divide(estimates.total(found), len(found))

    def count_over(self, f: Any, sizes: Any) -> Estimate:
        """At how many sizes a comparison is true: count_over(lambda n: share("sgemm_warptile", n) > 1, sizes(...))."""
        found = self._each(f, sizes)
        if not all(isinstance(one, Truth) for one in found):
            raise UserError("count_over takes a lambda that compares")
        return Estimate.of(sum(one.holds is True for one in found))

    def spread(self, f: Any, sizes: Any) -> Estimate:
        """The largest f(n) over the smallest (1: the same at all sizes)."""
        found = self._each(f, sizes)
        return estimates.divide(estimates.greatest(found), estimates.least(found))

    @staticmethod
    def _each(f: Any, sizes: Any) -> list[Any]:
        if not callable(f) or not isinstance(sizes, (tuple, list)) or not sizes:
            raise UserError("expected a lambda of n, and sizes")
        return [f(n) for n in sizes]


def _share(row: pd.Series) -> Estimate:
    return Estimate(row["share_of_baseline"], row["share_ci_low"], row["share_ci_high"])
