"""Copies a machine's measurements to data/MACHINE, whole and checked.

What an earlier run left there and this one did not make stays; archived.json says of each file
which run it is from, and has its checksum, by which whoever reads an archive knows it again.

    python -m experiments.stages.archive add results/h200 data/h200
    python -m experiments.stages.archive add results/h200 data/h200-2      # a second machine of that model
    python -m experiments.stages.archive add results/h200 data/h200 --only timing_methods.csv
    python -m experiments.stages.archive add results/no-gpu data/h200 --only bounds.csv    # emulated
    python -m experiments.stages.archive add-tests results/gpu-tests.txt data/h200    # of `make test-gpu`
    python -m experiments.stages.archive check data/h200    # whole: every table, no kernel changed
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from contracts import (
    REHEARSAL,
    UserError,
    atomic_write,
    choose,
    is_rehearsal,
    read_json,
    read_rows,
    run_command,
    write_json,
    write_text,
)
from contracts.files import checksum, read_bytes
from contracts.rows import (
    ORIGINS,
    TABLES,
    Archived,
    Machine,
    Origin,
    Provenance,
    Run,
    Table,
    code_hashes,
)
from contracts.samples import read_samples
from experiments.stages.machine_code import code_by
from experiments.stages.provenance import git, origin
from kernels import catalogue

logger = logging.getLogger(__name__)

TESTS = "gpu-tests.txt"  # `make test-gpu` reports this.
LIMIT_BYTES = 6_000_000
REHEARSING = "GEMM_LADDER_REHEARSAL"  # "1" in the environment lets data/rehearsal take a rehearsal.
# Of an older commit it keeps no archive from being whole: no time or counter depends on it, and
# analysis leaves out its rows of other machine code.
MAY_BE_OLDER = "sanitizer.csv"
MAX_NAMED = 3  # A line names no more kernels.


def main() -> int:
    parser = argparse.ArgumentParser(description="Archive a machine's measurements.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("add", help="copy the tables of a run")
    command.add_argument("measured", type=Path, help="for instance results/h200")
    command.add_argument("data", type=Path, help="for instance data/h200")
    words = "of the tables that `all` does not make, these alone"
    command.add_argument("--only", nargs="+", default=[], metavar="FILE", help=words)
    command = commands.add_parser("add-tests", help="keep what make test-gpu reported")
    command.add_argument("report", type=Path)
    command.add_argument("data", type=Path)
    command = commands.add_parser(
        "check", help="report an archive's faults, and what changed since"
    )
    command.add_argument("data", type=Path)
    options = parser.parse_args()
    if options.command == "check":
        return check(options.data)
    if options.command == "add-tests":
        archive_tests(options.report, options.data)
    else:
        add(options.measured, options.data, options.only)
    return 0


def add(measured: Path, data: Path, only: list[str]) -> None:
    """Copy the tables of a results folder to an archive, whole and checked.

    only: of the tables that `all` does not make, these alone. Raises `UserError`, with nothing
    copied, for what is missing, not sound, or too large.
    """
    require_no_rehearsal(measured, data)
    known = {table.file: table for table in TABLES.values() if table.archive != "never"}
    optional = {
        file: table for file, table in known.items() if table.optional or not table.needs_gpu
    }
    for name in only:
        choose(optional, name, "file", "--only")
    whole = [file for file, table in known.items() if not table.optional]
    emulated = bool(only) and all(is_emulated(measured / name, known[name]) for name in only)
    by_name = bool(only) and not (measured / "provenance.json").is_file()
    missing = [name for name in only or whole if not (measured / name).is_file()]
    if missing:
        by = "measure it" if only else "run snakemake all"
        raise UserError(f"{measured}: nothing to archive, {missing[0]} is missing; {by} on a GPU")
    names = only or [name for name in known if name in whole or (measured / name).is_file()]
    now = hashes_of(measured) if by_name and not emulated else None
    for name in names:
        require_sound(measured / name, known[name].model)
        if now:  # This checkout says what was measured.
            require_current(measured / name, known[name].model, now)
    if emulated or by_name:
        targets = dict.fromkeys(known[name].target for name in names)
        provenance = origin(" ".join(["snakemake", "--cores", "1", *targets]))
    else:
        provenance = read_json(measured / "provenance.json", Provenance)
    size = sum((measured / name).stat().st_size for name in names)
    if size > LIMIT_BYTES:
        raise UserError(
            f"{measured} holds {size / 1e6:.1f} MB; an archive is at most {LIMIT_BYTES / 1e6:.0f} MB"
        )
    for name in names:
        model = known[name].model
        document = read_json(measured / name, model) if name.endswith(".json") else None
        # This may be a second card of one model, or another day.
        if document and getattr(document, "machine", data.name) != data.name:
            renamed = document.model_copy(update={"machine": data.name})
            write_json(data / name, model, renamed)
            continue
        with atomic_write(data / name) as temporary:
            shutil.copyfile(measured / name, temporary)
    record_origin(data, names, provenance)
    logger.info(f"archived {len(names)} files, {size / 1e6:.2f} MB, in {data}")
    for target, files in missing_tables(data).items():
        logger.info(f"not in it: {', '.join(files)}; made by: snakemake --cores 1 {target}")


def archive_tests(report: Path, data: Path) -> None:
    """Archive what `make test-gpu` reported.

    Raises `UserError` for a report of another GPU, or of no clean commit.
    """
    text = report.read_text() if report.is_file() else ""
    fields = dict(re.findall(r"^(commit|GPU): (.+)$", text, re.M))
    gpu = read_json(data / "provenance.json", Provenance).gpu
    if fields.get("GPU") != gpu:
        raise UserError(
            f"{report}: of {fields.get('GPU', 'no GPU')!r}, and {data} is of {gpu!r}; run make test-gpu there"
        )
    if not re.fullmatch("[0-9a-f]{40}", fields.get("commit", "")):
        raise UserError(
            f"{report}: of commit {fields.get('commit', 'unknown')!r}; allowed: one commit, without changes"
        )
    write_text(data / TESTS, text)


def require_no_rehearsal(measured: Path, data: Path) -> None:
    """Raise `UserError` for made-up times, unless a rehearsal writes them to data/rehearsal."""
    models: dict[str, type[Machine | Provenance]] = {
        "machine.json": Machine,
        "provenance.json": Provenance,
    }
    paths = {measured / name: model for name, model in models.items()}
    gpus = [read_json(path, model).gpu for path, model in paths.items() if path.is_file()]
    allowed = (
        data.resolve().parts[-2:] == ("data", "rehearsal") and os.environ.get(REHEARSING) == "1"
    )
    if any(map(is_rehearsal, [*gpus, *measured.name.split("-")])) and not allowed:
        raise UserError(f"{measured}: {REHEARSAL}; not archived in {data}")


def missing_tables(folder: Path) -> dict[str, list[str]]:
    """Return the files that an archive may have and this one lacks, by the target that makes them."""
    missing: dict[str, list[str]] = {}
    for table in TABLES.values():
        if (
            table.archive == "if there"
            and table.target != "by hand"
            and not (folder / table.file).is_file()
        ):
            missing.setdefault(table.target, []).append(table.file)
    return missing


def check(folder: Path) -> int:
    """Log the faults of an archive and what changed since; return 1 where it is not whole."""
    for line in (faults := find_faults(folder)):
        logger.warning(f"{folder}: {line}")
    for line in since(folder):
        logger.info(line)
    logger.info(f"{folder} is {'not whole' if faults else 'whole'}")
    return int(bool(faults))


def find_faults(folder: Path) -> list[str]:
    """Return what keeps an archive from being whole, a line each.

    It is whole where its folder, machine.json and provenance.json name one machine and one GPU,
    every table that must be archived is there, of one commit and a clean tree, as it was archived
    (by its checksum) and as its model has it, and no row is of other machine code than
    resources.csv has for this tree's sources. Tables that need no GPU and `MAY_BE_OLDER` may be of
    another commit. A rehearsal is whole with the tables that `all` makes.
    """
    origins = read_json(folder / ORIGINS, Archived).root
    targets = (
        {"all"} if is_rehearsal(folder.name) else {t.target for t in TABLES.values()} - {"by hand"}
    )
    tables = {t.file: t for t in TABLES.values() if t.archive != "never" and t.target in targets}
    there = [file for file in tables if (folder / file).is_file()]
    runs = {file: origins[file] for file in there if file in origins}
    changed = [file for file, run in runs.items() if checksum_of(folder / file) != run.sha256]
    lists = {
        "missing": [file for file in tables if file not in there],
        f"of no run that {ORIGINS} knows": [file for file in there if file not in runs],
        "of a tree with changes": [file for file, run in runs.items() if not run.commit_clean],
        "not as archived": changed,
    }
    faults = [f"{what}: {', '.join(files)}" for what, files in lists.items() if files]
    by_commit: dict[str, list[str]] = {}
    for file, run in runs.items():
        if tables[file].needs_gpu and file != MAY_BE_OLDER:
            by_commit.setdefault(_run(run), []).append(file)
    if len(by_commit) > 1:
        largest = max(by_commit.values(), key=len)
        parts = [
            f"{run}{'' if files is largest else ': ' + ', '.join(files)}"
            for run, files in by_commit.items()
        ]
        faults.append(f"of {len(by_commit)} commits: {'; '.join(parts)}")
    sound = []
    for file in (file for file in there if file not in changed):
        try:
            require_sound(folder / file, tables[file].model)
            sound.append(file)
        except UserError as error:
            faults.append(str(error).removeprefix(f"{folder}/"))
    faults += misnamed(folder, {Path(file).stem for file in sound})
    now = hashes_of(folder) if "resources.csv" in sound else {}
    for file in (file for file in sound if file != MAY_BE_OLDER):
        try:
            require_current(folder / file, tables[file].model, now)
        except UserError as error:
            of_run = f" ({file} is of {_run(runs[file])})" if file in runs else ""
            faults.append(f"{str(error).removeprefix(f'{folder}/')}{of_run}")
    return faults


def _run(run: Run) -> str:
    """Return a run in a few words: its commit, and the date on which it began."""
    return f"commit {run.commit[:12]} of {run.date}"


def since(folder: Path) -> list[str]:
    """Return at which commits an archive was measured, and what changed since in its rules."""
    try:
        provenance = read_json(folder / "provenance.json", Provenance)
    except UserError as error:
        return [f"what changed since is not known: {error}"]
    measured = measured_at(provenance)
    lines = [
        f"measured at {commits}: {count} measurements of sessions that ran there"
        for commits, count in measured
    ]
    origins = read_json(folder / ORIGINS, Archived).root
    if (older := origins.get(MAY_BE_OLDER)) and older.commit != provenance.commit:
        lines.append(f"{MAY_BE_OLDER} is of {_run(older)}; rows of other machine code are left out")
    frozen = (provenance.rules_commit or provenance.commit)[:12]
    listed = f"git diff {frozen} -- analysis paper experiments"
    changed = git("diff", "--shortstat", frozen, "--", ":/analysis", ":/paper", ":/experiments")
    if changed is None:
        return [*lines, f"rules frozen at {frozen}; this repository lacks {frozen}"]
    sizes = git("diff", "--name-only", frozen, "--", ":/experiments/*.yaml") or ""
    names = [Path(line).stem for line in sizes.splitlines()]
    return [
        *lines,
        f"rules frozen at {frozen}; since then: {changed.strip() or 'none changed'} ({listed});"
        " docs/changes-after-data.md says which rules",
        f"experiments whose sizes or kernels may have changed since: {', '.join(names) or 'none'}",
    ]


def measured_at(provenance: Provenance) -> list[tuple[str, int]]:
    """Return the commits at which sessions ran, and how many measurements these made.

    A session that ran at several commits counts under all of them together: "29e90166cac1 and
    ab7b52796b37".
    """
    counts: dict[str, int] = {}
    for session in provenance.sessions or []:
        commits = (
            " and ".join(commit[:12] for commit in session.commits or []) or "an unknown commit"
        )
        counts[commits] = counts.get(commits, 0) + session.measurements
    return list(counts.items())


def misnamed(folder: Path, kinds: Collection[str] = ("machine", "provenance")) -> list[str]:
    """Return what an archive says wrongly of its machine: another name, another GPU, or none.

    kinds: the names of its tables that can be read.
    """
    models: dict[str, type[Machine] | type[Provenance]] = {
        "machine": Machine,
        "provenance": Provenance,
    }
    recorded = {
        f"{kind}.json": read_json(folder / f"{kind}.json", model)
        for kind, model in models.items()
        if kind in kinds and (folder / f"{kind}.json").is_file()
    }
    faults = [f"{file} names no GPU" for file, record in recorded.items() if not record.gpu.strip()]
    faults += [
        f"{file} is of machine {record.machine!r}, not {folder.resolve().name!r}"
        for file, record in recorded.items()
        if record.machine != folder.resolve().name
    ]
    if len(gpus := {record.gpu for record in recorded.values() if record.gpu.strip()}) > 1:
        faults.append(f"of {len(gpus)} GPUs: {', '.join(sorted(gpus))}")
    return faults


def is_emulated(path: Path, table: Table) -> bool:
    """Return whether a table rests on no GPU, so that no GPU's provenance goes with it.

    Such a table needs no GPU, or the emulator can make it and it holds nothing else.
    """
    if not table.needs_gpu:
        return True
    if not (table.emulates and path.is_file()):
        return False
    return {row.device for row in read_rows(path, table.model)} == {"ptxsim"}


def require_sound(path: Path, model: type[Any]) -> None:
    """Raise `UserError` for a file that its model does not allow, or that reports a failed check."""
    if path.suffix == ".parquet":
        read_samples(path)
    elif path.suffix == ".json":
        read_json(path, model)
    else:
        failed = [row for row in read_rows(path, model) if getattr(row, "passed", None) is False]
        if failed:
            row = failed[0]
            check = getattr(row, "case", None) or getattr(row, "tool", None) or path.stem
            raise UserError(
                f"{path.parent}: {row.variant} failed its check {check!r}; not archived"
            )


def hashes_of(folder: Path) -> dict[str, str | None]:
    """Return the code hash of each entry as it is now.

    The folder's resources.csv says which machine code the sources of this tree stand for; None
    where it has another source.
    """
    built = code_hashes(folder / "resources.csv")

    def of_kernel(kernel: catalogue.Variant) -> str | None:
        return built.get((kernel.name, kernel.source_hash))

    return {name: code_by(entry, of_kernel) for name, entry in catalogue.load().items()}


def require_current(path: Path, model: type[Any], now: Mapping[str, str | None]) -> None:
    """Raise `UserError` for a table with a row of machine code that is not that of `now`.

    Rows of kernels that the catalogue no longer has are kept: analysis leaves them out.
    """
    rows = (
        [row for row in read_rows(path, model) if getattr(row, "variant", None) in now]
        if path.suffix == ".csv"
        else []
    )
    if changed := list(
        dict.fromkeys(
            row.variant
            for row in rows
            if getattr(row, "code_hash", None) and row.code_hash != now[row.variant]
        )
    ):
        more = f" and {len(changed) - MAX_NAMED} more" if len(changed) > MAX_NAMED else ""
        verb = "was" if len(changed) == 1 else "were"
        raise UserError(
            f"{path}: {', '.join(changed[:MAX_NAMED])}{more} {verb} measured with other machine code than "
            "resources.csv has for the source as it is now; build it, and archive resources.csv again or measure the "
            "kernel again"
        )


def record_origin(folder: Path, names: list[str], provenance: Run) -> None:
    """Write to archived.json which run these files are from, with their checksums."""
    origins = read_json(folder / ORIGINS, Archived).root if (folder / ORIGINS).is_file() else {}
    run = {key: getattr(provenance, key) for key in ("date", "commit", "commit_clean", "command")}
    of_run = {name: Origin(**run, sha256=checksum_of(folder / name)) for name in names}
    write_json(folder / ORIGINS, Archived, Archived(dict(sorted((origins | of_run).items()))))


def checksum_of(path: Path) -> str:
    return checksum(read_bytes(path, LIMIT_BYTES))


if __name__ == "__main__":
    run_command(main)
