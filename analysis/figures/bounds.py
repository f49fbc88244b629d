"""The least cycles that each resource needs, from counts alone, as a share of the cycles measured.

    python -m analysis.figures.bounds --measured data/h200 --variants results/variants.csv --bounds bounds.csv --out bounds.svg

A row per kernel and a mark per resource; the mark furthest to the right is the bottleneck, and its distance from 100%
is what the kernel loses beside it. `--table FILE.csv` also writes what is drawn: variant, label, n, resource,
cycles_per_sm, measured (cycles), percent. `--rules FILE.md` writes tables that hold the count of instructions, and the
rule of the register banks, against what ncu measured. A kernel whose source changed since it was measured is left out.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.data import Measured, at_usual_size, figure_arguments, read, table, write_csv
from analysis.figures import style
from analysis.figures.style import plt
from contracts import read_rows, run_command, write_text

RESOURCES = {
    "fma": "FMA pipe",
    "fp64": "fp64 pipe",
    "tensor": "tensor cores",
    "issue": "issue slots",
    "registers": "register banks",
    "shared": "shared memory",
    "l1": "L1 lookups",
    "l2": "L2 to SM",
    "dram": "DRAM reads",
}
AVERAGE, SLOWEST = "sm__cycles_active.avg", "sm__cycles_active.max"
EXECUTED = "sm__inst_executed.sum"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
EXACT = 1e-8  # the tables hold nine digits
KEYS = ["variant", "n"]


def shares(counters: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel, size and resource with bounds and cycles of the same source, in the catalogue's order.

    Columns: variant, label, n, order, resource, cycles_per_sm, measured (cycles), percent. `tail` is a share of the
    slowest SM's cycles, the others of the average SM's.
    """
    current = counters[~counters["stale"].astype(bool)]
    cycles = current[current["metric"].isin([AVERAGE, SLOWEST])][[*KEYS, "label", "order", "metric", "value"]]
    wanted = bounds[bounds["resource"].isin([*RESOURCES, "tail"])]
    wanted = wanted.assign(metric=wanted["resource"].map(lambda name: SLOWEST if name == "tail" else AVERAGE))
    both = wanted.merge(cycles, on=[*KEYS, "metric"]).rename(columns={"value": "measured"})
    both = both.assign(percent=100 * both["cycles_per_sm"] / both["measured"])
    columns = [*KEYS, "label", "order", "resource", "cycles_per_sm", "measured", "percent"]
    return both[columns].sort_values("order", kind="stable").reset_index(drop=True)


def bottlenecks(rows: pd.DataFrame) -> pd.DataFrame:
    """Of `shares`, the row of the resource that needs the most cycles, for each kernel and size."""
    rows = rows[rows["resource"] != "tail"]
    return rows.loc[rows.groupby(KEYS, sort=False)["cycles_per_sm"].idxmax()]


def in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """Of `shares`, what --table writes: resources by the names that the figure has."""
    rows = rows.assign(resource=rows["resource"].map(RESOURCES | {"tail": "tail"}))
    return rows[["variant", "label", "n", "resource", "cycles_per_sm", "measured", "percent"]]


def unmeasured(counters: pd.DataFrame, bounds: pd.DataFrame) -> int:
    """How many kernels have bounds but no cycles to hold them against."""
    return len(set(bounds["variant"]) - set(shares(counters, bounds)["variant"]))


def draw(measured: Measured, bounds: pd.DataFrame) -> plt.Figure:
    """The figure: a row per kernel, in the catalogue's order."""
    rows = at_usual_size(shares(measured.counters, bounds))
    if rows.empty:
        return style.left_out(measured, "Bounds beside measured cycles", measured.reason("profile"))
    several = rows["n"].nunique() > 1
    names = rows["label"] + (" n=" + rows["n"].astype(str) if several else "")
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.35 + 0.21 * len(places)))
    height = names.map(places)
    for number, (resource, label) in enumerate(RESOURCES.items()):
        part = rows["resource"] == resource
        if part.any():
            look = {"color": style.LINES[number % len(style.LINES)], "marker": style.MARKERS[number]}
            axes.scatter(rows["percent"][part], height[part], s=22, label=label, zorder=3, **look)
    tail = rows["resource"] == "tail"
    look = {"color": style.INK, "marker": "|", "linewidth": 1.3}
    axes.scatter(rows["percent"][tail], height[tail], s=130, label="largest, SM with the most blocks", zorder=2, **look)
    axes.axvline(100, color=style.INK, linewidth=1.0, zorder=1)
    largest = bottlenecks(rows)
    right = max(104.0, 1.02 * rows["percent"].max())
    for place, row in zip(names[largest.index].map(places), largest.itertuples(), strict=True):
        text = f"{RESOURCES[row.resource]} {row.percent:.0f}%"
        axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center", color=style.INK)
    axes.set(xlim=(-1, right), ylim=(len(places) - 0.5, -0.5))
    axes.set_yticks(list(places.values()), list(places))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both")
    axes.set_xlabel("least cycles of each resource, % of the measured cycles")
    axes.set_title("bottleneck", loc="right", x=1.01, ha="left", fontsize=8)
    labels = axes.get_legend_handles_labels()[1]
    figure.legend(loc="outside upper center", ncols=style.legend_columns(labels) + 1, handletextpad=0.2)
    left = unmeasured(measured.counters, bounds)
    left_out = f"{left} kernel{'s' if left > 1 else ''} without counters left out" if left else ""
    style.note(
        figure,
        measured,
        "" if several else f"m = n = k = {rows['n'].iloc[0]}",
        f"bounds by ptxsim from the code of this tree, rates of {' and '.join(sorted(set(bounds['machine'])))}",
        left_out,
        withheld=False,
    )
    return figure


def rules(measured: Measured, bounds: pd.DataFrame) -> str:
    """Two tables in Markdown: instructions counted in the SASS beside ncu's; and, of kernels with FFMAs, the issue rate
    beside the most that the register banks allow, by their bandwidth and by the rule of each FFMA for itself."""
    counters = measured.counters[~measured.counters["stale"].astype(bool)]
    value = counters.set_index([*KEYS, "metric"])["value"]
    cycles = bounds.set_index([*KEYS, "resource"])["cycles_per_sm"]
    amount = bounds.set_index([*KEYS, "resource"])["amount"]
    kernels = shares(counters, bounds)[[*KEYS, "label"]].drop_duplicates()
    first = ["| kernel | instructions from the SASS | counted by ncu | difference |", "|---|---:|---:|---:|"]
    second = [
        "| kernel | issue rate, ncu | at most, by bandwidth | at most, by the rule | rule holds | dispatch stalls "
        "| other stalls |",
        "|---|---:|---:|---:|---|---:|---|",
    ]
    for kernel in kernels.itertuples():
        key = (kernel.variant, kernel.n)
        own, counted = amount[(*key, "issue")], value[(*key, EXECUTED)]
        apart = own / counted - 1
        told = "none" if abs(apart) < EXACT else f"{100 * apart:+.4f}%"
        first.append(f"| {kernel.label} | {own:,.0f} | {counted:,.0f} | {told} |")
        if (*key, "registers") not in cycles.index:
            continue
        issue, rate = cycles[(*key, "issue")], value[(*key, ISSUE)]
        bandwidth = 100 * min(1.0, issue / cycles[(*key, "registers")])
        rule = 100 * issue / cycles[(*key, "register_rule")]
        stalls = {
            name: value[(*key, STALL.format(name))]
            for name in ("barrier", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "wait")
        }
        worst = max(stalls, key=lambda name: stalls[name])
        second.append(
            f"| {kernel.label} | {rate:.1f}% | {bandwidth:.1f}% | {rule:.1f}% | {'yes' if rate <= rule else '**no**'} "
            f"| {value[(*key, STALL.format('dispatch_stall'))]:.2f} "
            f"| {worst.replace('_', ' ')} {stalls[worst]:.2f} |"
        )
    return "\n".join([*first, "", *second, ""])


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument("--bounds", required=True, type=Path, metavar="FILE", help="bounds.csv of this tree")
    parser.add_argument("--table", type=Path, metavar="FILE.csv", help="write the numbers behind the figure there")
    parser.add_argument("--rules", type=Path, metavar="FILE.md", help="write the tables of docs/bounds.md there")
    args = parser.parse_args()
    measured = read(args)
    bounds = table(read_rows(args.bounds, "bounds"), "bounds")
    if args.table:
        write_csv(args.table, in_words(shares(measured.counters, bounds)))
    if args.rules:
        write_text(args.rules, rules(measured, bounds))
    style.save(draw(measured, bounds), args.out)


if __name__ == "__main__":
    run_command(main)
