# What all rules share: the configuration, whether there is a GPU, the experiments, and where files lie.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# jobs run with the Python that runs Snakemake
os.environ["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ["PATH"]]
)
sys.path.insert(0, workflow.basedir)
# what provenance.json quotes; not a parameter of its rule, which would make every other command line run it again
os.environ.setdefault("GEMM_LADDER_COMMAND", " ".join(["snakemake", *sys.argv[1:]]))

import contracts
from experiments import plan, toolchain
from kernels import catalogue

CONFIG_GIVEN = {key: config[key] for key in sorted(config)}


def _load():
    contracts.validate(dict(config), "config", "config.yaml")
    chosen = config["variants"]
    for name in chosen or []:
        contracts.choose(catalogue.load(), name, "variant", "config.yaml: variants")
    experiments = {
        name: plan.load(name, config["sizes_step"], chosen) for name in plan.names()
    }
    identity = toolchain.identity(config["nvcc"], config["arch"])
    return {name: e for name, e in experiments.items() if e.variants}, identity


try:
    EXPERIMENTS, TOOLCHAIN = _load()
except contracts.UserError as error:
    raise WorkflowError(str(error))

# `snakemake paper` draws what is there: the measuring rules are left out, so that what they made is plain input.
GPU = toolchain.gpu()
MEASURING = GPU is not None and config["measure"] and "paper" not in sys.argv
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
    _archives = (
        ", ".join(sorted(path.name for path in Path("data").glob("*/"))) or "none"
    )
    raise WorkflowError(
        f"config.yaml: archive = {config['archive']!r}: no such folder in data/; there: {_archives}"
    )

VARIANTS = [
    v for v in catalogue.load() if config["variants"] is None or v in config["variants"]
]
KERNELS = [v for v in VARIANTS if v in catalogue.kernels()]


wildcard_constraints:
    variant="[a-z0-9_]+",
    experiment="[a-z0-9_]+",
    size="[0-9]+",
    scope="(/only/[a-z0-9_]+)?",


def nvcc_option():
    """The compiler that config names, as an option."""
    return f"--nvcc '{config['nvcc']}'" if config["nvcc"] else ""


def built(variant):
    """The cubin and PTX that running a catalogue entry needs; none for a library."""
    return (
        multiext(f"{BUILD}/{variant}", ".cubin", ".ptx") if variant in KERNELS else []
    )


def checked(variant):
    """The correctness table of a kernel; none for a library."""
    return f"{RESULTS}/parts/check/{variant}.csv" if variant in KERNELS else []


def in_scope(scope):
    """The experiments of a folder of tables: results/MACHINE has all, results/MACHINE/only/NAME has one."""
    return (
        [EXPERIMENTS[scope.removeprefix("/only/")]]
        if scope
        else list(EXPERIMENTS.values())
    )


def tables_of(experiment):
    """The folder whose tables an experiment's own figures are drawn from."""
    return f"{RESULTS}/only/{experiment}" if MEASURING else SOURCE


def own_tables():
    """This machine's tables, where it measures."""
    return [f"{RESULTS}/{table}" for table in TABLES] if MEASURING else []


def verdict(experiment=None):
    """The file that is there only when every check passed; nothing where nothing was checked."""
    scope = f"/only/{experiment}" if experiment else ""
    return [f"{RESULTS}{scope}/verdict.txt"] if MEASURING else []
