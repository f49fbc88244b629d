"""What was found out about a kernel, as one screen of text next to the rung that it builds on."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import contracts
from contracts import load_yaml
from experiments.try_kernel.findings import Findings
from experiments.try_kernel.on_gpu import Measured
from kernels.catalogue import Variant
from ptxsim.count.bounds import ESTIMATES, LABELS

ROWS, COLUMNS = 50, 120
MOVED = 0.02  # of the larger value: what differs by less has not moved
CLOSE = 0.1  # of the largest: bounds below that are left out
LONGEST = 4  # lines of one failure
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
LOCAL = {  # counters of arrays in local memory
    f"l1tex__t_{what}_pipe_lsu_mem_local_op_{kind}.sum": f"local {verb}, {what}"
    for kind, verb in (("ld", "loads"), ("st", "stores"))
    for what in ("requests", "sectors")
}
NOT_SHOWN = ("sm_frequency",)  # differs from launch to launch


def render(
    variant: Variant,
    own: Findings,
    base: Findings | None,
    measured: Measured | None,
    gpu: str | None,
) -> list[str]:
    """At most `ROWS` lines of at most `COLUMNS` characters. `gpu`: why there is no `measured`."""
    page = _Page(own.name, base.name if base else None)
    head = f"{own.name}: {variant.dtype}, m = n = k = {own.size}, {own.resources['arch']}, {own.resources['compiler']}"
    checks = _checks(own, measured)
    body = [*page.head("resources"), *_resources(page, own, base)]
    if own.why_not:
        body += ["", *_wrapped(f"the emulator has no counts: {own.why_not}")]
    else:
        body += ["", *_bounds(page, own, base)]
    speed = (
        _speed(page, variant, measured)
        if measured and measured.speeds
        else [f"no times: {gpu}"]
        if gpu
        else []
    )
    moved = _moved(page, own, base, measured)
    fixed = [head, *checks, "", *body, "", *speed]
    lines = [
        "",
        "lines with bank conflicts or wasted sectors"
        if own.lines
        else "no bank conflicts, no wasted sectors",
    ]
    lines += [f"  {line}" for line in own.lines]
    room = ROWS - len(fixed) - (0 if own.why_not else len(lines))
    page_lines = (
        fixed + ([] if own.why_not else lines) + (_cut(["", *moved], room) if moved else [])
    )
    return [_fit(line) for line in page_lines[:ROWS]]


class _Page:
    """Rows of a label, this kernel's value, the rung's and the difference."""

    def __init__(self, own: str, base: str | None) -> None:
        self.names = [own, *([base] if base else [])]
        self.width = max(14, *(min(len(name), 28) for name in self.names))

    def head(self, title: str) -> list[str]:
        return [
            self._line(
                title,
                [name[-self.width :] for name in self.names],
                "difference" if self.names[1:] else "",
            )
        ]

    def row(self, label: str, own: Any, base: Any, unit: str = "", *, digits: int = 3) -> str:
        values = [own, *([base] if len(self.names) > 1 else [])]
        cells_of = [
            _number(value, digits) + (unit if _is_number(value) else "") for value in values
        ]
        return self._line(f"  {label}", cells_of, _difference(own, base) if len(values) > 1 else "")

    def _line(self, label: str, values: Iterable[str], last: str) -> str:
        cells = "".join(f"{value:>{self.width + 2}}" for value in values)
        return f"{label:<44}{cells}  {last:>20}".rstrip()


def _checks(own: Findings, measured: Measured | None) -> list[str]:
    """What failed first, with its pattern, and how many cases passed, on the emulator and on the
    GPU.
    """
    lines: list[str] = []
    for checks in (own.checks, measured.checks if measured else []):
        for line in checks:
            parts = re.sub(r"ptxsim: ptxsim: \w+: ", "ptxsim: ", line).split(" | ")
            lines += [
                text
                for part in parts
                for text in _cut(_wrapped(part, "" if part is parts[0] else "  "), LONGEST)
            ]
    return lines


def _resources(page: _Page, own: Findings, base: Findings | None) -> list[str]:
    lines = []
    for key, label in RESOURCES.items():
        one, other = (found.resources[key] if found else None for found in (own, base))
        if key in ("stack_bytes", "spill_bytes") and not (one or other):
            continue
        if key == "occupancy":
            one, other = (None if share is None else 100 * share for share in (one, other))
            lines.append(page.row(label, one, other, "%"))
        else:
            lines.append(page.row(label, one, other))
    for name, label in LOCAL.items():
        one, other = (found.counters.get(name, 0) if found else None for found in (own, base))
        if one or other:
            lines.append(page.row(label, one, other))
    return lines


def _bounds(page: _Page, own: Findings, base: Findings | None) -> list[str]:
    """Return the minimum cycles of each resource, largest first, and the limiter of each kernel."""
    largest = max(_bounds_of(own).values())
    theirs = base.cycles if base else {}
    keys = sorted(own.cycles.keys() | theirs.keys(), key=lambda key: -own.cycles.get(key, 0.0))
    shown = [
        k
        for k in keys
        if k in LABELS and max(own.cycles.get(k, 0), theirs.get(k, 0)) >= CLOSE * largest
    ]
    lines = page.head(f"minimum cycles per SM on an {own.gpu}")
    for key in shown:
        label = LABELS[key] + (" (estimate)" if key in ESTIMATES else "")
        lines.append(page.row(label, own.cycles.get(key), theirs.get(key), digits=4))
    names = [
        LABELS[max(_bounds_of(one), key=_bounds_of(one).__getitem__)]
        for one in (own, base)
        if one and one.cycles
    ]
    lines.append(page.row("limiter", names[0], names[1] if len(names) > 1 else None))
    if base and base.why_not:
        lines += _wrapped(f"the emulator has no counts of {base.name}: {base.why_not}", "  ")
    return lines


def _bounds_of(one: Findings) -> dict[str, float]:
    return {
        key: value for key, value in one.cycles.items() if key in LABELS and key not in ESTIMATES
    }


def _speed(page: _Page, variant: Variant, measured: Measured) -> list[str]:
    own, base = (measured.speeds.get(name) for name in [*page.names, ""][:2])
    assert own is not None
    rows = [
        ("time, µs", own.time_us, base and base.time_us, "", 4),
        (f"share of {measured.baseline}", 100 * own.share, base and 100 * base.share, "%", 3),
        ("FLOP/clock/SM", own.flop_per_clock_sm, base and base.flop_per_clock_sm, "", 4),
        ("SM clock, MHz", own.sm_clock_mhz, base and base.sm_clock_mhz, "", 4),
    ]
    lines = page.head(f"on {measured.gpu}, alternating")
    return lines + [
        page.row(label, a, b, unit, digits=digits) for label, a, b, unit, digits in rows
    ]


def _moved(
    page: _Page, own: Findings, base: Findings | None, measured: Measured | None
) -> list[str]:
    """Counters that differ from the rung's, measured ones if there are any, else predicted ones."""
    if base is None:
        return []
    counted = measured.counters if measured else {}
    if base.name in counted and own.name in counted:
        title, pair = "counters that moved (ncu)", (counted[own.name], counted[base.name])
    else:
        title, pair = "counters that moved (predicted)", (own.counters, base.counters)
    why = [f"  no counters of ncu: {measured.why_not}"] if measured and measured.why_not else []
    if not all(pair):
        return why
    found = moved(*pair)
    lines = [
        page.row(labels()[name], pair[0].get(name), pair[1].get(name), digits=4) for name in found
    ]
    return [*page.head(title), *why, *(lines or ["  none by more than 2%"])]


def moved(own: Mapping[str, float], base: Mapping[str, float]) -> list[str]:
    """Names of the counters (ncu's) that differ by more than `MOVED`, those that differ most
    first.
    """
    apart = {}
    for name in labels():
        a, b = own.get(name), base.get(name)
        if a is not None and b is not None and abs(a - b) > MOVED * max(abs(a), abs(b)):
            apart[name] = abs(a - b) / max(abs(a), abs(b))
    return sorted(apart, key=lambda name: -apart[name])


@functools.cache
def labels() -> dict[str, str]:
    """ncu's names of the counters that are shown, with readable labels."""
    groups = load_yaml(Path(contracts.__file__).parent / "metrics.yaml")
    return {
        metric["ncu"]: ("stall: " if group == "stalls" else "") + metric["label"]
        for group, metrics in groups.items()
        for key, metric in metrics.items()
        if "ncu" in metric and key not in NOT_SHOWN
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    if not _is_number(value):
        return str(value)
    if float(value).is_integer() or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _difference(own: Any, base: Any) -> str:
    """The difference of two numbers, with sign and share; "" where they are equal or one is
    none.
    """
    if not (_is_number(own) and _is_number(base)) or own == base:
        return ""
    share = f" ({100 * (own - base) / abs(base):+.1f}%)" if base else ""
    return ("+" if own > base else "-") + _number(abs(own - base), 3) + share


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent=indent, subsequent_indent=indent + "  ")


def _cut(lines: list[str], room: int) -> list[str]:
    """The first lines; where some are left out the last says how many."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"  … {len(lines) - room + 1} lines more"] if room > 2 else []


def _fit(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"
