"""Prints a .ncu-rep as JSON: a list of {"name": function, "metrics": {NAME: [value, unit]}}, one
per profiled kernel.

    python -m experiments.gpu.read_report FOLDER REPORT.ncu-rep METRIC ...

FOLDER holds the `ncu_report` module that ships with ncu. A process of its own, which imports
nothing else: that module brings a C++ runtime that does not tolerate NumPy's in the same process
(`unit()` crashes there).
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    folder, report, *names = sys.argv[1:]
    sys.path.insert(0, folder)
    module = importlib.import_module("ncu_report")
    opened = module.load_report(report)
    first = opened.range_by_idx(0)
    kernels = []
    for i in range(first.num_actions()):
        action = first.action_by_idx(i)
        values = {name: action.metric_by_name(name) for name in names}
        metrics = {n: [m.as_double(), m.unit()] for n, m in values.items() if m is not None}
        kernels.append({"name": action.name(), "metrics": metrics})
    json.dump(kernels, sys.stdout)


if __name__ == "__main__":
    main()
