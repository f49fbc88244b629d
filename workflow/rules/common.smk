# What all rules share: the configuration, whether there is a GPU, the experiments, and where files lie.

import contextlib
import difflib
import fcntl
import hashlib
import json
import os
import re
import shlex
import sys
from pathlib import Path

import yaml

sys.path.insert(0, workflow.basedir)

import contracts
from experiments import bank_pictures, plan, profile, toolchain, tuned
from kernels import catalogue

# Held as long as this process lives: only where nobody holds it does `make all` remove a lock of Snakemake's
ALIVE = open(Path(workflow.basedir, "Snakefile"))
with contextlib.suppress(OSError):  # a file system without such locks: then no lock is removed
    fcntl.flock(ALIVE, fcntl.LOCK_SH)


# What killed runs left behind; where nothing is executed, nothing is removed.
onstart:
    contracts.sweep("results", "data")


# --config gives text for what it does not know: true, false and null mean here what they mean in config.yaml
config.update({key: yaml.safe_load(value) for key, value in config.items() if isinstance(value, str)})
# The same configuration for a second Snakemake, as options
CONFIG_OPTIONS = " ".join(shlex.quote(f"{key}={json.dumps(value)}") for key, value in sorted(config.items()))


# A job on a cluster's node and the report's own Snakemake read this file again: they go by what the first one was asked
# and what it found, whatever GPU they see.
ASKED = shlex.split(os.environ.setdefault("GEMM_LADDER_COMMAND", shlex.join(["snakemake", *sys.argv[1:]])))


def _found():
    if known := os.environ.get(toolchain.KNOWN):
        return json.loads(known)
    if config["gpu_node"]:
        return contracts.read_json(config["gpu_node"], "toolchain")
    return toolchain.identity(config["nvcc"], config["arch"])


def _load():
    contracts.validate(dict(config), "config", "config.yaml")
    identity = _found()
    gpu = toolchain.gpu_of(identity)
    machine = config["machine"] or (gpu.machine if gpu else "no-gpu")
    record = tuned.choose([f"results/{machine}", f"data/{machine}", f"data/{config['archive']}"])
    chosen = config["variants"]
    for name in chosen or []:
        contracts.choose(catalogue.load(), name, "variant", "config.yaml: variants")
    experiments = {name: plan.load(name, config["sizes_step"], chosen) for name in plan.names()}
    pair = {key: config[key] for key in ("variant_a", "variant_b")}
    for key, name in pair.items():
        if name is not None:
            contracts.choose(catalogue.load(), name, "variant", f"config.yaml: {key}")
    if "compare" in ASKED and (None in pair.values() or len(set(pair.values())) < 2):
        given = ", ".join(f"{key} = {name or 'null'}" for key, name in pair.items())
        raise contracts.UserError(
            f"config.yaml: {given}; compare needs two variants: --config variant_a=NAME variant_b=NAME"
        )
    named = [key for key in ("lock_sm_mhz", "lock_memory_mhz") if config[key]]
    if named and not config["lock_clocks"]:
        raise contracts.UserError(f"config.yaml: {named[0]} = {config[named[0]]} needs lock_clocks = true")
    return {name: e for name, e in experiments.items() if e.variants}, identity, record


_folder = Path("results") if Path("results").exists() else Path()
if not (_folder.is_dir() and os.access(_folder, os.W_OK)):
    sys.exit(f"error: {_folder.resolve()}: not a folder that can be written; results/ must be one")

try:
    EXPERIMENTS, TOOLCHAIN, TUNED = _load()
    BANK_PICTURES = bank_pictures.load(chosen=config["variants"])
    WORKLOGS = contracts.read_yaml("paper/sources.yaml", "sources")
except contracts.UserError as error:
    sys.exit(f"error: {error}")

os.environ[toolchain.KNOWN] = json.dumps(TOOLCHAIN)

# Jobs run with the Python that runs Snakemake. The command line is in their environment, where provenance.json quotes it
# from, and no parameter of that rule, for then any other command line would make it run again.
shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

# `snakemake paper` draws what is there: the measuring rules are left out, so that what they made is plain input.
GPU = toolchain.gpu_of(TOOLCHAIN)
# Counters are a part of most targets that can be left out; of some they are all.
if any(word == "compare" or (word in EXPERIMENTS and not EXPERIMENTS[word].sizes) for word in ASKED[1:]):
    os.environ[profile.REQUIRED] = "1"
REDRAWING = "paper" in ASKED
MEASURING = GPU is not None and config["measure"] and not REDRAWING
MACHINE = config["machine"] or (GPU.machine if GPU else "no-gpu")
ARCH = TOOLCHAIN["arch"]
BUILD = f"results/build/{ARCH}"
RESULTS = f"results/{MACHINE}"
TABLES = [
    "machine.json",
    "provenance.json",
    "bench.csv",
    "checks.csv",
    "counters.csv",
    "samples.parquet",
]

# Where the tables of measurements come from, and whether they are an archive's
ARCHIVED = not MEASURING and not all(Path(RESULTS, name).is_file() for name in TABLES)
SOURCE = f"data/{config['archive']}" if ARCHIVED else RESULTS
if ARCHIVED and not Path(SOURCE).is_dir():
    _archives = ", ".join(sorted(path.name for path in Path("data").glob("*/"))) or "none"
    sys.exit(f"error: config.yaml: archive = {config['archive']!r}: no such folder in data/; there: {_archives}")

# The sweep over tiles is measured only where it is named; else its figure comes from where the tuned record does.
SWEPT = ["sgemm_autotuned", "sgemm_warptile"]
SWEEPING = MEASURING and "tile_autotune" in ASKED
TUNING = RESULTS if SWEEPING else str(TUNED) if TUNED and (TUNED / "tuning.csv").is_file() else None
TUNING_LABEL = "--archived" if TUNING and TUNING != RESULTS else ""
if "tile_autotune" in ASKED and TUNING is None:
    sys.exit(
        f"error: tile_autotune needs a GPU: none here, and no sweep to draw in {RESULTS} or data/{config['archive']}"
    )

# Why nothing is measured here, as coverage.csv tells it
if GPU is None:
    WHY_ARCHIVED = "no NVIDIA GPU is visible here"
else:
    WHY_ARCHIVED = "only drawn again" if REDRAWING else "config: measure = false"
# Other machines' folders in data/, and tables of this machine's that `all` does not make
OTHERS = [
    path.parent.as_posix() for path in sorted(Path("data").glob("*/provenance.json")) if path.parent.name != MACHINE
]
BY_NAME = ["sanitizer", "protocols", "cross_checks", "timeline", "tuning"]

# Tables that need not be there, each with the target that makes it. What this run makes is an input of what draws it;
# what is there already is only read, lest `all` measure it again.
OFFERED = {
    "agreement": "all",
    "sanitizer": "sanitize",
    "protocols": "trust",
    "cross_checks": "trust",
    "timeline": "trust",
}
OFFERED_NOW = [name for name, target in OFFERED.items() if MEASURING and (target == "all" or target in ASKED)]
OFFERED_BEFORE = [name for name in OFFERED if name not in OFFERED_NOW and Path(SOURCE, f"{name}.csv").is_file()]

# Experiments that `all` measures, and those that are measured where the command line names them, or a file of theirs
PLANNED = [
    e for e in EXPERIMENTS.values() if not e.by_name or any(re.search(rf"\b(\w+_)?{e.name}\b", w) for w in ASKED)
]
UNPLANNED = [e for e in EXPERIMENTS.values() if e not in PLANNED]

# The pair of `snakemake compare`, as an experiment that only profiles
COMPARED = plan.Experiment(
    name="compare",
    title="Two variants head to head",
    question="Which counters differ?",
    variants=tuple(name for name in (config["variant_a"], config["variant_b"]) if name),
    profile_size=4096,
)

# Locked legs are planned where locking was asked for; where not, rule `clocks` leaves the reason behind.
REGIMES = ["unlocked", "locked"] if config["lock_clocks"] else ["unlocked"]

VARIANTS = [v for v in catalogue.load() if config["variants"] is None or v in config["variants"]]
RUNNABLE = [v for v in VARIANTS if v in catalogue.runnable()]  # kernels, and dispatchers over them
KERNELS = list(dict.fromkeys(kernel.name for v in RUNNABLE for kernel in catalogue.runnable()[v].variants))


wildcard_constraints:
    variant="[a-z0-9_]+",
    experiment="[a-z0-9_]+",
    size="[0-9]+",
    regime="unlocked|locked",
    scope="(/only/[a-z0-9_]+)?",


def nvcc_option():
    """The compiler that config names, as an option."""
    return f"--nvcc '{config['nvcc']}'" if config["nvcc"] else ""


def built(variant):
    """The cubin and PTX that running a catalogue entry needs, of a dispatcher all its kernels'; none for a library."""
    kernels = catalogue.runnable()[variant].variants if variant in RUNNABLE else []
    return [path for kernel in kernels for path in multiext(f"{BUILD}/{kernel.name}", ".cubin", ".ptx")]


def checked(variant):
    """The correctness table of a kernel or dispatcher; none for a library."""
    return f"{RESULTS}/parts/check/{variant}.csv" if variant in RUNNABLE else []


def in_scope(scope):
    """The experiments of a folder of tables: results/MACHINE has those planned, results/MACHINE/only/NAME has one."""
    named = EXPERIMENTS | {COMPARED.name: COMPARED}
    return [named[scope.rpartition("/")[2]]] if scope else PLANNED


def tables_of(experiment):
    """The folder whose tables an experiment's own figures are drawn from."""
    return f"{RESULTS}/only/{experiment}" if MEASURING and EXPERIMENTS[experiment] in PLANNED else SOURCE


def own_tables():
    """This machine's tables, where it measures."""
    return [f"{RESULTS}/{table}" for table in [*TABLES, "agreement.csv"]] if MEASURING else []


def offered(*names):
    """Of tables that need not be there, those that the run makes or, where it measures nothing, finds."""
    return [f"{SOURCE}/{name}.csv" for name in names if name in [*OFFERED_NOW, *([] if MEASURING else OFFERED_BEFORE)]]


def as_they_are(paths):
    """Files that are no inputs, as a parameter that changes with them."""
    return [f"{path}: {Path(path).stat().st_size} bytes, {Path(path).stat().st_mtime_ns}" for path in paths]


def offered_before(*names):
    """The others that are there, as a parameter that changes with them."""
    return as_they_are(f"{SOURCE}/{name}.csv" for name in names if MEASURING and name in OFFERED_BEFORE)


def verdict(experiment=None):
    """The file that is there only when every check passed; nothing where nothing was checked."""
    folder = f"{RESULTS}/only/{experiment}" if experiment else RESULTS
    return [f"{folder}/verdict.txt"] if MEASURING or ARCHIVED else []


def emulated_parts(scope):
    """The emulator's checks of each kernel that takes part."""
    kernels = dict.fromkeys(v for e in in_scope(scope) for v in e.variants if v in RUNNABLE)
    return [f"{RESULTS}/parts/check/{variant}.ptxsim.csv" for variant in kernels]


def emulated(experiment=None):
    """The emulator's checks that stand beside an archive; where the GPU's tables are, they hold these too."""
    folder = f"{RESULTS}/only/{experiment}" if experiment else RESULTS
    path = f"{folder}/emulated-checks.csv"
    return [path] if ARCHIVED and (not REDRAWING or Path(path).is_file()) else []


def emulated_option(wildcards, input):
    """The same, as an option of the figures' commands."""
    return f"--emulated {input.emulated}" if input.emulated else ""


def variant_sources(wildcards):
    """The kernel's own file and the headers that it includes: editing another kernel rebuilds nothing."""
    paths = catalogue.kernels()[wildcards.variant].sources()
    return [path.relative_to(Path.cwd()).as_posix() for path in paths]


def included(source):
    """The catalogue's files that a file of experiments/ includes."""
    names = re.findall(r'^#include "([^"]+)"', Path(source).read_text(), re.M)
    paths = [path for name in names for path in ("kernels" / Path(name), Path("kernels/include/epilogue.cuh"))]
    return [path.as_posix() for path in dict.fromkeys(paths) if path.is_file()]


def clock_options():
    """The clocks that config names, as options."""
    named = {"--sm-mhz": config["lock_sm_mhz"], "--memory-mhz": config["lock_memory_mhz"]}
    return " ".join(f"{option} {mhz}" for option, mhz in named.items() if mhz)


def pictured(wildcards):
    """A bank picture's variants: the source of each, in which the line to draw is looked for, and the PTX."""
    kernels = [catalogue.kernels()[name] for name in BANK_PICTURES[wildcards.picture].variants]
    sources = [kernel.source.relative_to(Path.cwd()).as_posix() for kernel in kernels]
    return sources + [f"{BUILD}/{kernel.name}.ptx" for kernel in kernels]


def bench_parts(suffix, regimes=REGIMES):
    """One part per experiment, variant and clock regime that is timed."""

    def parts(wildcards):
        return [
            f"{RESULTS}/parts/bench/{experiment.name}/{variant}-{regime}{suffix}"
            for experiment in in_scope(wildcards.scope)
            if experiment.sizes
            for variant in experiment.variants
            for regime in regimes
        ]

    return parts


def parts_before(suffix):
    """Parts that experiments not planned now left behind: they join the machine's tables, and are not made again."""

    def parts(wildcards):
        stems = [
            f"{RESULTS}/parts/bench/{e.name}/{v}-{regime}" for e in UNPLANNED for v in e.variants for regime in REGIMES
        ]
        return [] if wildcards.scope else [stem + suffix for stem in stems if Path(stem + suffix).is_file()]

    return parts


def checks_before(wildcards):
    """The same for checks, with those of kernels that take part in no experiment that is planned."""
    timed = parts_before(".checks.csv")(wildcards)
    others = {Path(path).name.partition("-")[0] for path in timed} - {v for e in PLANNED for v in e.variants}
    paths = [f"{RESULTS}/parts/check/{v}.{suffix}" for v in sorted(others) for suffix in ("csv", "ptxsim.csv")]
    return [path for path in paths if Path(path).is_file()] + timed


def check_parts(wildcards):
    """The checks of each kernel that takes part, then those of the timed runs."""
    kernels = dict.fromkeys(v for e in in_scope(wildcards.scope) for v in e.variants if v in RUNNABLE)
    return (
        [checked(variant) for variant in kernels]
        + emulated_parts(wildcards.scope)
        + bench_parts(".checks.csv")(wildcards)
    )


def profiled(experiments):
    """Each variant and size whose counters are wanted, once."""
    return list(dict.fromkeys((v, e.profile_size) for e in experiments if e.profile_size for v in e.variants))


def profile_parts(suffix):
    """One part per variant and profiled size."""

    def parts(wildcards):
        return [f"{RESULTS}/parts/profile/{v}-{size}{suffix}" for v, size in profiled(in_scope(wildcards.scope))]

    return parts


# What every figure depends on beside its own module, and how it is labelled
ANALYSIS = [
    "analysis/data.py",
    "analysis/metrics.py",
    "analysis/style.py",
    "contracts/metrics.yaml",
]
# The emulator's code, as a parameter of each job that runs it: fifty files as its inputs would bury all others
EMULATOR = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(Path("ptxsim").rglob("*.py")))).hexdigest()
PAPER_TABLES = {
    "ladder": "Timings, ladders",
    "sizes": "Timings, sweeps of sizes",
    "regimes": "Timings on several kinds of data",
    "resources": "Resources of each kernel",
    "checks": "Correctness",
    "counters": "Hardware counters",
    "tail": "Waves and load balance",
    "comparison": "2D block tiling against vectorized accesses",
}
# Tables of second opinions, with category and title in the report, where there is anything in them
TRUST_TABLES = {
    "agreement": ("5 Correctness", "GPU and emulator, bit by bit"),
    "sanitizer": ("5 Correctness", "compute-sanitizer"),
    "protocols": ("7 Second opinions", "Ways of timing"),
    "cross_checks": ("7 Second opinions", "Other tools"),
    "timeline": ("7 Second opinions", "A recorded process"),
}
TRUSTED = [*OFFERED_NOW, *OFFERED_BEFORE, "cross_checks"]
# Subcategories of the report
AS_CSV = "As CSV files"
AS_PAGES = "To sort and search"
ALL_KERNELS = "All kernels"
# The tables that are in the report as pages, too: category, title and the caption's file
PAGES = {name: ("6 Tables", title, "tables") for name, title in PAPER_TABLES.items()}
PAGES |= {
    "steps": ("6 Tables", "Steps: counters and time, before and after", "steps"),
    "bounds": ("6 Tables", "Least cycles by resource", "bounds"),
    "predicted": ("6 Tables", "Counters, predicted beside measured", "predicted"),
    "coverage": ("6 Tables", "Coverage", "coverage"),
}
PAGES |= {name: (category, title, name) for name, (category, title) in TRUST_TABLES.items() if name in TRUSTED}
LABEL = "--archived" if ARCHIVED else ""
# Figures over all experiments, with category and title in the report
FIGURES_OVER_ALL = {
    "counters": ("4 Counters", "All kernels"),
    "stalls": ("4 Counters", "Stall reasons"),
    "roofline": ("4 Counters", "Roofline"),
    "clock_split": ("2 Ladder", "Gains by clock and by work per clock"),
    "energy": ("2 Ladder", "Power and work per joule"),
    "correctness": ("5 Correctness", "Worst error as a share of its bound"),
}


def measured(folder):
    """The tables in a folder that figures read."""
    return [f"{folder}/{table}" for table in TABLES if table != "samples.parquet"]


def figure_names(experiment):
    """The figures of one experiment alone: its bars, its sweep or its kinds of data, and its counters."""
    names = []
    if experiment.sizes:
        kind = "sizes" if experiment.swept else "regimes" if len(experiment.data) > 1 else "ladder"
        names.append(f"{kind}_{experiment.name}")
    if experiment.profile_size:
        names.append(f"counters_{experiment.name}")
    return names


def experiment_outputs(name):
    """What `snakemake NAME` leaves behind."""
    return [f"results/figures/{figure}.svg" for figure in figure_names(EXPERIMENTS[name])]


# Other runs to hold this one's against
OTHER_RUNS = [
    path.parent.as_posix() for path in sorted(Path("data").glob("*/bench.csv")) if path.parent.as_posix() != SOURCE
]


def beside_others(path, category, label):
    """An output of the comparison of runs, which is in the report where there are several."""
    labels = {label: "Machine against machine"}
    below = AS_CSV if path.endswith(".csv") else ALL_KERNELS
    where = {"category": category, "subcategory": below, "caption": "../report/machines.rst", "labels": labels}
    return report(path, **where) if OTHER_RUNS else path


FIGURES = [
    *FIGURES_OVER_ALL,
    "tail",
    "occupancy",
    "machines",
    "claims",
    "published",
    "predicted",
    "protocols",
    "bounds",
    *(["autotune"] if TUNING else []),
    *(f"banks_{name}" for name in BANK_PICTURES),
    *(name for e in EXPERIMENTS.values() for name in figure_names(e)),
]
REPORTED = [
    "results/paper.pdf",
    *[
        f"results/tables/{name}.csv"
        for name in [*PAPER_TABLES, *TRUST_TABLES, "steps", "predicted", "bounds", "coverage"]
    ],
    "results/tables/claims.csv",
    *[f"results/tables/claims_{worklog}.html" for worklog in WORKLOGS],
    *[f"results/report/{name}.html" for name in PAGES],
    *[f"results/figures/{name}.svg" for name in FIGURES],
    f"{RESULTS}/shared_widths.csv",
    *(["results/figures/between_warps.svg"] if Path(SOURCE, "between_warps.csv").is_file() else []),
]


def trust_output(name):
    """A table, in the report where it has rows: cross-checks against ncu come from tables that are always there."""
    path = f"results/tables/{name}.csv"
    if name not in TRUSTED:
        return path
    labels = {"table": TRUST_TABLES[name][1]}
    return report(path, category="6 Tables", subcategory=AS_CSV, caption=f"../report/{name}.rst", labels=labels)


def worklogs_of(experiment):
    """Whose kernels an experiment times or profiles, as a heading of the report."""
    entries = [catalogue.find(name) for name in EXPERIMENTS[experiment].variants]
    seeds = {entry.origin["seed"] for entry in entries if getattr(entry, "origin", None)}
    keys = [key for key, worklog in WORKLOGS.items() if worklog["file"].split("_")[0] in seeds]
    return f"Worklog {keys[0]}" if len(keys) == 1 else "Several worklogs" if keys else "Libraries"


def misspelt_target(rules):
    """A word of the command line that is no target but nearly the name of one, and the names it is near to."""
    for word in ASKED[1:]:
        if word.isidentifier() and word not in rules:
            if near := difflib.get_close_matches(word, rules, n=3, cutoff=0.8):
                return word, near
    return None
