"""What a claim's expression may ask about builds, hardware counters, the emulator, bounds and the sweep over tiles."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from analysis import data
from analysis.claims import estimates
from analysis.claims.estimates import Estimate
from analysis.claims.machine_tables import Lookup, Missing, whole
from analysis.tables import autotune, bounds
from contracts import choose, schema

SIDES = {"load": "ld", "store": "st"}


class Counts(Lookup):
    """Functions of counts: none has an interval."""

    def resource(self, v: str, column: str) -> Estimate | str:
        """A column of resources.csv: registers, shared_bytes, occupancy (a fraction), limiter, ffma, lds_128, ..."""
        choose(schema("resources")["properties"], column, "column", "resources.csv")
        rows = self._machine.rows("resources")
        value = self._one("resources", rows[rows["variant"] == self._known(v)], v)[column]
        if not isinstance(value, str) and pd.isna(value):
            raise Missing(f"resources.csv has no {column} of {v}")
        return value if isinstance(value, str) else Estimate.of(float(value))

    def _counted(self, table: str, v: str, name: str, n: Any) -> Estimate:
        by_key = {key: ncu for ncu, key in data.metric_names().items()}
        known = by_key | dict.fromkeys(by_key.values())
        metric = choose(known, name, "counter", "contracts/metrics.yaml") or name
        size = whole(n)
        rows = self._machine.square(table, self._known(v), metric, size)
        row = self._one(table, rows.iloc[::-1], f"{v}, {metric}, at n = {size}")
        return Estimate.of(float(row["value"]) * data.SCALE.get(row["unit"], 1.0))

    def counter(self, v: str, name: str, n: Any = 4096, beta: Any = 0) -> Estimate:
        """A hardware counter, by ncu's name or its key in contracts/metrics.yaml; bytes and ns without prefix."""
        if not (one := Estimate.of(beta).value):
            return self._counted("counters", v, name, n)
        by_key = {key: ncu for ncu, key in data.metric_names().items()}
        metric = choose(by_key | {ncu: ncu for ncu in by_key.values()}, name, "counter", "contracts/metrics.yaml")
        rows = self._machine.rows("counters_with_beta")
        rows = rows[(rows["variant"] == self._known(v)) & (rows["metric"] == metric) & (rows["beta"] == one)]
        rows = rows[(rows[["m", "n", "k"]] == whole(n)).all(axis=1)]
        row = self._one("counters_with_beta", rows, f"{v}, {metric}, at n = {whole(n)} and beta = {one:g}")
        return Estimate.of(float(row["value"]) * data.SCALE.get(row["unit"], 1.0))

    def predicted(self, v: str, name: str, n: Any = 4096) -> Estimate:
        """The same counter as the emulator predicts it."""
        return self._counted("predictions", v, name, n)

    def emulated(self, v: str, name: str, beta: Any, n: Any = 4096) -> Estimate:
        """A counter of another problem, with beta, say, as the emulator counts it on any machine: emulated.csv."""
        by_key = {key: ncu for ncu, key in data.metric_names().items()}
        metric = choose(by_key | {ncu: ncu for ncu in by_key.values()}, name, "counter", "contracts/metrics.yaml")
        choose(self._variants, v, "variant", "kernels/catalogue.yaml")
        asked = (v, whole(n), Estimate.of(beta).value, metric)
        if asked not in self._emulated:
            raise Missing(f"emulated.csv has no row of {v}, {metric}, at n = {whole(n)} and beta = {asked[2]:g}")
        return Estimate.of(self._emulated[asked])

    def bound(self, v: str, resource: str, n: Any = 4096) -> Estimate:
        """Least cycles: fma, fp64, tensor, issue, registers, shared, l1, dram, tail; estimates: l2, issue_model."""
        choose(dict.fromkeys(schema("bounds")["properties"]["resource"]["enum"]), resource, "resource", "bounds.csv")
        rows = self._bounds(v, n)
        asked = f"{v}, {resource}, at n = {whole(n)}"
        self._one("bounds", rows, asked)
        found = rows.loc[rows["resource"] == resource, "cycles_per_sm"]
        if found.empty and resource in bounds.RESOURCES | bounds.ESTIMATES:
            return Estimate.of(0)  # what a kernel does not use has no row
        return Estimate.of(float(self._one("bounds", rows[rows["resource"] == resource], asked)["cycles_per_sm"]))

    def bottleneck(self, v: str, n: Any = 4096) -> str:
        """The resource that needs the most cycles."""
        rows = self._bounds(v, n)
        rows = rows[rows["resource"].isin(bounds.RESOURCES)].sort_values("cycles_per_sm", ascending=False)
        return str(self._one("bounds", rows, f"{v} at n = {whole(n)}")["resource"])

    def _bounds(self, v: str, n: Any) -> pd.DataFrame:
        rows = self._machine.rows("bounds")
        return rows[(rows["variant"] == self._known(v)) & (rows[["m", "n", "k"]] == whole(n)).all(axis=1)]

    def kernel_name(self, v: str, n: Any = 4096) -> str:
        """The function that ran under the profiler, as ncu names it: a text, of a library most of all."""
        rows = self._machine.rows("counters")
        rows = rows[(rows["variant"] == self._known(v)) & (rows[["m", "n", "k"]] == whole(n)).all(axis=1)]
        return str(self._one("counters", rows, f"{v} at n = {whole(n)}")["kernel"])

    def inter_warp_conflicts(
        self,
        kernel: str,
        column: str,
        warps: Any = 8,
        blocks_per_sm: Any = 1,
        source: str | None = None,
        bits: Any = None,
    ) -> Estimate | str:
        """A column of inter_warp_conflicts.csv, of the first row with these values (source and bits: if given)."""
        rows = self._machine.plain("inter_warp_conflicts")
        choose(schema("inter_warp_conflicts")["properties"], column, "column", "inter_warp_conflicts.csv")
        wanted = {"kernel": kernel, "warps": whole(warps), "blocks_per_sm": whole(blocks_per_sm)}
        wanted |= {"source": source} if source is not None else {}
        wanted |= {"bits": whole(bits)} if bits is not None else {}
        for name, value in wanted.items():
            rows = rows[rows[name] == value]
        if rows.empty:
            told = ", ".join(f"{name} = {value}" for name, value in wanted.items())
            raise Missing(f"inter_warp_conflicts.csv has no row of {told}")
        value = rows.iloc[0][column]
        if not isinstance(value, str) and pd.isna(value):
            raise Missing(f"inter_warp_conflicts.csv has no {column} of {kernel}")
        return value if isinstance(value, str) else Estimate.of(float(value))

    def timeline(self, v: str, table: str, name: str, column: str) -> Estimate | str:
        """A cell of timeline.csv: timeline("sgemm_blocktile_2d", "kernel", "sgemm_blocktile_2d", "mean_us")."""
        rows = self._machine.rows("timeline")
        properties = schema("timeline")["properties"]
        choose(properties, column, "column", "timeline.csv")
        choose(dict.fromkeys(properties["table"]["enum"]), table, "table", "timeline.csv")
        rows = rows[(rows["variant"] == self._known(v)) & (rows["table"] == table)]
        exact = rows[rows["name"] == name]
        rows = exact if len(exact) else rows[rows["name"].str.contains(rf"\b{re.escape(name)}\b", regex=True)]
        if len(rows) > 1:
            raise Missing(f"timeline.csv has {len(rows)} rows of {v}, {table}, {name}")
        value = self._one("timeline", rows, f"{v}, {table}, {name}")[column]
        if not isinstance(value, str) and pd.isna(value):
            raise Missing(f"timeline.csv has no {column} of {v}, {table}, {name}")
        return value if isinstance(value, str) else Estimate.of(float(value))

    def bank_wavefronts(self, access: str, pattern: str) -> Estimate:
        """Wavefronts of one access to shared memory, as measured: bank_wavefronts("ld_32", "stride 32")."""
        rows = self._machine.plain("smem_microbench")
        rows = rows[(rows["access"] == access) & (rows["pattern"] == pattern)]
        if rows.empty:
            raise Missing(f"smem_microbench.csv has no row of {access}, {pattern}")
        return Estimate.of(float(rows.iloc[0]["wavefronts"]))

    def bytes_per_sector(self, v: str, side: str, n: Any = 4096) -> Estimate:
        """Bytes used of each 32-byte sector of global loads ("load") or stores ("store")."""
        return self.counter(v, f"global_{_side(side)}_bytes_per_sector", n)

    def sectors_per_request(self, v: str, side: str, n: Any = 4096) -> Estimate:
        """Sectors that a global load or store of a warp touches, on average."""
        name = f"global_{_side(side)}"
        return estimates.divide(self.counter(v, f"{name}_sectors", n), self.counter(v, f"{name}_requests", n))

    def wavefronts(self, v: str, side: str, n: Any = 4096) -> Estimate:
        """Wavefronts of shared-memory loads or stores."""
        return self.counter(v, f"shared_{_side(side)}_wavefronts", n)

    def conflicts(self, v: str, side: str, n: Any = 4096) -> Estimate:
        """Wavefronts of shared-memory loads or stores over those without bank conflicts (1: none), as ncu counts."""
        waves = self.wavefronts(v, side, n)
        return estimates.divide(waves, estimates.subtract(waves, self.counter(v, f"shared_{_side(side)}_conflicts", n)))

    def predicted_conflicts(self, v: str, side: str, n: Any = 4096) -> Estimate:
        """The same by the emulator: conflicts within a warp only, none between warps."""
        names = [f"shared_{_side(side)}_{what}" for what in ("wavefronts", "conflicts")]
        waves, more = (self.predicted(v, name, n) for name in names)
        return estimates.divide(waves, estimates.subtract(waves, more))

    def l1_hit(self, v: str, n: Any = 4096) -> Estimate:
        """L1 hit rate, in percent."""
        return self.counter(v, "l1_hit_rate", n)

    def l2_hit(self, v: str, n: Any = 4096) -> Estimate:
        """L2 hit rate, in percent."""
        return self.counter(v, "l2_hit_rate", n)

    def dram_bytes(self, v: str, n: Any = 4096) -> Estimate:
        """Bytes read from and written to DRAM."""
        return estimates.add(self.counter(v, "dram_read", n), self.counter(v, "dram_write", n))

    def achieved_occupancy(self, v: str, n: Any = 4096) -> Estimate:
        """Active warps over the most that an SM holds, in percent."""
        return self.counter(v, "achieved_occupancy", n)

    def warps_eligible(self, v: str, n: Any = 4096) -> Estimate:
        """Eligible warps per scheduler and active cycle."""
        return self.counter(v, "eligible_warps", n)

    def stall(self, v: str, name: str, n: Any = 4096) -> Estimate:
        """Warps stalled for a reason per issued instruction: stall("sgemm_naive", "long_scoreboard")."""
        return self.counter(v, name if str(name).startswith("stall_") else f"stall_{name}", n)

    def issue_active(self, v: str, n: Any = 4096) -> Estimate:
        """Cycles in which a scheduler issued, in percent."""
        return self.counter(v, "issue_active", n)

    def instructions(self, v: str, n: Any = 4096) -> Estimate:
        """Instructions that warps executed."""
        return self.counter(v, "instructions", n)

    def waves(self, v: str, n: Any = 4096) -> Estimate:
        """Waves of blocks per SM."""
        return self.counter(v, "waves", n)

    # ---- the sweep over tiles -------------------------------------------------------------------------------------

    def _sweep(self, kernel: str) -> autotune.Tuning:
        tuning = self._machine.tuning
        if tuning is None:
            raise Missing("no sweep over tiles: there is no tuning.csv; snakemake tile_autotune makes it")
        choose(autotune.FOLLOWS, kernel, "kernel", "experiments/tuning/tile_autotune.yaml")
        if kernel not in tuning.record["kernels"]:
            raise Missing(f"tuned.json has no {kernel}")
        if tuning.stale(kernel):
            raise Missing(f"stale: the source of {kernel} changed since tuning.csv was made")
        return tuning

    def tuned(self, column: str, kernel: str = "sgemm_autotuned") -> Estimate:
        """A template value of the sweep's winner: BM, BN, BK, TM, TN (of sgemm_warptile also WM, WN, WNITER)."""
        values = self._sweep(kernel).record["kernels"][kernel]["template"]
        return Estimate.of(choose(values, column, "tile parameter", "tuned.json"))

    def tile_share(self, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate:
        """The best share of cuBLAS (a fraction) among the swept tiles with these parameters: BM, BN, ..., threads."""
        return Estimate.of(float(self._tiles(kernel, n, tile)["share_of_cublas"].astype(float).max()))

    def tile_tflops(self, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate:
        """The best TFLOP/s among the swept tiles with these parameters."""
        return Estimate.of(float(self._tiles(kernel, n, tile)["tflops"].astype(float).max()))

    def tile(self, column: str, kernel: str = "sgemm_autotuned", n: Any = 4096, **tile: Any) -> Estimate | str:
        """A column of tuning.csv (registers, occupancy, shared_bytes, BK, ...) of the fastest such tile."""
        choose(schema("tuning")["properties"], column, "column", "tuning.csv")
        value = self._tiles(kernel, n, tile).iloc[0][column]
        return value if isinstance(value, str) else Estimate.of(float(value))

    def _tiles(self, kernel: str, n: Any, tile: dict[str, Any]) -> pd.DataFrame:
        rows = self._sweep(kernel).of(kernel)
        rows = rows[rows["size"].astype(float) == whole(n)]
        for name, value in tile.items():
            choose(dict.fromkeys(autotune.PARAMETERS), name, "tile parameter", "tuning.csv")
            rows = rows[rows[name].astype(float) == float(Estimate.of(value).value)]
        if rows.empty:
            told = ", ".join(f"{name} = {value}" for name, value in [("n", n), *tile.items()])
            raise Missing(f"tuning.csv has no timed tile of {kernel} with {told}")
        return rows

    def tile_count(self, valid: bool | None = None, kernel: str = "sgemm_autotuned") -> Estimate:
        """How many configurations the sweep had; with valid=True those that can be built, with valid=False the rest."""
        tuning = self._sweep(kernel)
        rows = tuning.rows[tuning.rows["kernel"] == kernel]
        if valid is not None:
            rows = rows[rows["valid"].astype(bool) == valid]
        return Estimate.of(len(rows))


def _side(side: Any) -> str:
    choose(SIDES, side, "side", "the expression")
    return str(side)
