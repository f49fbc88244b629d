"""Runs suites of racy and race-free programs that others publish, and writes what ptxsim says of each.

    make scorecard SCOR=/path/to/ScoR INDIGO=/path/to/HiRace-Artifact-SC24/indigo [EVERY=10]
    make scorecard SAMPLES=/path/to/cuda-samples

Nothing of a suite is copied here. ScoR is https://github.com/csl-iisc/ScoR, the Indigo codes are those
of https://github.com/JohnJacobsonIII/HiRace-Artifact-SC24, and https://github.com/NVIDIA/cuda-samples
shows false alarms. The names of the programs say whether they race; the script builds each with `ptxsim
nvcc`, unchanged, and runs it with `ptxsim exec`. The table goes to docs/scorecard.md between its marks,
one row for each program to scorecard.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
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
LACKING = re.compile(r"is not emulated|not supported")
BROKEN = re.compile(r"error|undefined reference|No such file")
THREADS, BLOCKS = 64, 128  # of an Indigo code: a thread, warp or block for each of 100 vertices
BEGIN, END = "<!-- scorecard -->", "<!-- end of scorecard -->"


@dataclass(frozen=True)
class Program:
    """A program of a suite. racy: what its name says. options: of nvcc. arguments: its own.
    text: what it reads from standard input.

    plain: `volatile` is deleted from its source before it is built. once: like launches are checked
    once, as programs that time themselves repeat them; where that does not end in time, 32 blocks of
    each later one are run. images: files of kernels, by name, that the program loads, and their sources.
    """

    suite: str
    name: str
    sources: tuple[Path, ...]
    racy: bool
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    text: str = ""
    plain: bool = False
    once: bool = False
    images: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What ptxsim says of a program. verdict: "race", "note", "silent", "other fault" or why there is none."""

    suite: str
    program: str
    racy: bool
    verdict: str
    kinds: str  # of the faults, with how many of each
    seconds: float  # of building and running
    message: str  # the first race, else the first fault or note


def scor(folder: Path) -> Iterator[Program]:
    """Yield the microbenchmarks of ScoR, as written and without `volatile`, and its applications.

    A volatile access is a relaxed one to PTX, and two of these do not race.
    """
    for source in sorted((folder / "microbenchmarks" / "src").glob("*.cu")):
        racy = source.stem.startswith("race")
        yield Program("ScoR", source.stem, (source,), racy)
        yield Program("ScoR, plain", source.stem, (source,), racy, plain=True)
    for name, text in applications().items():
        home = folder / "benchmarks" / name
        # red_main.cu includes the file of its kernels.
        sources = tuple(sorted(home.glob("*_main.cu" if name == "reduction" else "*.cu")))
        options = ("-I", str(home), "-DNTHREADS=64", "-DNBLOCKS=4")
        for racy in (False, True) if sources else ():
            flags = (*options, "-DRACEY") if racy else options
            yield Program("ScoR, applications", name, sources, racy, flags, text=text)


def applications() -> dict[str, str]:
    """Return a small input for each application of ScoR."""
    numbers = [7 * n * n % 13 for n in range(1024)]
    edges = [(u, v) for u in range(48) for v in range(u + 1, 48) if (u * u + 3 * v) % 11 == 0]
    inputs = {
        "1dconv": [9, 256, *numbers[:265]],
        "graph-coloring": [48, len(edges), *(v for edge in edges for v in edge)],
        "graph-connectivity": [48, len(edges), *(v for edge in edges for v in edge)],
        "matrix-multiplication": [2, 128, 4, *numbers[: 2 * 128 + 128 * 4]],
        "reduction": [1024, *numbers],
        "rule-110": [256, 2, *(n % 2 for n in numbers[:256])],
        "uts": [3, 3, 7],
    }
    return {name: " ".join(map(str, values)) for name, values in inputs.items()}


def indigo(folder: Path) -> Iterator[Program]:
    """Yield the Indigo codes, without those that go out of bounds on purpose."""
    options = ("-I", str(folder / "indigo_include"))
    graph = str(folder / "input" / "DAG_100n_200e.egr")
    for source in sorted((folder / "indigo_sources").glob("*/*.cu")):
        if "boundsBug" not in source.stem:
            racy = bool(RACY.search(source.stem))
            arguments = (graph, str(THREADS), str(BLOCKS))
            yield Program("Indigo", source.stem, (source,), racy, options, arguments)


def samples(folder: Path) -> Iterator[Program]:
    """Yield CUDA's samples that have kernels of their own, none of which is meant to race."""
    given = json.loads((folder / "test_args.json").read_text())
    for home in sorted((folder / "Samples").glob("*/*")):
        sources = tuple(s for s in sorted(home.glob("*")) if s.suffix in (".cu", ".cpp", ".c"))
        if not any(source.suffix == ".cu" for source in sources):
            continue
        # Some sources are included by others, or compiled as the program runs or before.
        texts = "".join(path.read_text(errors="replace") for path in (*sources, *home.glob("*.h")))
        texts = re.sub(r"^ *//.*", "", texts, flags=re.M)
        names = re.findall(r'"((\w+)64\.(?:fatbin|ptx))"', texts)
        images = tuple((name, home / f"{stem}.cu") for name, stem in names)
        apart = {source for _, source in images}
        sources = tuple(s for s in sources if f'{s.name}"' not in texts and s not in apart)
        if "helper_multiprocess.h" in texts:
            sources += (folder / "Common" / "helper_multiprocess.cpp",)
        flags = ["-I", str(home), "-I", str(folder / "Common"), "-Xcompiler=-fopenmp"]
        flags += ["-lcublas", "-lcuda", "-lnvrtc"]
        flags += ["-lGL", "-lGLU", "-lglut"] if re.search(r"helper_gl\.h|GL/", texts) else []
        flags += ["-rdc=true", "-lcudadevrt"] if home.name.startswith("cdp") else []
        own = given.get(home.name, {})
        args = tuple((own.get("runs") or [own])[0].get("args", ()))
        yield Program(
            "CUDA samples", home.name, sources, False, tuple(flags), args, once=True, images=images
        )


def outcome(program: Program, limit_s: float) -> Outcome:
    """Build and run a program."""
    start = time.monotonic()
    command = [sys.executable, "-m", "ptxsim"]

    def told(verdict: str, kinds: str = "", message: str = "") -> Outcome:
        seconds = round(time.monotonic() - start, 1)
        message = re.sub(r"/\S*/", "", message)[:300]
        return Outcome(program.suite, program.name, program.racy, verdict, kinds, seconds, message)

    with tempfile.TemporaryDirectory(prefix="scorecard-") as temporary:
        folder, sources = Path(temporary), program.sources
        if program.plain:
            sources = tuple(folder / source.name for source in sources)
            for source, copy in zip(program.sources, sources, strict=True):
                copy.write_text(re.sub(r"\bvolatile\b ?", "", source.read_text()))
        build = [*command, "nvcc", *program.options, "-o"]
        builds = [[*build, str(folder / "program"), *map(str, sources)]]
        builds += [
            [*build, str(folder / name), f"-{name.rpartition('.')[2]}", str(source)]
            for name, source in program.images
        ]
        for build in builds:
            done = subprocess.run(build, capture_output=True, text=True)
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if BROKEN.search(line)]
                return told("does not build", message=(lines or [done.stderr])[0])
        # Programs read what lies next to them, and some write there.
        shutil.copytree(program.sources[0].parent, folder, dirs_exist_ok=True)
        # At the limit the program gets SIGTERM, and ptxsim reports what it has seen until then.
        run = ["timeout", "--kill-after=30", f"{limit_s:g}", *command, "exec", "--quiet"]
        run += ["--sarif", "faults.sarif", "--report", "report.json"]
        for extra in (["--once"], ["--once", "--sample", "32"]) if program.once else ([],):
            done = subprocess.run(
                [*run, *extra, "./program", *program.arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                input=program.text,
            )
            if not (folder / "faults.sarif").is_file():
                return told("no report", message=(done.stderr.strip().splitlines() or [""])[-1])
            faults = json.loads((folder / "faults.sarif").read_text())["runs"][0]["results"]
            launches = json.loads((folder / "report.json").read_text())["launches"]
            late = done.returncode in (124, 137)
            if faults or not late:
                break
    if not faults and late:
        return told(f"no end in {limit_s:g} s", message=f"{len(launches)} launches until then")
    part = "later launches ran 32 blocks each" if "--sample" in extra else ""
    if not faults and ((done.returncode and not part) or not launches):
        why = f"exit code {done.returncode}" if done.returncode else "no launch"
        lines = (done.stderr + done.stdout).strip().splitlines()
        return told(why, message=(lines or [""])[-1])
    faults.sort(key=lambda fault: fault["ruleId"] != "race")
    kinds = Counter(fault["ruleId"] for fault in faults)
    notes = [note for launch in launches for note in launch["notes"]]
    messages = [fault["message"]["text"] for fault in faults] or notes
    verdict = (
        "race" if kinds["race"] else "other fault" if faults else "note" if notes else "silent"
    )
    if faults and all(LACKING.search(message) for message in messages):
        verdict = "not supported"
    words = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return told(verdict, words, messages[0] if messages else part)


def table(outcomes: list[Outcome]) -> str:
    """Return the counts of each suite as Markdown, and the programs whose verdict is not their name's."""
    verdicts = ["race", "note", "silent", "other fault"]
    lines = ["| suite | by its name | programs | " + " | ".join(verdicts)]
    lines[0] += " | no verdict | seconds |"
    lines.append("|---|---|" + "---|" * (len(verdicts) + 3))
    for suite, racy in dict.fromkeys((o.suite, o.racy) for o in outcomes):
        rows = [o for o in outcomes if (o.suite, o.racy) == (suite, racy)]
        told = Counter(o.verdict for o in rows)
        cells = [told[verdict] for verdict in verdicts]
        total = sum(told.values())
        name = "racy" if racy else "race-free"
        seconds = sum(o.seconds for o in rows)
        row = [suite, name, total, *cells, total - sum(cells), f"{seconds:.0f}"]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    odd = [o for o in outcomes if o.verdict != "race" and (o.racy or o.verdict != "silent")]
    odd += [o for o in outcomes if not o.racy and o.verdict == "silent" and o.message]
    odd += [o for o in outcomes if not o.racy and o.verdict == "race"]
    lines += [
        "",
        "| suite | program | by its name | verdict | seconds | first message |",
        "|---|---|---|---|---|---|",
    ]
    for o in odd:
        message = o.message.replace("|", "\\|")[:120]
        name = "racy" if o.racy else "race-free"
        lines.append(
            f"| {o.suite} | {o.program} | {name} | {o.verdict} | {o.seconds:.0f} | {message} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run published race suites on ptxsim.")
    suites: dict[str, Callable[[Path], Iterator[Program]]] = {
        "scor": scor,
        "indigo": indigo,
        "samples": samples,
    }
    for name in suites:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="where the suite lies")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each N-th program")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a program")
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
        parser.error("no suite is named; allowed: --scor DIR, --indigo DIR, --samples DIR")
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
