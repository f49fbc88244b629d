"""Reads the hardware counters of one catalogue entry with Nsight Compute.

    python -m experiments.profile sgemm_warptile --size 4096 --build-dir results/build/sm_90a --out counters.csv \
        --left-out left_out.txt

Clocks are left alone (--clock-control none). The .ncu-rep is read with the `ncu_report` module that ships with ncu; its
text output changes between versions. Without ncu, or without the permission, counters.csv has no rows and left_out.txt
says why and what would help; otherwise left_out.txt is empty.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from contracts import UserError, read_rows, run_command, write_rows, write_text
from experiments.lease import lease
from kernels import catalogue
from kernels.catalogue import Entry

METRICS = Path(__file__).resolve().parent.parent / "contracts" / "metrics.yaml"
PERMISSION = (
    "no permission to read hardware counters (ERR_NVGPUCTRPERM); remedy: run as root, or load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)


class LeftOut(Exception):
    """Why counters cannot be read here: not a fault of the run."""


def metric_names() -> list[str]:
    """ncu's names of all counters in contracts/metrics.yaml."""
    groups = yaml.safe_load(METRICS.read_text())
    return [metric["ncu"] for group in groups.values() for metric in group.values()]


def find_ncu() -> Path:
    """The ncu on PATH, links followed. Raises `LeftOut` where there is none."""
    found = shutil.which("ncu")
    if not found:
        raise LeftOut("no ncu on PATH; remedy: install NVIDIA Nsight Compute")
    return Path(found).resolve()


def report_module(ncu: Path) -> Any:
    """`ncu_report`, from the installation that `ncu` belongs to."""
    roots = [
        *ncu.parents,
        *Path("/opt/nvidia/nsight-compute").glob("*"),
        *Path("/usr/local").glob("cuda*/nsight-compute*"),
    ]
    for root in roots:
        folder = root / "extras" / "python"
        if (folder / "ncu_report.py").is_file():
            sys.path.insert(0, str(folder))
            return importlib.import_module("ncu_report")
    raise LeftOut(f"no ncu_report module beside {ncu.name}; remedy: a full install of Nsight Compute")


def read_report(module: Any, path: Path, entry: Entry, size: int) -> list[dict[str, Any]]:
    """Rows of counters.csv from the longest kernel of a report."""
    ranges = module.load_report(str(path))
    actions = [ranges.range_by_idx(0).action_by_idx(i) for i in range(ranges.range_by_idx(0).num_actions())]
    action = max(actions, key=lambda a: a.metric_by_name("gpu__time_duration.sum").as_double())
    rows = []
    for name in metric_names():
        metric = action.metric_by_name(name)
        if metric is None:
            print(f"counter {name} is not known to this ncu or GPU: left out", file=sys.stderr)
            continue
        rows.append(
            {
                "variant": entry.name,
                "m": size,
                "n": size,
                "k": size,
                "metric": name,
                "value": metric.as_double(),
                "unit": metric.unit(),
                "kernel": action.name(),
                "source_hash": entry.source_hash,
            }
        )
    return rows


def profile(entry: Entry, size: int, build_dir: Path) -> list[dict[str, Any]]:
    """Run ncu on one launch; rows of counters.csv. Raises `LeftOut` where counters cannot be read here."""
    ncu = find_ncu()
    module = report_module(ncu)
    with tempfile.TemporaryDirectory() as folder, lease():
        report = Path(folder) / "report.ncu-rep"
        command = [
            str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all",
            "--metrics", ",".join(metric_names()), "--export", str(report.with_suffix("")),
            sys.executable, "-m", "experiments.launch", entry.name, "--size", str(size), "--build-dir", str(build_dir),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        if "ERR_NVGPUCTRPERM" in output:
            raise LeftOut(PERMISSION)
        if done.returncode or not report.is_file():
            lines = [line for line in output.splitlines() if "==ERROR==" in line or line.startswith("error:")]
            raise UserError(
                f"ncu failed on {entry.name}: {(lines or output.splitlines() or ['no message'])[-1].strip()}"
            )
        return read_report(module, report, entry, size)


def main() -> None:
    parser = argparse.ArgumentParser(description="Read hardware counters with Nsight Compute.")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--size", type=int, required=True, help="m = n = k")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--checked", type=Path, help="its checks.csv; a variant that failed there is not profiled")
    parser.add_argument("--out", required=True, type=Path, help="written: rows of counters.csv")
    parser.add_argument("--left-out", required=True, type=Path, help="written: why there are none, or nothing")
    options = parser.parse_args()
    entry = catalogue.find(options.variant)
    reason, rows = "", []
    if options.checked and any(not row["passed"] for row in read_rows(options.checked, "checks")):
        print(f"{entry.name} is not profiled: it failed a check", file=sys.stderr)
    else:
        try:
            rows = profile(entry, options.size, options.build_dir)
        except LeftOut as left_out:
            reason = str(left_out)
            print(f"profile left out: {reason}", file=sys.stderr)
    write_text(options.left_out, reason)
    write_rows(options.out, "counters", rows)


if __name__ == "__main__":
    run_command(main)
