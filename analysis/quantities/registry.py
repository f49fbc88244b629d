"""The registry of quantities: how a number is called, which table it comes from, and which interval and noise it has.

To add a quantity, add its line to `_own`. Counters of contracts/metrics.yaml, the columns that `analysis.metrics`
derives from them, and the resources of a build are quantities without a line here.

Intervals: those of times and shares cover fresh processes and cards (`analysis.statistics.covering`), and rates have
the interval of their time; the SM clock has the 5th to 95th percentile over samples; watts and work per joule have the
range over all windows of a variant at a size. Counters, resources and temperatures are single readings and count as
exact.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.data import metrics
from analysis.metrics import COMPARISON, DERIVED
from analysis.quantities import estimates
from analysis.quantities.estimates import Estimate
from analysis.statistics import IN_TURNS, SHARE, TIME
from contracts import schema
from contracts.dtypes import Types

Reading = Any  # analysis.quantities.machine.Reading, which imports this module
Value = Estimate | str | tuple[int, ...]


class Noise(enum.IntEnum):
    """What a value rests on, the least noisy first."""

    PAPER = 0
    COMPILER = 1
    EMULATOR = 2
    COUNTER = 3
    TIME = 4  # of bench.csv, whose intervals cover fresh processes and leases
    ONCE = 5  # a time of one process
    POWER = 6

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Source:
    """A table. `noise`: that of its values; `anywhere`: whether they are the same on every machine; `selectors`: what
    picks a row of it besides the variant."""

    noise: Noise
    selectors: tuple[str, ...] = ("n",)
    anywhere: bool = False


TIMED = ("n", "data", "experiment", "regime")
SOURCES = {
    "bench": Source(Noise.TIME, TIMED),
    "counters": Source(Noise.COUNTER, ("n", "beta", "device")),
    "counters_with_beta": Source(Noise.COUNTER, ("n", "beta")),
    "predictions": Source(Noise.EMULATOR),
    "emulated": Source(Noise.EMULATOR, ("n", "beta"), anywhere=True),
    "resources": Source(Noise.COMPILER, ("arch",)),
    "compiled": Source(Noise.COMPILER, ("arch",), anywhere=True),
    "bounds": Source(Noise.EMULATOR),
    "checks": Source(Noise.COUNTER, ("device",)),
    "sanitizer": Source(Noise.COUNTER, ("tool",)),
    "timing_methods": Source(Noise.ONCE),
    "error_over_k": Source(Noise.COUNTER),
    "dispatch": Source(Noise.ONCE),
    "variants": Source(Noise.PAPER, (), anywhere=True),
    # tables that only functions of the claims read
    "tuning": Source(Noise.ONCE),
    "timeline": Source(Noise.ONCE),
    "machine": Source(Noise.ONCE),
    "smem_microbench": Source(Noise.COUNTER),
    "inter_warp_conflicts": Source(Noise.COUNTER),
    "published": Source(Noise.PAPER, anywhere=True),
    "analytic": Source(Noise.PAPER, anywhere=True),
}
MEASURED_BY = {  # sources that a selector exchanges for another: the emulator's counters, a build for another GPU
    ("counters", "device"): "predictions",
    ("counters", "beta"): "counters_with_beta",
    ("predictions", "beta"): "emulated",
    ("resources", "arch"): "compiled",
}


@dataclass(frozen=True)
class Quantity:
    """A number, or a text, of a variant.

    source: its table, a key of `SOURCES`. column, low, high: the columns of the value and of its interval (default: the
    key, exact). value: a function of a `Reading` in place of these columns. shown_times: the factor to its unit (100
    for a fraction in percent). better: 1 where more is better, -1 where less is, 0 where neither. selectors: further
    ones, all needed. over_sizes: whether it is made of rows of several sizes.
    """

    key: str
    label: str
    unit: str
    source: str
    column: str = ""
    low: str = ""
    high: str = ""
    value: Callable[[Reading], Value] | None = None
    shown_times: int = 1
    better: int = 0
    noise: Noise | None = None
    selectors: tuple[str, ...] = ()
    over_sizes: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """The selectors that it takes."""
        source = SOURCES[self.source]
        return tuple(dict.fromkeys((*source.selectors, *self.selectors, *(() if source.anywhere else ("machine",)))))

    def read_from(self, selectors: set[str]) -> str:
        """The table that a reference with these selectors reads."""
        found = self.source
        for name in ("device", "beta", "arch"):
            found = MEASURED_BY.get((found, name), found) if name in selectors else found
        return found

    def noise_of(self, source: str) -> Noise:
        return SOURCES[source].noise if self.noise is None else self.noise


def _tflops(of: Reading) -> Value:
    return estimates.divide(2e-6 * of.asked.n**3, of.get("time_us"))


def _speedup(of: Reading) -> Value:
    """The ratio of two shares of one baseline, or of the times, from rows of one experiment if there is one.

    Of shares in turns where both rows have them: cards and processes repeat them within 1%, which they do not for the
    clock of a kernel alone where power binds (docs/numbers.md).
    """
    pair = one, other = of.pair()
    if one["baseline"] == other["baseline"]:
        ends = IN_TURNS if all(pd.notna(row[IN_TURNS[0]]) for row in pair) else SHARE
        return estimates.divide(*(Estimate(*(row[end] for end in ends)) for row in pair))
    return estimates.divide(*(Estimate(*(row[end] for end in TIME)) for row in (other, one)))


def _peak_share(of: Reading) -> Value:
    return estimates.divide(of.get("flop_per_clock_sm"), of.ceiling(Types.named(of.row["dtype"]).ab.ceilings))


def _clock(of: Reading) -> Value:
    value, *ends = (float(of.row[f"sm_clock_{part}mhz"]) for part in ("", "min_", "max_"))
    return Estimate(value, min(value, *ends), max(value, *ends))


def _ratio(part: str, whole: str) -> Callable[[Reading], Value]:
    return lambda of: estimates.divide(of.get(part), of.get(whole))


def _conflicts(side: str) -> Callable[[Reading], Value]:
    def factor(of: Reading) -> Value:
        waves = of.get(f"shared_{side}_wavefronts")
        return estimates.divide(waves, estimates.subtract(waves, of.get(f"shared_{side}_conflicts")))

    return factor


def _own() -> list[Quantity]:
    return [
        Quantity("tflops", "Speed", "TFLOP/s", "bench", "tflops", "tflops_low", "tflops_high", _tflops, better=1),
        Quantity("share", "Share of cuBLAS", "%", "bench", *SHARE,
                 shown_times=100, better=1),  # of which kind, `share_kind` says
        Quantity("share_kind", "What the share of cuBLAS is of: each alone, or in turns", "", "bench"),
        Quantity("share_in_turns", "Share of cuBLAS, in turns with it", "%", "bench", *IN_TURNS,
                 shown_times=100, better=1),
        Quantity("share_alone", "Share of cuBLAS in windows of each alone", "%", "bench", shown_times=100, better=1),
        Quantity("share_per_clock", "Share of cuBLAS per clock", "%", "bench", shown_times=100, better=1),
        Quantity("flop_per_clock_sm", "Work per clock", "FLOP/clock/SM", "bench", "flop_per_clock_sm",
                 "flop_per_clock_ci_low", "flop_per_clock_ci_high", better=1),
        Quantity("gflop_per_j", "Work per joule", "GFLOP/J", "bench", "gflop_per_j", "gflop_per_j_ci_low",
                 "gflop_per_j_ci_high", lambda of: of.windows(), better=1, noise=Noise.POWER),
        Quantity("time_us", "Time", "µs", "bench", *TIME, better=-1),
        Quantity("power_w", "Power", "W", "bench", "power_w", "power_w_ci_low", "power_w_ci_high",
                 lambda of: of.windows(), noise=Noise.POWER),
        Quantity("temperature_c", "GPU temperature at the end of the window", "°C", "bench", noise=Noise.POWER),
        Quantity("throttle_reasons", "NVML's reasons for the clock, joined by +", "", "bench", noise=Noise.POWER),
        Quantity("sm_clock_mhz", "SM clock", "MHz", "bench", value=_clock),
        Quantity("peak_share", "Share of the measured ceiling of the arithmetic", "", "bench", value=_peak_share),
        Quantity("speedup", "Times as fast as the variant `over`", "", "bench", value=_speedup, selectors=("over",)),
        Quantity("sizes", "The sizes at which it was timed", "", "bench", value=lambda of: of.sizes(),
                 over_sizes=True),
        Quantity("crossover", "Smallest size from which on it stays faster than `over`; infinite if none", "",
                 "bench", value=lambda of: of.crossover(), selectors=("over",), over_sizes=True),
        Quantity("protocol_us", "Time that a way of timing reports", "µs", "timing_methods", "time_us",
                 selectors=("protocol",)),
        Quantity("gap", "Time that a way of timing reports over ours", "", "timing_methods",
                 value=lambda of: estimates.divide(of.get("protocol_us"), of.get("protocol_us", protocol="ours")),
                 selectors=("protocol",)),
        Quantity("global_load_sectors_per_request", "Sectors of a global load of a warp", "", "counters",
                 value=_ratio("global_load_sectors", "global_load_requests")),
        Quantity("global_store_sectors_per_request", "Sectors of a global store of a warp", "", "counters",
                 value=_ratio("global_store_sectors", "global_store_requests")),
        *(Quantity(f"shared_{side}_conflict_factor", f"Wavefronts of shared {side}s over those without conflicts",
                   "", "counters", value=_conflicts(side)) for side in ("load", "store")),
        Quantity("dram_bytes", "Bytes read from and written to DRAM", "byte", "counters",
                 value=lambda of: estimates.add(of.get("dram_read"), of.get("dram_write"))),
        Quantity("kernel", "The function that ran, as ncu names it", "", "counters"),
        Quantity("bottleneck", "The resource that needs the most cycles", "", "bounds"),
        Quantity("check_worst", "Largest error as a fraction of its rounding bound", "", "checks"),
        Quantity("sanitizer_errors", "Errors that a tool of compute-sanitizer found", "", "sanitizer"),
        Quantity("registers", "Registers per thread", "", "resources", better=-1),
        Quantity("shared_bytes", "Shared memory per block", "byte", "resources"),
        Quantity("spill_bytes", "Spills per thread", "byte", "resources", better=-1),
        Quantity("threads", "Threads per block", "", "resources"),
        Quantity("blocks_per_sm", "Blocks per SM", "", "resources", better=1),
        Quantity("occupancy", "Theoretical occupancy, a fraction", "", "resources", better=1),
        Quantity("sass_total", "Instructions in the SASS", "", "resources"),
        Quantity("stack_bytes", "Stack per thread", "byte", "resources"),
        Quantity("limiter", "What limits the occupancy", "", "resources"),
        Quantity("swept_share", "Share of cuBLAS, in the sweep for a dispatcher", "%", "dispatch", "share"),
        Quantity("template", "Template", "", "variants"),
    ]  # fmt: skip


ERROR_DATA = ("uniform", "normal", "positive", "wide")


@functools.cache
def quantities() -> dict[str, Quantity]:
    """Every quantity, by key. Where the resources of a build and a counter share a name, it means the resource."""
    found: dict[str, Quantity] = {}
    for section, entries in metrics().items():
        for key, entry in entries.items():
            unit = "%" if ".pct" in entry["ncu"] or entry["ncu"].endswith("_pct") else ""
            label = entry["label"]
            if section == "stalls":
                reason = label if label[:2].isupper() else label[0].lower() + label[1:]
                label, unit = f"Stalled: {reason}", "cycles an instruction"
            # a launch's blocks over what the SMs hold at once: no launch differs
            noise = Noise.EMULATOR if key == "waves" else None
            found[key] = Quantity(key, label, unit, "counters", entry["ncu"], noise=noise)
    shown = {one.key: one for section in COMPARISON.values() for one in section}
    for key in DERIVED:
        one = shown.get(key)
        label = one.label if one else key.replace("_", " ").capitalize()
        found[key] = Quantity(key, label, one.unit if one else "%", "counters")
    for column in schema("resources")["properties"]:
        if re.fullmatch(r"(lds|sts|ldg|stg)_\d+|ffma|hmma|ldgsts|ldsm|bar|tex", column):
            found[column] = Quantity(column, f"{column.upper().replace('_', '.')} in the SASS", "", "resources")
    for name in schema("bounds")["properties"]["resource"]["enum"]:
        found[f"bound_{name}"] = Quantity(f"bound_{name}", f"Least cycles: {name}", "cycles", "bounds", name)
    for data in ERROR_DATA:
        for key, label in (("rms", "RMS error"), ("worst", "Worst error")):
            name = f"error_{key}_{data}"
            found[name] = Quantity(name, f"{label}, {data} data", "2⁻²⁴ |A||B|", "error_over_k")
    return found | {one.key: one for one in _own()}
