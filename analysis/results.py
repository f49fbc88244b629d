"""One GPU's recorded tables, in results/<gpu> or data/<gpu>, joined with the catalogue of kernels.

    results = Results(Path("data/h100"), Path("results/variants.csv"))
    results.timings                       # analysis.timings, of kernels that passed every check
    results.counters                      # one row for each variant and size, a column for each counter
    results.table("resources")            # any recorded table (contracts) as a frame, with the catalogue's columns

Rows of a kernel that failed a check are left out of everything that shows its speed. So is a row
whose machine code or launch is not what this tree builds. `Results.reasons` alone decides, and
`Results.left_out` says what and why: commands print it (`tell_left_out`), figures and documents
show it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel

from analysis import counters
from analysis.timings import KEY, by_process, timings
from contracts import (
    REHEARSAL,
    UserError,
    choose,
    is_rehearsal,
    read_json,
    read_rows,
)
from contracts.files import digest
from contracts.rows import (
    ORIGINS,
    TABLES,
    Archived,
    Machine,
    Provenance,
    Variants,
    code_hashes,
)
from contracts.samples import read_samples
from contracts.worklogs import OURS

CATALOGUE = Path("results/variants.csv")
DATA = Path("data")  # It has a folder for each archive.
BUILT = "resources.csv"  # It has the machine code of each source.
OF_CATALOGUE = ["label", "kind", "family", "dtype", "tensor", "order", "builds_on", "baseline"]
OF_CATALOGUE += ["worklog"]
LIBRARY = "library"  # The worklog of baselines.
CHANGED = "its machine code differs from what this tree builds"
UNBUILT = f"no code hash: {BUILT} does not have its source as it is now"
NO_BUILDS = f"no code hash: {BUILT} is missing"
GONE = "not in the catalogue"
FAILED = "failed the check"  # The case follows.
# For these reasons rows of an archive may not count, though it is complete.
OLDER = {CHANGED, UNBUILT, GONE}
# One line has room for so many names; of more, it has the first `FIRST`.
MAX_NAMES, FIRST = 8, 5


@dataclass(frozen=True)
class LeftOut:
    """A kernel whose rows do not count or, with `row`, one row of it: "sgemm_ladder 4096
    uniform".
    """

    label: str
    reason: str
    row: str = ""


def frame(rows: Sequence[BaseModel], model: type[BaseModel]) -> pd.DataFrame:
    """Return the rows of a table as a frame with all columns of `model`."""
    return pd.DataFrame([vars(row) for row in rows], columns=list(model.model_fields))


class Results:
    """The tables of one folder. Each is read when it is first asked for; frames are never changed
    in place.

    folder: results/<gpu>, results/<gpu>/only/<experiment> or data/<gpu>. catalogue: variants.csv of
    this tree. here: where this tree's own build and emulation are, results/no-gpu on a machine
    without a GPU; its tables (resources, predictions, bounds, checks on the emulator) come before
    those of `folder`, variant by variant.
    """

    def __init__(self, folder: Path, catalogue: Path, here: Path | None = None) -> None:
        if not folder.is_dir():
            needed = "a folder with machine.json, provenance.json and tables is needed"
            raise UserError(f"{folder}: no such folder; {needed}")
        self.folder, self.catalogue, self.here = folder, catalogue, here

    # ---- tables ----------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """The file of a recorded table; it need not be there.

        Raises `UserError` for a name that is none.
        """
        table = choose(TABLES, name, "table", "a table's name")
        here = self.here / table.file if self.here and not table.needs_gpu else None
        return here if here and here.is_file() else self.folder / table.file

    def has(self, name: str) -> bool:
        """Whether a recorded table is there."""
        return self.path(name).is_file()

    def raw(self, name: str) -> pd.DataFrame:
        """A recorded CSV table as it is; no rows where it is not there."""
        if name not in self._read:
            self._read[name] = self._frame(name)
        return self._read[name]

    def _frame(self, name: str) -> pd.DataFrame:
        table, path = choose(TABLES, name, "table", "a table's name"), self.path(name)
        rows = read_rows(path, table.model) if path.is_file() else []
        recorded = self.folder / table.file
        if (
            path != recorded and recorded.is_file()
        ):  # It has variants that this tree's run left out.
            variants = {row.variant for row in rows}
            rows += [row for row in read_rows(recorded, table.model) if row.variant not in variants]
        return frame(rows, table.model)

    @cached_property
    def _read(self) -> dict[str, pd.DataFrame]:
        return {}

    def table(self, name: str, passed: bool = False) -> pd.DataFrame:
        """A recorded table of variants, described; passed: without those that failed a check, as
        speeds must be.
        """
        return self.described(self.raw(name), passed)

    def described(self, rows: pd.DataFrame, passed: bool = False) -> pd.DataFrame:
        """The rows that count (`reasons`), in the catalogue's order, with `OF_CATALOGUE` joined."""
        columns = [name for name in OF_CATALOGUE if name not in rows or name == "variant"]
        counting = rows[self.reasons(rows, passed).isna()]
        joined = counting.merge(self.variants[["variant", *columns]], on="variant", how="inner")
        return joined.sort_values("order", kind="stable", ignore_index=True)

    def reasons(self, rows: pd.DataFrame, passed: bool = True) -> pd.Series:
        """Why each of some rows of variants does not count; null where it does.

        A row counts where the catalogue has its variant, its machine code is that of this tree and,
        with `passed`, the variant failed no check. Of windows.csv, no process of the same row may
        have failed, or been left out.
        """
        reasons = pd.Series(None, rows.index, object)
        # A window that failed or was left out takes the other processes of its row with it.
        if {"left_out", *KEY} <= {*rows.columns}:
            failed = ~rows["passed"].astype(bool)
            of_window = (
                rows["left_out"].astype(object).mask(failed, "failed its check after timing")
            )
            by_row = of_window.groupby([rows[name] for name in KEY], dropna=False)
            reasons = by_row.transform("first").astype(object)
        if "code_hash" in rows:
            now = rows["variant"].map(self.variants.set_index("variant")["code_hash"])
            reasons[now.notna() & (now != rows["code_hash"])] = CHANGED
            reasons[now.isna()] = UNBUILT if self.has("resources") else NO_BUILDS
        if passed:
            cases = {row.variant: f"{FAILED} {row.case!r}" for row in records(self.failed)}
            reasons = rows["variant"].map(cases).astype(object).fillna(reasons)
        reasons[~rows["variant"].isin(self.variants["variant"])] = GONE
        return reasons.where(reasons.notna(), None)

    def names_left_out(self, rows: pd.DataFrame) -> list[LeftOut]:
        """What of some rows does not count, each once, in the catalogue's order."""
        reasons = self.reasons(rows)
        left_out = []
        for row, reason in zip(records(rows[reasons.notna()]), reasons.dropna(), strict=True):
            of_kernel = reason in OLDER or reason.startswith((NO_BUILDS, FAILED))
            problem = "" if of_kernel else f"{row.experiment} {problem_of(row)} {row.data}"
            left_out.append(LeftOut(self.label(row.variant), reason, problem))
        return self._in_order(left_out)

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """What was timed, counted or checked here and does not count, in the catalogue's order."""
        tables = ("windows", "counters", "checks", "emulated_checks")
        parts = [self.names_left_out(self.raw(name)) for name in tables]
        return self._in_order(kernel for part in parts for kernel in part)

    def _in_order(self, left_out: Iterable[LeftOut]) -> list[LeftOut]:
        """Return each once, in the catalogue's order."""
        order = {label: index for index, label in enumerate(self.variants["label"])}
        return sorted(
            dict.fromkeys(left_out), key=lambda kernel: order.get(kernel.label, len(order))
        )

    @cached_property
    def provenance(self) -> Provenance:
        """provenance.json: when and with what the folder was measured."""
        return read_json(self.folder / "provenance.json", Provenance)

    @cached_property
    def machine(self) -> Machine:
        """machine.json: the GPU, its limits and its measured ceilings."""
        return read_json(self.folder / "machine.json", Machine)

    @cached_property
    def variants(self) -> pd.DataFrame:
        """The catalogue: variant, label (unique), kind ("kernel", "dispatcher" or "baseline"),
        family, dtype, tensor, builds_on, baseline, source, idea, source_hash, code_hash, `order`
        and `worklog`, the folder of the worklog that it is from, or `OURS` or `LIBRARY`.

        An `origin` starts with the name of a worklog's folder. code_hash is of what this tree
        builds. It is None where neither this tree's build nor the folder's resources.csv has this
        source: then nothing shows that what was measured is what this tree builds.
        """
        rows = frame(read_rows(self.catalogue, Variants), Variants)
        rows = rows.assign(order=range(len(rows)), code_hash=self._code_hashes(rows))
        folder = rows["origin"].astype("string").str.partition(":")[0].fillna(OURS).astype(str)
        rows["worklog"] = folder.where(rows["kind"] != "baseline", LIBRARY)
        for longer in (rows["label"] + " " + rows["dtype"], rows["variant"]):
            rows["label"] = rows["label"].where(~rows["label"].duplicated(keep=False), longer)
        return rows

    def _code_hashes(self, entries: pd.DataFrame) -> pd.Series:
        """The code hash of each entry of the catalogue; None where it is not known."""
        arch = self.machine.arch if self.has("machine") else None
        built = dict(code_hashes(self.folder / BUILT, arch))
        if self.here:
            built |= code_hashes(self.here / BUILT, arch)
        sources = dict(zip(entries["variant"], entries["source_hash"], strict=True))

        def of(entry: Any) -> str | None:
            if entry.kind == "baseline":
                return str(entry.source_hash)
            if entry.kind == "kernel":
                return built.get((entry.variant, entry.source_hash))
            hashes = [built.get((name, sources[name])) for name in entry.kernels.split()]
            return None if None in hashes else digest(entry.source_hash, *map(str, hashes))

        return pd.Series([of(entry) for entry in records(entries)], entries.index, object)

    def label(self, variant: str) -> str:
        """A variant's name in figures; its own name where the catalogue does not have it."""
        return self._labels.get(variant, variant)

    @cached_property
    def _labels(self) -> dict[str, str]:
        return dict(zip(self.variants["variant"], self.variants["label"], strict=True))

    # ---- what is measured ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The folder's name for its GPU model: "h100"."""
        parts = self.folder.parts
        return parts[-3] if "only" in parts[-2:] else self.folder.name

    @property
    def archived(self) -> bool:
        """Whether the folder is an archive, data/<gpu>."""
        return self.folder.parent.name == "data"

    @property
    def gpu(self) -> str:
        """The GPU as NVIDIA names it: "NVIDIA H100 80GB HBM3"."""
        return self.provenance.gpu

    @property
    def model(self) -> str:
        """The GPU in a sentence: "H100"."""
        return self.name.upper()

    @cached_property
    def note(self) -> str:
        """What a reader has to know of every number of this folder: `REHEARSAL`, or nothing."""
        return REHEARSAL if is_rehearsal(self.gpu) else ""

    @property
    def date(self) -> str:
        return self.provenance.date

    def date_of(self, name: str) -> str:
        """When a recorded table was measured: in an archive it may be of another run than the
        rest.
        """
        path = self.folder / ORIGINS
        origins = read_json(path, Archived).root if path.is_file() else {}
        origin = origins.get(choose(TABLES, name, "table", "a table's name").file)
        return origin.date if origin else self.date

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Every correctness case, on the GPU and on the emulator; for an archive, of this tree's
        emulation.
        """
        rows = self.table("checks")
        if self.here and self.has("emulated_checks"):
            parts = [rows[rows["device"] != "ptxsim"], self.table("emulated_checks")]
            rows = pd.concat([part for part in parts if len(part)], ignore_index=True)
        return rows

    @cached_property
    def failed(self) -> pd.DataFrame:
        """The first failed case of each variant that failed one: variant, label, case, detail."""
        failed = self.checks[~self.checks["passed"].astype(bool)].drop_duplicates("variant")
        return failed[["variant", "label", "case", "detail"]].reset_index(drop=True)

    @cached_property
    def timings(self) -> pd.DataFrame:
        """`analysis.timings` with the catalogue's columns: all problems, clock policies and kinds
        of data.
        """
        return self._timed(timings)

    @cached_property
    def by_process(self) -> pd.DataFrame:
        """The same of each process, with its session: one GPU during one boot of its machine."""
        return self._timed(by_process)

    def _timed(self, function: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        windows, path = self.raw("windows"), self.path("samples")
        samples = read_samples(path).to_pandas() if path.is_file() else pd.DataFrame()
        if windows.empty or samples.empty:
            needed = "windows.csv and samples.parquet are needed"
            raise UserError(f"{self.folder}: nothing was timed; {needed}")
        rows = function(windows, samples, self.machine.sm_count, self.path("windows"))
        return self.described(rows, passed=True)

    @cached_property
    def squares(self) -> pd.DataFrame:
        """Timings of squares, m = n = k, with alpha = 1 and beta = 0."""
        return squares(self.timings)

    @cached_property
    def counters(self) -> pd.DataFrame:
        """Nsight Compute's counters of squares: `analysis.counters.wide`."""
        return self._counted("counters")

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The same counters as the emulator predicts them."""
        return self._counted("predictions")

    def _counted(self, name: str) -> pd.DataFrame:
        return counters.wide(squares(self.table(name, passed=True)))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which commands name results folders; `of_options`, `archives_of` and
    `several` make `Results` of them.
    """
    folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}
    results = "results/GPU or data/GPU (if left out: the first archive)"
    archives = "data/GPU of each model (if left out: all)"
    parser.add_argument("--results", help=results, **folder)
    parser.add_argument("--archives", nargs="*", help=archives, **folder)
    parser.add_argument("--here", help="this tree's own build and emulation", **folder)
    add_catalogue(parser)


def add_catalogue(parser: argparse.ArgumentParser) -> None:
    """Add --catalogue."""
    file: dict[str, Any] = {"type": Path, "metavar": "FILE", "help": f"default: {CATALOGUE}"}
    parser.add_argument("--catalogue", default=CATALOGUE, **file)


def archives_of(options: argparse.Namespace) -> list[Results]:
    """Return the archives that `--archives` names, or every one of data/."""
    folders = options.archives
    if folders is None:
        folders = sorted(path.parent for path in DATA.glob("*/provenance.json"))
    return [Results(folder, options.catalogue) for folder in folders]


def of_options(options: argparse.Namespace) -> Results:
    """Return the results that `--results` names, or the first archive."""
    if options.results:
        return Results(options.results, options.catalogue, options.here)
    if not (archives := archives_of(options)):
        raise UserError(f"no archive is in {DATA}; --results names a folder of measurements")
    return Results(archives[0].folder, options.catalogue, options.here)


def several(options: argparse.Namespace) -> dict[str, Results]:
    """Return the results folders by name: `--results` first, in place of an archive of its name,
    then the archives.
    """
    leading = of_options(options)
    archives = {archive.name: archive for archive in archives_of(options)}
    return {leading.name: leading} | {**archives, leading.name: leading}


def lines_of(left_out: Iterable[LeftOut]) -> list[str]:
    """Return a line for each reason: "29 kernels, no code hash: resources.csv is missing: naive,
    coalesced, ...".
    """
    by_reason: dict[tuple[str, str], list[str]] = {}
    for kernel in left_out:
        kind = "row" if kernel.row else "kernel"
        name = f"{kernel.label} {kernel.row}".strip()
        by_reason.setdefault((kernel.reason, kind), []).append(name)
    return [
        f"{len(names)} {kind}{'s' * (len(names) > 1)}, {reason}: {listed(names)}"
        for (reason, kind), names in by_reason.items()
    ]


def listed(names: list[str]) -> str:
    """Names joined by commas: all of few, else the first ones and how many more there are."""
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:FIRST])} and {len(names) - FIRST} more"


def tell_left_out(*several: Results) -> None:
    """Print what of these folders does not count, and why, to standard error: a line for each
    folder and reason.
    """
    for results in several:
        for line in lines_of(results.left_out):
            print(f"left out of {results.folder}: {line}", file=sys.stderr)


def note_of(several: Iterable[Results]) -> str:
    """The `note` of what was made of several folders."""
    return next((results.note for results in several if results.note), "")


def problem_of(row: Any) -> str:
    """The problem of a row in a word: "4096", or "64x304x5000"."""
    return f"{row.n}" if row.m == row.n == row.k else f"{row.m}x{row.n}x{row.k}"


def squares(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with m = n = k and, where a table has alpha and beta, 1 and 0."""
    plain = (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])
    for column, value in (("alpha", 1.0), ("beta", 0.0)):
        if column in rows:
            plain &= rows[column] == value
    return rows[plain].reset_index(drop=True)


def best_measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Timings of several experiments, those with the most processes and samples first."""
    order = ["processes", "samples", "experiment"]
    return rows.sort_values(order, ascending=[False, False, True], kind="stable")


def usual(rows: pd.DataFrame) -> pd.DataFrame:
    """One timing for each variant and size, the first by `best_measured`: `boost` clocks, uniform
    data.
    """
    rows = rows[(rows["clock_policy"] == "boost") & (rows["data"] == "uniform")]
    rows = best_measured(rows).drop_duplicates(["variant", "n"])
    return rows.sort_values(["order", "n"], kind="stable", ignore_index=True)


def records(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with its columns as attributes."""
    return iter(rows.itertuples())
