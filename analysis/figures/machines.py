"""One machine against another: each rung's share of cuBLAS on every machine that has been measured.

    python -m analysis.figures.machines --measured data/h200 --archived --others data/h200-2 --variants results/variants.csv \
        --out machines.svg

A machine is a folder of tables; two days on one GPU are two. Drawn are the rungs that were measured on two machines or
more from the source that the tree has now. On the right how far
the others are from the first machine: in share of cuBLAS (filled marks), and in TFLOP/s (hollow ones). What makes one
machine faster than another, or one day faster than the next, makes cuBLAS faster too, and so should leave the shares.
`--table FILE.csv` also writes what is drawn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from analysis.data import Measured, current, figure_arguments, one_row_each, read, write_csv
from analysis.figures import style
from analysis.figures.style import plt
from contracts import run_command

LOOKS = [
    {"color": style.KERNEL, "marker": "o"},
    {"color": style.BAD, "marker": "D"},
    {"color": style.EMULATED, "marker": "^"},
    {"color": style.LINES[3], "marker": "s"},
]
SIZE = 4096
AGREE_PERCENT = 1.0


def name_of(measured: Measured) -> str:
    """A machine as the figure calls it: "h200, 2026-11-20"."""
    return f"{measured.provenance['machine']}, {measured.provenance['date']}"


def shares(machines: dict[str, Measured], n: int = SIZE) -> pd.DataFrame:
    """One row per machine and kernel measured on at least two, with free clocks and uniform data.

    Columns: machine (key of the argument), gpu, variant, label, n, share_percent, share_low, share_high (95% interval),
    tflops, flop_per_clock_sm, sm_clock_mhz; share_change_percent and tflops_change_percent, against the first machine
    that has the kernel. Kernels are in the catalogue's order.
    """
    columns = ["variant", "label", "order", "n", "tflops", "flop_per_clock_sm", "sm_clock_mhz"]
    found = []
    for name, measured in machines.items():
        bench, _ = current(measured.bench)
        bench = bench[(bench["n"] == n) & (bench["regime"] == "unlocked") & (bench["data"] == "uniform")]
        rows = one_row_each(bench[bench["kind"] != "baseline"])
        parts = {"share_percent": "share_of_baseline", "share_low": "share_ci_low", "share_high": "share_ci_high"}
        ends = {new: 100 * rows[old] for new, old in parts.items()}
        found.append(rows[columns].assign(machine=name, gpu=measured.provenance["gpu"], **ends))
    rows = pd.concat(found, ignore_index=True).sort_values("order", kind="stable", ignore_index=True)
    rows = rows[rows.groupby("variant")["machine"].transform("size") > 1].drop(columns="order")
    first = rows.groupby("variant")
    changes = {
        f"{new}_change_percent": 100 * (rows[old] / first[old].transform("first") - 1)
        for new, old in (("share", "share_percent"), ("tflops", "tflops"))
    }
    front = ["machine", "gpu"]
    return rows.assign(**changes)[front + [name for name in [*rows, *changes] if name not in front]]


def draw_shares(axes: Axes, rows: pd.DataFrame, places: dict[str, int], looks: dict[str, dict]) -> None:
    """A mark per machine with its interval, around the place of its rung."""
    for number, (name, look) in enumerate(looks.items()):
        part = rows[rows["machine"] == name]
        y = part["label"].map(places) + 0.34 * (number - (len(looks) - 1) / 2) / max(len(looks) - 1, 1)
        error = [part["share_percent"] - part["share_low"], part["share_high"] - part["share_percent"]]
        axes.errorbar(part["share_percent"], y, xerr=error, fmt="none", color=style.INK, linewidth=0.8)
        axes.scatter(part["share_percent"], y, s=15, linewidth=0, zorder=3, label=name, **look)
    axes.axvline(100, color=style.INK, linewidth=0.9, zorder=0.9)
    axes.set(xlabel=f"share of cuBLAS, %, n = {SIZE}", xlim=(0, max(105.0, 1.03 * rows["share_percent"].max())))


def draw_changes(axes: Axes, rows: pd.DataFrame, places: dict[str, int], looks: dict[str, dict]) -> None:
    """How far each machine but the first is from it."""
    for name, look in list(looks.items())[1:]:
        part = rows[rows["machine"] == name]
        y = part["label"].map(places)
        hollow = {"marker": look["marker"], "facecolor": "none", "edgecolor": look["color"], "linewidth": 0.9}
        axes.scatter(part["tflops_change_percent"], y, s=34, zorder=2, **hollow)
        axes.scatter(part["share_change_percent"], y, s=12, linewidth=0, zorder=3, **look)
    far = max(1.2, 1.1 * rows[["share_change_percent", "tflops_change_percent"]].abs().max().max())
    axes.axvspan(-AGREE_PERCENT, AGREE_PERCENT, color="#EEEEEE", zorder=0)
    axes.axvline(0, color=style.INK, linewidth=0.9, zorder=0.9)
    axes.set(xlim=(-far, far), xlabel="against the first, %")


def draw(machines: dict[str, Measured]) -> plt.Figure:
    """The figure: a row per rung. The first machine is the one that the others are held against."""
    first, *others = machines.values()
    rows = shares(machines)
    if rows.empty:
        one = "There is one run only" if not others else f"No rung of this tree was measured in two runs at n = {SIZE}"
        why = f"{one}; each folder of data/ with a bench.csv is one."
        return style.left_out(first, "Machine against machine", why)
    looks = {name: LOOKS[number % len(LOOKS)] for number, name in enumerate(machines)}
    places = {label: place for place, label in enumerate(rows["label"].unique())}
    figure, (share, change) = plt.subplots(
        1,
        2,
        figsize=(style.WIDTH, 1.05 + 0.2 * len(places)),
        sharey=True,
        gridspec_kw={"width_ratios": [1.35, 1]},
    )
    draw_shares(share, rows, places, looks)
    draw_changes(change, rows, places, looks)
    for axes in (share, change):
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="both")
    share.set_yticks(list(places.values()), list(places))
    share.set_ylim(len(places) - 0.4, -0.6)
    figure.legend(loc="outside upper center", ncols=len(machines), handletextpad=0.2)
    gone = {label for measured in machines.values() for label in current(measured.bench)[1]} - set(places)
    style.note(
        figure,
        first,
        *(origin for origin in dict.fromkeys(other.origin for other in others) if origin != first.origin),
        "unlocked clocks, uniform inputs, 95% intervals",
        f"right: filled: share, hollow: TFLOP/s; shaded: within {AGREE_PERCENT:.0f}%",
        withheld=False,
        outdated=sorted(gone),
    )
    return figure


def read_all(args: argparse.Namespace) -> dict[str, Measured]:
    """The machines by name, without copies of the first; the folder's name is added where two would have the same."""
    found: dict[str, Measured] = {}
    for folder in [args.measured, *args.others]:
        archived = args.archived or folder != args.measured
        one = read(argparse.Namespace(**vars(args) | {"measured": folder, "archived": archived, "emulated": None}))
        if any(one.provenance == other.provenance and one.bench.equals(other.bench) for other in found.values()):
            continue  # the run that was archived there
        name = name_of(one)
        found[f"{name} ({folder.name})" if name in found else name] = one
    return found


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument(
        "--others", default=[], nargs="*", type=Path, metavar="DIR", help="other machines' folders, archived"
    )
    parser.add_argument("--table", type=Path, metavar="FILE.csv", help="write the numbers behind the figure there")
    args = parser.parse_args()
    machines = read_all(args)
    if args.table:
        write_csv(args.table, shares(machines))
    style.save(draw(machines), args.out)


if __name__ == "__main__":
    run_command(main)
