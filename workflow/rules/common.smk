# What all rules share: the plan (workflow/plan.py), and names of files and options. Nothing here writes to the disk.

import hashlib
import json
import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from snakemake.cli import get_argument_parser

import contracts
from contracts.declared import Config
from contracts.rows import TABLES
from experiments.emulation import bank_pictures
from experiments.gpu import discovery
from experiments.stages import profile, store, toolchain
from kernels import catalogue
from workflow.plan import Device, Inventory, plan


onstart:
    for _reason in PLAN.unsupported.values():
        print(f"left out: {_reason}", file=sys.stderr)


# A job on a cluster's node and the report's own Snakemake read this file again: they go by what the first one was asked
# for and what it found, whatever GPU they see.
# Snakemake does not tell its targets before the rules are read, so its own parser is asked for them.
_arguments = get_argument_parser().parse_known_args(sys.argv[1:])[0]
os.environ.setdefault("GEMM_LADDER_TARGETS", json.dumps(sorted(_arguments.targets)))
# provenance.json quotes the command.
os.environ.setdefault("GEMM_LADDER_COMMAND", shlex.join(["snakemake", *sys.argv[1:]]))
TARGETS = json.loads(os.environ["GEMM_LADDER_TARGETS"])

_folder = Path("results") if Path("results").exists() else Path()
if not (_folder.is_dir() and os.access(_folder, os.W_OK)):
    sys.exit(f"error: {_folder.resolve()}: not a folder that can be written; results/ must be one")
try:
    # --config gives text for what it does not know: true, false and null mean here what they mean in config.yaml
    config.update(
        {
            k: contracts.parse_yaml_value(v, f"config.yaml: {k}")
            for k, v in config.items()
            if isinstance(v, str)
        }
    )
    contracts.validated(dict(config), Config, "config.yaml")
    _found = toolchain.known_or_found(config["nvcc"], config["arch"], config["gpu_node"])
    PLAN = plan(
        config,
        Device(_found, discovery.missing_libraries()),
        Inventory.of(Path(workflow.basedir)),
        TARGETS,
    )
    PICTURES = bank_pictures.load(PLAN.catalogue, chosen=PLAN.variants)
    if PLAN.measuring:
        store.require_gpu(Path(PLAN.results, store.FOLDER), PLAN.device.gpu)
except contracts.UserError as error:
    sys.exit(f"error: {error}")

# Jobs run with the Python that runs Snakemake, and keep what it compiled.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ[discovery.KNOWN] = json.dumps(dict(PLAN.device.toolchain))
if PLAN.counters_required:
    os.environ[profile.REQUIRED] = "1"

RESULTS, BUILD, ARCH, MACHINE = PLAN.results, PLAN.build, PLAN.device.arch, PLAN.machine
# What was measured, one file a measurement: no output of a job, so that it outlives any.
STORE = f"{RESULTS}/{store.FOLDER}"
PARTS, HARNESS = f"{RESULTS}/parts", f"{BUILD}/harness.cubin"
# The emulator's code, as a parameter of each job that runs it: its files as inputs would bury all others
_emulator = sorted(path for path in Path("ptxsim").rglob("*.py") if "tests" not in path.parts)
EMULATOR = hashlib.sha256(b"\0".join(path.read_bytes() for path in _emulator)).hexdigest()
# The tiles of these kernels are swept.
SWEPT_KERNELS = ("sgemm_autotuned", "sgemm_warptile")
# What is built in addition to the catalogue's kernels, by the name of its cubin: the harness and the microbenchmarks
HARNESSES = {path.stem: path.as_posix() for path in sorted(Path("experiments").rglob("*.cu"))}

# Options that many commands take
NVCC = f"--nvcc {shlex.quote(config['nvcc'])}" if config["nvcc"] else ""
BUILT = f"--build-dir {BUILD}"
IN_STORE = f"--store {STORE}"
CLOCKS = " ".join(
    f"--{option} {config[key]}"
    for option, key in (("sm-mhz", "lock_sm_mhz"), ("memory-mhz", "lock_memory_mhz"))
    if config[key]
)


def relative(paths):
    """Paths of the catalogue as Snakemake has them: relative to the project."""
    return [Path(path).relative_to(Path(workflow.basedir)).as_posix() for path in paths]


def sources_of(kernels):
    """The files of some kernels, with the headers that they include."""
    entries = [PLAN.catalogue.kernels[name] for name in kernels]
    return sorted({path for entry in entries for path in relative(entry.sources())})


def built(*names):
    """What has to be built before these entries of the catalogue can run; nothing for a library."""
    kernels = {kernel for name in names for kernel in PLAN.kernels_of(name)}
    return [
        f"{BUILD}/{batch}.csv" for batch, members in PLAN.builds.items() if kernels & {*members}
    ]


def emulated(names, file):
    """The files of this name that the emulator leaves for some kernels and dispatchers."""
    batches = [batch for batch, members in PLAN.emulations.items() if {*names} & {*members}]
    return [f"{PARTS}/emulate/{batch}/{file}" for batch in batches]


wildcard_constraints:
    batch="[a-z0-9_]+-[0-9]+",
    # those that are measured; what earlier runs left of others is plain input
    experiment="|".join([*PLAN.planned, *(["compare"] if PLAN.compared else [])]) or "none",
    part="[a-z0-9]+-[0-9]+",
    slice="[0-9]+of[0-9]+",
    clock_policy="boost|locked",
    scope="(/only/[a-z0-9_]+)?",


def reported(path, category, what, caption=None, **options):
    """An output that the report shows as `what`, with its caption of workflow/report/."""
    text = f"../report/{caption or Path(path).stem}.rst"
    return report(path, category=category, caption=text, labels={"what": what}, **options)
