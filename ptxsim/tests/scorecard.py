"""Runs suites of racy and race-free programs that others publish, and writes what ptxsim says of each.

    make scorecard SCOR=/path/to/ScoR INDIGO=/path/to/HiRace-Artifact-SC24/indigo [EVERY=10]

Nothing of a suite is copied here. ScoR is https://github.com/csl-iisc/ScoR, and the Indigo codes are
those of https://github.com/JohnJacobsonIII/HiRace-Artifact-SC24. The names of the programs say whether
they race; the script builds each with `ptxsim nvcc`, unchanged, and runs it with `ptxsim exec`. The
table goes to docs/scorecard.md between its marks, one row for each program to scorecard.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

RACY = re.compile(r"atomicBug|guardBug|raceBug|syncBug")
THREADS, BLOCKS = 64, 128  # of an Indigo code: a thread, warp or block for each of 100 vertices
BEGIN, END = "<!-- scorecard -->", "<!-- end of scorecard -->"


@dataclass(frozen=True)
class Program:
    """A program of a suite. racy: what its name says. options: of nvcc. arguments: its own.

    plain: `volatile` is deleted from its source before it is built.
    """

    suite: str
    name: str
    source: Path
    racy: bool
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    plain: bool = False


@dataclass(frozen=True)
class Outcome:
    """What ptxsim says of a program. verdict: "race", "note", "silent", "other fault" or why there is none."""

    suite: str
    program: str
    racy: bool
    verdict: str
    kinds: str  # of the faults, with how many of each
    seconds: float  # of building and running
    message: str  # the first fault or note


def scor(folder: Path) -> Iterator[Program]:
    """Yield the microbenchmarks of ScoR, as written and without `volatile`.

    A volatile access is a relaxed one to PTX, and two of these do not race.
    """
    for source in sorted((folder / "microbenchmarks" / "src").glob("*.cu")):
        racy = source.stem.startswith("race")
        yield Program("ScoR", source.stem, source, racy)
        yield Program("ScoR, plain", source.stem, source, racy, plain=True)


def indigo(folder: Path) -> Iterator[Program]:
    """Yield the Indigo codes, without those that go out of bounds on purpose."""
    options = ("-I", str(folder / "indigo_include"))
    graph = str(folder / "input" / "DAG_100n_200e.egr")
    for source in sorted((folder / "indigo_sources").glob("*/*.cu")):
        if "boundsBug" not in source.stem:
            racy = bool(RACY.search(source.stem))
            arguments = (graph, str(THREADS), str(BLOCKS))
            yield Program("Indigo", source.stem, source, racy, options, arguments)


def outcome(program: Program, limit_s: float) -> Outcome:
    """Build and run a program."""
    start = time.monotonic()
    command = [sys.executable, "-m", "ptxsim"]

    def told(verdict: str, kinds: str = "", message: str = "") -> Outcome:
        seconds = round(time.monotonic() - start, 1)
        return Outcome(
            program.suite, program.name, program.racy, verdict, kinds, seconds, message[:300]
        )

    with tempfile.TemporaryDirectory(prefix="scorecard-") as temporary:
        folder, source = Path(temporary), program.source
        if program.plain:
            source = folder / source.name
            source.write_text(re.sub(r"\bvolatile\b ?", "", program.source.read_text()))
        build = [*command, "nvcc", "-o", str(folder / "program"), *program.options]
        done = subprocess.run([*build, str(source)], capture_output=True, text=True)
        if done.returncode:
            return told("does not build", message=(done.stderr.strip().splitlines() or [""])[-1])
        run = [*command, "exec", "--quiet", "--sarif", "faults.sarif", "--report", "report.json"]
        try:
            done = subprocess.run(
                [*run, "./program", *program.arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            return told(f"no end in {limit_s:g} s")
        if not (folder / "faults.sarif").is_file():
            return told("no report", message=(done.stderr.strip().splitlines() or [""])[-1])
        faults = json.loads((folder / "faults.sarif").read_text())["runs"][0]["results"]
        launches = json.loads((folder / "report.json").read_text())["launches"]
    kinds = Counter(fault["ruleId"] for fault in faults)
    notes = [note for launch in launches for note in launch["notes"]]
    messages = [fault["message"]["text"] for fault in faults] or notes
    verdict = (
        "race" if kinds["race"] else "other fault" if faults else "note" if notes else "silent"
    )
    words = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return told(verdict, words, messages[0] if messages else "")


def table(outcomes: list[Outcome]) -> str:
    """Return the counts of each suite as Markdown, and the programs whose verdict is not their name's."""
    verdicts = ["race", "note", "silent", "other fault"]
    lines = ["| suite | by its name | programs | " + " | ".join(verdicts) + " | no verdict |"]
    lines.append("|---|---|" + "---|" * (len(verdicts) + 2))
    for suite, racy in dict.fromkeys((o.suite, o.racy) for o in outcomes):
        told = Counter(o.verdict for o in outcomes if (o.suite, o.racy) == (suite, racy))
        cells = [told[verdict] for verdict in verdicts]
        total = sum(told.values())
        name = "racy" if racy else "race-free"
        row = [suite, name, total, *cells, total - sum(cells)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    odd = [o for o in outcomes if (o.verdict != "race") if o.racy or o.verdict != "silent"]
    odd += [o for o in outcomes if not o.racy and o.verdict == "race"]
    lines += [
        "",
        "| suite | program | by its name | verdict | first message |",
        "|---|---|---|---|---|",
    ]
    for o in odd:
        message = o.message.replace("|", "\\|")[:120]
        name = "racy" if o.racy else "race-free"
        lines.append(f"| {o.suite} | {o.program} | {name} | {o.verdict} | {message} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run published race suites on ptxsim.")
    suites: dict[str, Callable[[Path], Iterator[Program]]] = {"scor": scor, "indigo": indigo}
    for name in suites:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="where the suite lies")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each N-th program")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a program")
    parser.add_argument("--out", type=Path, help="CSV, one row for each program")
    parser.add_argument("--page", type=Path, help="Markdown whose table is written anew")
    options = parser.parse_args()
    programs: list[Program] = []
    for name, programs_of in suites.items():
        if folder := getattr(options, name):
            if not (own := list(programs_of(folder))):
                parser.error(f"--{name} {folder}: no program of the suite lies there")
            programs += own[:: options.every]
    if not programs:
        parser.error("no suite is named; allowed: --scor DIR, --indigo DIR")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda program: outcome(program, options.limit), programs))
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
            writer.writeheader()
            writer.writerows(map(asdict, outcomes))
    text = table(outcomes)
    print(text)
    if options.page:
        before, _, rest = options.page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        options.page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
