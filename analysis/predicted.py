"""Counters that the emulator predicts beside those that the hardware counted: a mark per kernel and counter.

The mark's place is the relative difference; bank conflicts are compared as a share of the wavefronts that they are
among, since a count near zero has no useful relative difference. A kernel whose source changed since it was measured is
left out. `--table FILE.csv` also writes what is drawn: variant, label, n, counter (a name in words), metric (ncu's),
predicted, measured, difference_percent.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import contracts
from analysis import style
from analysis.data import Measured, figure_arguments, read, table, write_csv
from analysis.style import plt
from contracts import load_yaml, read_rows, run_command

METRICS = Path(contracts.__file__).with_name("metrics.yaml")
CONFLICTS = "data_bank_conflicts_pipe_lsu_mem_shared"
WAVEFRONTS = "data_pipe_lsu_wavefronts_mem_shared"  # what such conflicts are a part of
EXACT = 1e-6  # the tables hold nine digits
LEFT = 1e-4  # percent: where exact marks stand
NAMED = 0.05  # percent: from here on the kernel that is farthest off is named
SIXTEEN_BITS = dict.fromkeys(("bf16", "fp16"), "16-bit")


def differences(counters: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and counter that both have: variant, label, n, metric, predicted, measured,
    difference_percent.

    `difference_percent` is of the measured value; of the measured wavefronts for bank conflicts.
    """
    keys = ["variant", "n", "metric"]
    current = counters[~counters["stale"].astype(bool)]
    both = current.merge(predictions[[*keys, "value"]], on=keys, suffixes=("", "_predicted"))
    both = both.rename(columns={"value": "measured", "value_predicted": "predicted"})
    value = current.set_index(keys)["value"]
    whole = [
        value.get((r.variant, r.n, r.metric.replace(CONFLICTS, WAVEFRONTS)), r.measured) for r in both.itertuples()
    ]
    both = both.assign(whole=whole)
    both = both[both["whole"] > 0]
    both = both.assign(difference_percent=100 * (both["predicted"] - both["measured"]) / both["whole"])
    return both[["variant", "label", "n", "metric", "predicted", "measured", "difference_percent"]]


def names() -> dict[str, str]:
    """ncu's names of counters, and their names in words, in the order of contracts/metrics.yaml."""
    groups = load_yaml(METRICS).values()
    return {metric["ncu"]: metric["label"] for group in groups for metric in group.values()}


def counter_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Of `differences`, what --table writes: kernels in the catalogue's order, counters in that of `names`."""
    words = names()
    rows = rows.assign(place=rows["metric"].map(list(words).index), counter=rows["metric"].map(words))
    order = {variant: number for number, variant in enumerate(dict.fromkeys(rows["variant"]))}
    rows = rows.assign(kernel=rows["variant"].map(order)).sort_values(["kernel", "n", "place"], kind="stable")
    return rows[["variant", "label", "n", "counter", "metric", "predicted", "measured", "difference_percent"]]


def draw(measured: Measured, predictions: pd.DataFrame) -> plt.Figure:
    """The figure: a row per counter, exact predictions at its left edge; the kernel farthest off is named."""
    rows = differences(measured.counters, predictions)
    if rows.empty:
        return style.left_out(measured, "Predicted against measured counters", measured.reason("profile"))
    labels = {name: label for name, label in names().items() if name in set(rows["metric"])}
    places = {name: place for place, name in enumerate(labels)}
    size = rows["difference_percent"].abs()
    exact = size <= 100 * EXACT
    figure, axes = plt.subplots(figsize=(style.WIDTH, 1.0 + 0.2 * len(labels)))
    kinds = rows["variant"].map(measured.variants.set_index("variant")["dtype"]).replace(SIXTEEN_BITS)
    rows = rows.assign(x=size.where(~exact, LEFT).clip(lower=LEFT), y=rows["metric"].map(places), of=kinds)
    for number, (kind, part) in enumerate(rows.groupby("of", sort=False)):
        shift = 0.3 * (number - (kinds.nunique() - 1) / 2)
        look = {"color": style.LINES[number], "marker": style.MARKERS[number]}
        axes.scatter(part["x"], part["y"] + shift, s=14, label=f"{kind} kernels", zorder=3, **look)
    for _, part in rows[rows["x"] > NAMED].groupby("metric"):
        worst = part.loc[part["x"].idxmax()]
        axes.text(1.3 * worst["x"], worst["y"], worst["label"], va="center", fontsize=7, color=style.INK)
    for name, part in exact.groupby(rows["metric"]):
        text = f"{int(part.sum())} of {len(part)} exact"
        axes.text(1.01, places[name], text, transform=axes.get_yaxis_transform(), va="center", color=style.INK)
    axes.set(xscale="log", xlim=(0.6 * LEFT, 4000), ylim=(len(labels) - 0.5, -0.5))  # room for names on the right
    axes.set_xticks([LEFT * 10**power for power in range(7)], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_yticks(list(places.values()), list(labels.values()))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both")
    axes.set_xlabel("difference, % of the measured count; exact at the left edge")
    figure.legend(loc="outside upper center", ncols=kinds.nunique(), frameon=False, handletextpad=0.2)
    style.note(figure, measured, "predicted by ptxsim from the PTX of this tree", withheld=False)
    return figure


def main() -> None:
    parser = figure_arguments(__doc__)
    parser.add_argument("--predictions", required=True, type=Path, metavar="FILE", help="predictions.csv of this tree")
    parser.add_argument("--table", type=Path, metavar="FILE.csv", help="write the numbers behind the figure there")
    args = parser.parse_args()
    measured, predictions = read(args), table(read_rows(args.predictions, "counters"), "counters")
    if args.table:
        write_csv(args.table, counter_table(differences(measured.counters, predictions)), digits=9)
    style.save(draw(measured, predictions), args.out)


if __name__ == "__main__":
    run_command(main)
