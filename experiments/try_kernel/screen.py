"""What is known of a kernel, as one screen of text next to the rung that it builds on."""

from __future__ import annotations

import functools
import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import contracts
from contracts import load_yaml
from experiments.try_kernel.archived import Archived
from experiments.try_kernel.findings import Findings
from experiments.try_kernel.on_gpu import Measured
from kernels.catalogue import Variant
from ptxsim.count.bounds import ESTIMATES, LABELS

ROWS = 50
MIN_COLUMNS, MAX_COLUMNS = 80, 120
CELL, DIFFERENCE = 14, 10  # columns of a value and of the difference
MIN_CHANGE = 0.02  # Counters that differ by less of the larger value are left out.
MIN_BOUND = 0.1  # Bounds below this part of the largest one are left out.
FAILURE_LINES = 4
RESOURCES = {
    "registers": "registers per thread",
    "shared_bytes": "shared memory, bytes a block",
    "stack_bytes": "stack (local memory), bytes a thread",
    "spill_bytes": "spilled, bytes",
    "blocks_per_sm": "blocks per SM",
    "occupancy": "theoretical occupancy",
    "limiter": "limited by",
    "sass_total": "instructions in the SASS",
}
LOCAL = {  # These count accesses to arrays in local memory.
    f"l1tex__t_{what}_pipe_lsu_mem_local_op_{kind}.sum": f"local {verb}, {what}"
    for kind, verb in (("ld", "loads"), ("st", "stores"))
    for what in ("requests", "sectors")
}
LEFT_OUT = ("sm_frequency",)  # It differs from launch to launch.


def render(
    variant: Variant,
    kernel: Findings,
    rung: Findings | None,
    measured: Measured | None,
    no_gpu: str | None,
    archived: Mapping[str, Archived] | None = None,
) -> list[str]:
    """Return at most `ROWS` lines that fit the terminal; failed checks stand last.

    :param rung: what the kernel builds on.
    :param no_gpu: why there is no `measured`.
    :param archived: speeds of the GPU's archive, by kernel, where there is no `measured`.
    """
    page = _Page(kernel.name, rung.name if rung else None)
    size = f"m = n = k = {kernel.size}"
    built = f"{kernel.resources['arch']}, {kernel.resources['compiler']}"
    checks = _checks(kernel, measured)
    passed = kernel.passed and (measured is None or measured.passed)
    lines = [f"{kernel.name}: {variant.dtype}, {size}, {built}", *(checks if passed else []), ""]
    lines += [*page.head("resources"), *_resources(page, kernel, rung), ""]
    costly: list[str] = []
    if kernel.why_not:
        lines += _wrapped(f"the emulator has no counts: {kernel.why_not}")
    else:
        lines += _bounds(page, kernel, rung)
        title = "lines with bank conflicts or wasted sectors"
        costly = ["", title if kernel.lines else "no bank conflicts, no wasted sectors"]
        costly += [f"  {line}" for line in kernel.lines]
    lines.append("")
    if measured and measured.speeds:
        lines += _speed(page, measured)
    elif no_gpu:
        lines.append(f"no times of this run: {no_gpu}")
        lines += _archived(page, kernel.gpu, archived or {})
    # The counters get the room that is left.
    changed = _changed(page, kernel, rung, measured)
    failed = [] if passed else ["", *checks]
    room = ROWS - len(lines) - len(costly) - len(failed)
    lines += costly + (_cut(["", *changed], room) if changed else [])
    return [_clipped(line, columns()) for line in [*lines[: ROWS - len(failed)], *failed]]


def columns() -> int:
    """Return the width of the terminal, within limits."""
    return max(MIN_COLUMNS, min(MAX_COLUMNS, shutil.get_terminal_size((MAX_COLUMNS, ROWS)).columns))


def coloured(lines: Sequence[str]) -> list[str]:
    """Return the lines with what failed in red and heads in bold, for a terminal."""
    return [
        f"\033[31;1m{line}\033[0m"
        if line.startswith("FAILED")
        else f"\033[1m{line}\033[0m"
        if line and not line.startswith((" ", "no times", "checked"))
        else line
        for line in lines
    ]


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def short_gpu(name: str) -> str:
    """Return a GPU's name as people say it: "NVIDIA H100 80GB HBM3" is an H100."""
    return name.removeprefix("NVIDIA ").split()[0]


class _Page:
    """Rows of a label, the kernel's value, the rung's and the difference."""

    def __init__(self, kernel: str, rung: str | None) -> None:
        self.names = [kernel, *([rung] if rung else [])]
        self.width = min(columns(), 100) - len(self.names) * (CELL + 2) - DIFFERENCE - 2

    def head(self, title: str) -> list[str]:
        heads = [_clipped(name.partition("_")[2] or name, CELL) for name in self.names]
        return [self._line(title, heads, "change" if self.names[1:] else "")]

    def row(self, label: str, pair: Sequence[Any], unit: str = "", digits: int = 3) -> str:
        """Return the row of a label. pair: the kernel's value and the rung's."""
        values = list(pair)[: len(self.names)]
        cells = [_number(value, digits) + (unit if _is_number(value) else "") for value in values]
        return self._line(f"  {label}", cells, _difference(*pair) if values[1:] else "")

    def _line(self, label: str, values: Iterable[str], last: str) -> str:
        cells = "".join(f"  {_clipped(value, CELL):>{CELL}}" for value in values)
        return f"{_clipped(label, self.width):<{self.width}}{cells}  {last:>{DIFFERENCE}}".rstrip()


def _checks(kernel: Findings, measured: Measured | None) -> list[str]:
    """Return what failed first, with its pattern, and how many cases passed, by emulator and GPU."""
    lines: list[str] = []
    for check in [*kernel.checks, *(measured.checks if measured else [])]:
        first, *others = re.sub(r"ptxsim: ptxsim: \w+: ", "ptxsim: ", check).split(" | ")
        for text in [_wrapped(first), *(_wrapped(other, "  ") for other in others)]:
            lines += _cut(text, FAILURE_LINES)
    return lines


def _resources(page: _Page, kernel: Findings, rung: Findings | None) -> list[str]:
    lines = []
    for key, label in RESOURCES.items():
        values = [findings.resources[key] if findings else None for findings in (kernel, rung)]
        if key in ("stack_bytes", "spill_bytes") and not any(values):
            continue
        unit = "%" if key == "occupancy" else ""
        if unit:
            values = [None if share is None else 100 * share for share in values]
        lines.append(page.row(label, values, unit))
    for name, label in LOCAL.items():
        counts = [
            findings.counters.get(name, 0) if findings else None for findings in (kernel, rung)
        ]
        if any(counts):
            lines.append(page.row(label, counts))
    return lines


def _bounds(page: _Page, kernel: Findings, rung: Findings | None) -> list[str]:
    """Return the minimum cycles of each resource, largest first, the limiter of each kernel, and the
    estimates, which limit nothing.
    """
    cycles, rung_cycles = kernel.cycles, rung.cycles if rung else {}
    smallest = MIN_BOUND * max(_bounds_of(kernel).values())
    keys = sorted(cycles.keys() | rung_cycles.keys(), key=lambda key: -cycles.get(key, 0.0))
    shown = [
        k for k in keys if max(cycles.get(k, 0), rung_cycles.get(k, 0)) >= smallest and k in LABELS
    ]
    rows = {
        key: page.row(
            LABELS[key] + ", estimate" * (key in ESTIMATES), (cycles.get(key), rung_cycles.get(key))
        )
        for key in shown
    }
    bounds = [_bounds_of(findings) for findings in (kernel, rung) if findings and findings.cycles]
    limiters = [LABELS[max(bound, key=bound.__getitem__)] for bound in bounds]
    lines = page.head(f"minimum cycles per SM on an {short_gpu(kernel.gpu)}")
    lines += [row for key, row in rows.items() if key not in ESTIMATES]
    lines.append(page.row("limiter: the largest of these", (*limiters, None)[:2]))
    lines += [row for key, row in rows.items() if key in ESTIMATES]
    if rung and rung.why_not:
        lines += _wrapped(f"the emulator has no counts of {rung.name}: {rung.why_not}", "  ")
    return lines


def _bounds_of(findings: Findings) -> dict[str, float]:
    return {k: value for k, value in findings.cycles.items() if k in LABELS and k not in ESTIMATES}


def _archived(page: _Page, gpu: str, speeds: Mapping[str, Archived]) -> list[str]:
    """Return the archive's speeds of the kernel, if it has them, and of the rung."""
    pair = [speeds.get(name) for name in page.names]
    if not any(pair):
        return []

    def beside(speed: Archived) -> str:
        return f"{_number(speed.tflops, 3)} of {_number(speed.baseline_tflops, 3)}"

    fractions = [speed and 100 * speed.fraction for speed in pair]
    return [
        *page.head(f"archived on an {short_gpu(gpu)}"),
        page.row("% of cuBLAS, interleaved", (*fractions, None)[:2], "%"),
        page.row("TFLOP/s of cuBLAS", (*(speed and beside(speed) for speed in pair), None)[:2]),
    ]


def _speed(page: _Page, measured: Measured) -> list[str]:
    kernel, rung = (measured.speeds.get(name) for name in [*page.names, ""][:2])

    def row(label: str, name: str, scale: float = 1, unit: str = "", digits: int = 4) -> str:
        pair = [speed and scale * getattr(speed, name) for speed in (kernel, rung)]
        return page.row(label, pair, unit, digits)

    return [
        *page.head(f"on {measured.gpu}, alternating"),
        row("time, µs", "time_us"),
        row(f"share of {measured.baseline}", "share", 100, "%", 3),
        row("FLOP/clock/SM", "flop_per_clock_sm"),
        row("SM clock, MHz", "sm_clock_mhz"),
    ]


def _changed(
    page: _Page, kernel: Findings, rung: Findings | None, measured: Measured | None
) -> list[str]:
    """Return the counters that differ from the rung's: measured ones, else predicted ones."""
    if rung is None:
        return []
    pair, source = (kernel.counters, rung.counters), "predicted"
    if measured and {kernel.name, rung.name} <= measured.counters.keys():
        pair, source = (measured.counters[kernel.name], measured.counters[rung.name]), "ncu"
    why = [f"  no counters of ncu: {measured.why_not}"] if measured and measured.why_not else []
    if not all(pair):
        return why
    lines = [
        page.row(labels()[name], [counters.get(name) for counters in pair], digits=4)
        for name in changed(*pair)
    ]
    head = page.head(f"counters that moved ({source})")
    return [*head, *why, *(lines or ["  none by more than 2%"])]


def changed(kernel: Mapping[str, float], rung: Mapping[str, float]) -> list[str]:
    """Return ncu's names of the counters that differ by more than `MIN_CHANGE`, largest first."""
    change = {}
    for name in labels().keys() & kernel.keys() & rung.keys():
        a, b = kernel[name], rung[name]
        change[name] = abs(a - b) / max(abs(a), abs(b), 1e-300)
    names = [name for name in labels() if change.get(name, 0) > MIN_CHANGE]
    return sorted(names, key=lambda name: -change[name])


@functools.cache
def labels() -> dict[str, str]:
    """Return ncu's names of the counters on the screen, with readable labels."""
    groups = load_yaml(Path(contracts.__file__).parent / "metrics.yaml")
    return {
        metric["ncu"]: ("stall: " if group == "stalls" else "") + metric["label"]
        for group, metrics in groups.items()
        for key, metric in metrics.items()
        if "ncu" in metric and key not in LEFT_OUT
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any, digits: int) -> str:
    """Return a value as text; from a million on with a prefix: 134 M."""
    if value is None:
        return "–"
    if not _is_number(value):
        return str(value)
    for scale, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(value) >= scale:
            return f"{value / scale:.{max(0, 2 - int(math.log10(abs(value) / scale)))}f}{prefix}"
    if float(value).is_integer() or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _difference(kernel: Any, rung: Any) -> str:
    """Return how the kernel differs from the rung; "" of equal values and where one is none."""
    if not (_is_number(kernel) and _is_number(rung)) or kernel == rung:
        return ""
    return f"{100 * (kernel - rung) / abs(rung):+.1f}%" if rung else "from 0"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, columns(), initial_indent=indent, subsequent_indent=indent + "  ")


def _cut(lines: list[str], room: int) -> list[str]:
    """Return the first lines; where some are left out, the last one says how many."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"  … {len(lines) - room + 1} lines more"] if room > 2 else []
