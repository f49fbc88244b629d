"""A small machine whose tables hold round numbers, for tests of claims."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import yaml
from helpers import ARCHIVE, ROOT

from analysis.claims import verdicts
from analysis.claims.files import Paper
from analysis.inputs import Inputs
from analysis.quantities.machine import Machine
from analysis.statistics import SHARE, TIME
from contracts import read_rows, registry, schema, write_json, write_rows

TIMES = {  # variant, n: time in us (its interval is 1% to each side), share (2%), SM clock in MHz
    ("sgemm_naive", 4096): (1000.0, 0.1, 1900.0),
    ("sgemm_warptile", 1024): (40.0, 0.5, 1980.0),
    ("sgemm_warptile", 2048): (60.0, 1.5, 1980.0),
    ("sgemm_warptile", 4096): (125.0, 0.8, 1950.0),
    ("sgemm_vectorized", 1024): (30.0, 0.6, 1980.0),
    ("sgemm_vectorized", 2048): (70.0, 1.2, 1980.0),
    ("sgemm_vectorized", 4096): (200.0, 0.5, 1970.0),
    ("hgemm_naive_bf16", 4096): (50.0, 0.2, 1700.0),
}


def estimate(columns: tuple[str, str, str], value: float, half_width: float = 0.0) -> dict[str, float]:
    """An estimate and its interval, so wide as a part of it, in these columns: value, low, high."""
    return dict(zip(columns, (value, value * (1 - half_width), value * (1 + half_width)), strict=True))


def planted_bench() -> list[dict[str, Any]]:
    found = []
    for (variant, n), (time, share, clock) in TIMES.items():
        half = variant.startswith("hgemm")
        row = {
            "experiment": "sgemm_ladder", "variant": variant, "dtype": "bf16" if half else "fp32",
            "m": n, "n": n, "k": n,
            "regime": "unlocked", "mechanism": "as found", "data": "uniform",
            "baseline": "cublas_bf16" if half else "cublas_fp32",
            **estimate(TIME, time, 0.01), **estimate(SHARE, share, 0.02), "tflops": 2e-6 * n**3 / time,
            "flop_per_clock_sm": 100.0, "sm_clock_mhz": clock, "sm_clock_min_mhz": clock - 10,
            "sm_clock_max_mhz": clock + 5, "power_w": 500.0, "gflop_per_j": time, "temperature_c": 50.0,
            "throttle_reasons": "none", "samples": 100, "rejected": 0,
        }  # fmt: skip
        found.append(row)
    slow = found[0] | {"experiment": "occupancy", "samples": 10} | estimate(TIME, 9e3)
    return [*found, slow]


@functools.cache
def _metrics() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "contracts" / "metrics.yaml").read_text())
    return found


class Planted:
    """A small machine in a folder of its own, by whose catalogue nothing is stale."""

    def __init__(self, folder: Path, variants: Path) -> None:
        self.folder, self.variants = folder / "planted", variants
        self.hashes = {row["variant"]: row["source_hash"] for row in read_rows(variants, "variants")}
        self.write("bench", planted_bench())
        self.write(
            "checks",
            [
                self.check("sgemm_naive", 0.25),
                self.check("sgemm_naive", 0.5) | {"case": "y"},
                self.check("sgemm_warptile", 0),
            ],
        )
        counters = {
            "global_load_bytes_per_sector": 4.5, "global_load_sectors": 320.0, "global_load_requests": 10.0,
            "shared_load_wavefronts": 30.0, "shared_load_conflicts": 10.0, "shared_store_wavefronts": 8.0,
            "shared_store_conflicts": 0.0, "dram_read": 3.0, "dram_write": 1.5, "l1_hit_rate": 40.0,
            "l2_hit_rate": 90.0, "stall_barrier": 0.25, "instructions": 1e6, "waves": 1.5,
            "achieved_occupancy": 24.0, "eligible_warps": 0.7, "issue_active": 61.0,
        }  # fmt: skip
        self.write("counters", [self.counter(key, value) for key, value in counters.items()])
        self.write("predictions", [self.counter("shared_load_wavefronts", 29.0)], "counters")
        bounds = {"fma": 5.0, "issue": 7.0, "tail": 9.0}
        common = {"m": 4096, "n": 4096, "k": 4096, "variant": "sgemm_naive"}
        rest = {"machine": "x", "amount": 1, "unit": "x", "disagreement": 0}
        self.write("bounds", [common | rest | {"resource": r, "cycles_per_sm": c} for r, c in bounds.items()])
        ways = {"ours": 100.0, "no_flush": 90.0}
        rest = {"description": "x", "replays": 10}
        if "timing_methods" in registry.tables():  # of a side study: gone with its folder
            self.write("timing_methods", [common | rest | {"protocol": p, "time_us": us} for p, us in ways.items()])
        resources = {name: 0 for name in schema("resources")["properties"] if name != "source_hash"} | {
            "variant": "sgemm_naive", "arch": "sm_90a", "compiler": "x", "registers": 32, "threads": 1024,
            "occupancy": 0.5, "limiter": "registers", "ffma": 30,
        }  # fmt: skip
        self.write("resources", [resources])
        ceilings = {"fp32_fma_flop_per_clock_sm": 200.0, "fp32_fma_tflops": 60.0, "dram_copy_gb_per_s": 1000.0}
        ceilings |= {"bf16_mma_flop_per_clock_sm": 500.0, "bf16_wgmma_flop_per_clock_sm": 1000.0}
        self.document("machine", {"sm_count": 132, "ceilings": ceilings})
        self.document("provenance", {"left_out": {"locked": "not asked for", "sanitizer": "no tool there"}})

    def document(self, name: str, changes: dict[str, Any]) -> None:
        base = json.loads((ARCHIVE / f"{name}.json").read_text())
        self.folder.mkdir(exist_ok=True)
        write_json(self.folder / f"{name}.json", name, base | {"machine": "planted", "gpu": "Planted GPU"} | changes)

    def write(self, name: str, rows: list[dict[str, Any]], kind: str | None = None) -> None:
        rows = [{"source_hash": self.hashes[row["variant"]]} | row for row in rows]
        write_rows(self.folder / f"{name}.csv", kind or name, rows)

    def check(self, variant: str, share: float, passed: bool = True) -> dict[str, Any]:
        sizes = dict.fromkeys(("m", "n", "k", "lda", "ldb", "ldc"), 64)
        how = {"alpha": 1, "beta": 0, "seed": 1, "device": "gpu", "case": "x", "detail": ""}
        return {"variant": variant, "worst_error_share": share, "passed": passed} | sizes | how

    def counter(self, key: str, value: float) -> dict[str, Any]:
        ncu = next(section[key]["ncu"] for section in _metrics().values() if key in section)
        unit = "Kbyte" if key.startswith("dram") else ""
        size = {"m": 4096, "n": 4096, "k": 4096}
        return {"variant": "sgemm_naive", "metric": ncu, "value": value, "unit": unit, "kernel": "naive_kernel"} | size

    def machine(self, **tables: Any) -> Machine:
        return Machine(Inputs.of_folder(self.folder, self.variants, archived=True), **tables)

    def ask(self, **tables: Any) -> verdicts.Ask:
        """What evaluates expressions on this machine, with a worked case and a published number."""
        cases = {("a-case", "degree"): 8, ("a-case", "limiter"): "shared"}
        numbers = [{"id": "a-number", "value": 6.4}]
        return verdicts.asking(Paper({}, numbers, [], cases), self.machine(**tables))
