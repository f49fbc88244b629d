# What all rules share: the plan (workflow/plan.py), and how a job is started. Nothing here writes to the disk.

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, workflow.basedir)

from snakemake.cli import get_argument_parser

import contracts
from analysis import explorer
from analysis import registry as drawn
from contracts import registry
from experiments.emulation import bank_pictures
from experiments.gpu import discovery
from experiments.stages import profile, toolchain
from kernels import catalogue
from workflow.plan import Device, Inventory, plan

# Held as long as this process lives: only where nobody holds it does `make all` remove a lock of Snakemake's
ALIVE = open(Path(workflow.basedir, "Snakefile"))
with contextlib.suppress(OSError):  # a file system without such locks: then no lock is removed
    fcntl.flock(ALIVE, fcntl.LOCK_SH)


# What killed runs left behind; where nothing is executed, nothing is removed.
onstart:
    contracts.sweep("results", "data")
    for _reason in PLAN.unfit.values():
        print(f"left out: {_reason}", file=sys.stderr)


# A job on a cluster's node and the report's own Snakemake read this file again: they go by what the first one was asked
# for and what it found, whatever GPU they see.
# Snakemake does not tell its targets before the rules are read, so its own parser is asked for them.
_ASKED = "GEMM_LADDER_TARGETS"
if _ASKED not in os.environ:
    os.environ[_ASKED] = json.dumps(sorted(get_argument_parser().parse_known_args(sys.argv[1:])[0].targets))
TARGETS = json.loads(os.environ[_ASKED])
os.environ.setdefault("GEMM_LADDER_COMMAND", shlex.join(["snakemake", *sys.argv[1:]]))  # provenance.json quotes it


_folder = Path("results") if Path("results").exists() else Path()
if not (_folder.is_dir() and os.access(_folder, os.W_OK)):
    sys.exit(f"error: {_folder.resolve()}: not a folder that can be written; results/ must be one")
try:
    # --config gives text for what it does not know: true, false and null mean here what they mean in config.yaml
    config.update(
        {k: contracts.parse_yaml_value(v, f"config.yaml: {k}") for k, v in config.items() if isinstance(v, str)}
    )
    contracts.validate(dict(config), "config", "config.yaml")
    _found = toolchain.known_or_found(config["nvcc"], config["arch"], config["gpu_node"])
    PLAN = plan(config, Device(_found, discovery.missing_libraries()), Inventory.of(Path(workflow.basedir)), TARGETS)
    PICTURES = bank_pictures.load(chosen=config["variants"])
except contracts.UserError as error:
    sys.exit(f"error: {error}")

os.environ[discovery.KNOWN] = json.dumps(dict(PLAN.device.toolchain))
if PLAN.counters_required:
    os.environ[profile.REQUIRED] = "1"
# Jobs run with the Python that runs Snakemake.
shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

RESULTS, BUILD, ARCH, MACHINE = PLAN.results, PLAN.build, PLAN.device.arch, PLAN.machine
PARTS, HARNESS = f"{RESULTS}/parts", f"{BUILD}/harness.cubin"
# The emulator's code, as a parameter of each job that runs it: fifty files as its inputs would bury all others
_emulator = [*Path("ptxsim").glob("*.py"), *Path("ptxsim/instructions").glob("*.py")]
EMULATOR = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(_emulator))).hexdigest()
# What is built beside the catalogue's kernels, by the name of its cubin: the harness and the microbenchmarks
HARNESSES = {path.stem: path.as_posix() for path in sorted(Path("experiments").rglob("*.cu"))}
# Options that many commands take
NVCC = f"--nvcc {shlex.quote(config['nvcc'])}" if config["nvcc"] else ""
TUNED = f"--tuned {PLAN.tuned}" if PLAN.tuned else ""


wildcard_constraints:
    variant="|".join(PLAN.runnable) or "none",
    experiment="|".join(PLAN.planned) or "none",
    size="[0-9]+",
    regime="unlocked|locked",
    scope="(/only/[a-z0-9_]+)?",


def relative(paths):
    """Paths of the catalogue as Snakemake has them: relative to the project."""
    return [Path(path).relative_to(Path(workflow.basedir)).as_posix() for path in paths]


def built(variant):
    """The cubin and PTX that running a catalogue entry needs, of a dispatcher all its kernels'; none for a library."""
    kernels = catalogue.runnable()[variant].variants if variant in PLAN.runnable else []
    return [path for kernel in kernels for path in multiext(f"{BUILD}/{kernel.name}", ".cubin", ".ptx")]


def checked(variant):
    """The correctness table of a kernel or dispatcher; none for a library."""
    return f"{RESULTS}/parts/check/{variant}.csv" if variant in PLAN.runnable else []


def _sizes(variant):
    """The sizes at which an entry is profiled, and so predicted."""
    return sorted({size for name, size in PLAN.profiled(PLAN.everything.values()) if name == variant})


def _bench(suffix):
    """What was timed in a scope: parts of this run, and those that earlier ones left."""
    return lambda wildcards: [f"{RESULTS}/parts/bench/{stem}{suffix}" for stem in PLAN.timed(wildcards.scope)]


def _profile(suffix, with_beta=False):
    """Counters of the problems of a scope: of those whose beta is 0, or of the others."""
    return lambda wildcards: [
        f"{RESULTS}/parts/profile/{variant}-{size}{f'-beta{beta:g}' if beta else ''}{suffix}"
        for variant, size, beta in PLAN.profiles(PLAN.in_scope(wildcards.scope))
        if bool(beta) == with_beta
    ]


def _emulated(table):
    return lambda wildcards: [
        f"{RESULTS}/parts/emulate/{name}/{table}.csv" for name in PLAN.variants_in(wildcards.scope)
    ]


def _checks(wildcards):
    """The checks of each kernel that takes part, then those of the timed runs."""
    alone = [
        path
        for name in PLAN.checked(wildcards.scope)
        for path in (f"{RESULTS}/parts/check/{name}.csv", f"{RESULTS}/parts/emulate/{name}/checks.csv")
    ]
    return alone + _bench(".checks.csv")(wildcards)


def sources(one, experiment=None):
    """The files that a figure or report table is made from, but code: recorded tables, report tables, others by path."""
    own = _FILES | PLACES["of_experiment"].get(experiment, {})
    found = []
    for name in (*one.reads, *(name for name in one.optional if name in own)):
        if name.startswith("report:"):
            found.append(f"results/tables/{drawn.tables()[name.removeprefix('report:')].file}")
        elif name in drawn.FOLDERS:  # the archives' tables, and this run's own beside them
            files = [f"{folder}/{table.file}" for folder in PLACES[name] for table in registry.tables().values()]
            found += [path for path in files if PLAN.inventory.has(path)]
            found += own.values() if PLAN.measuring else []
        else:
            found.append(name if "/" in name else own[name])
    return found


def in_report(path, one, labels, **place):
    """An output, with its place in the report where it has one."""
    if not one.category or ("other_runs" in one.reported_with and not PLACES["other_runs"]):
        return path
    return report(path, category=one.category, caption=f"../../{one.caption}", labels=labels, **place)


def figures_of(experiment):
    """The figures of one experiment."""
    return [f"results/figures/{name}.svg" for name, (_, of) in OUTPUTS.items() if of == experiment]


def _place(name):
    """A figure as an output, with its place in the report: by worklog where it is of one experiment."""
    figure, experiment = OUTPUTS[name]
    if figure.name in explorer.STANDS_FOR and name != explorer.OPENING:
        return f"results/figures/{name}.svg"
    known = PLACES["experiments"].get(experiment, {})
    title = known.get("title", figure.title)
    return in_report(
        f"results/figures/{name}.svg", figure, {"figure": title}, subcategory=known.get("worklog", figure.subcategory)
    )
