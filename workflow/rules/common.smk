# What all rules share: the plan (workflow/plan.py), and how a job is started. Nothing here writes to the disk.

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from snakemake.cli import get_argument_parser

import contracts
from contracts import registry
from experiments.emulation import RESULTS as EMULATED_RESULTS
from experiments.emulation import bank_pictures
from experiments.gpu import discovery
from experiments.stages import pack, profile, toolchain
from kernels import catalogue
from workflow import warm
from workflow.plan import Device, Inventory, plan, whole_config

# Held as long as this process lives: only where nobody holds it does `make all` remove a lock of Snakemake's
ALIVE = open(Path(workflow.basedir, "Snakefile"))
with contextlib.suppress(OSError):  # a file system without such locks: then no lock is removed
    fcntl.flock(ALIVE, fcntl.LOCK_SH)


WARM = ExitStack()  # what ends with this process


def _start_warm():
    """Start the process that jobs are forked from (workflow/warm.py). It ends with this one, whose pipe it reads."""
    socket_file = WARM.enter_context(contracts.scratch()) / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_file))
        listener.listen(1000)
        number = listener.fileno()
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        server = subprocess.Popen(
            [sys.executable, "-m", "workflow.warm", str(number), str(PLAN.catalogue.record or "")],
            stdin=subprocess.PIPE,
            pass_fds=[number],
            env=environment | one_thread,
        )
    WARM.callback(server.communicate)  # its input ends, and it does
    atexit.register(WARM.close)
    os.environ[warm.PLACE] = str(socket_file)


# Where nothing is executed, none of this is done.
onstart:
    contracts.write_json(JOB, "job", dict(PLAN.job), only_if_changed=True)
    if config["resume"]:
        try:
            print(
                f"{pack.unpack(RESUMED, Path(RESULTS))} files from {config['resume']}",
                file=sys.stderr,
            )
        except contracts.UserError as _error:
            sys.exit(f"error: {_error}")
    # Snakemake's limit of jobs a second is for queues. It looks at all inputs of all ready jobs again, each second, once for
    # each job that has ended: a seventh of the processor time of `all`.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
        if not PLAN.measuring:  # what measures is a process of its own
            _start_warm()
    for _reason in PLAN.unfit.values():
        print(f"left out: {_reason}", file=sys.stderr)


# A job on a cluster's node and the report's own Snakemake read this file again: they go by what the first one was asked
# for and what it found, whatever GPU they see.
# Snakemake does not tell its targets before the rules are read, so its own parser is asked for them.
_ASKED = "GEMM_LADDER_TARGETS"
_arguments = get_argument_parser().parse_known_args(sys.argv[1:])[0]
if _ASKED not in os.environ:
    os.environ[_ASKED] = json.dumps(sorted(_arguments.targets))
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
    config.update(whole_config(config))
    _found = toolchain.known_or_found(config["nvcc"], config["arch"], config["gpu_node"])
    PLAN = plan(config, Device(_found, discovery.missing_libraries()), Inventory.of(Path(workflow.basedir)), TARGETS)
    if config["resume"]:
        RESUMED = pack.resumable(Path(config["resume"]))
        # What a sweep found says what the tuned kernels and the dispatchers are, so the plan needs it
        if not _arguments.dryrun and pack.unpack(RESUMED, Path(PLAN.results), tables_only=True):
            PLAN = plan(config, PLAN.device, Inventory.of(Path(workflow.basedir)), TARGETS)
    PICTURES = bank_pictures.load(PLAN.catalogue, chosen=config["variants"])
except contracts.UserError as error:
    sys.exit(f"error: {error}")

os.environ[discovery.KNOWN] = json.dumps(dict(PLAN.device.toolchain))
if PLAN.counters_required:
    os.environ[profile.REQUIRED] = "1"
# Jobs run with the Python that runs Snakemake, and keep what it compiled. Those of one thread are forked from a process that
# has imported what they need, where there is one.
_path = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
_warm = f'python() {{{{ if [ "$1${{{{{warm.PLACE}:+$OMP_NUM_THREADS}}}}" = -m1 ]; then set -- -I -S workflow/warm.py "$@"; fi; command python "$@"; }}}}'
shell.prefix(f"set -euo pipefail; unset PYTHONDONTWRITEBYTECODE; {_path}; {_warm}; ")

RESULTS, BUILD, ARCH, MACHINE = PLAN.results, PLAN.build, PLAN.device.arch, PLAN.machine
# What was measured, one file a measurement: no output of a job, so that it outlives any. What all stages take as --job: no
# input, for a change of it shows in the parameters of the jobs that it concerns.
STORE, JOB = PLAN.job["store"], f"{RESULTS}/job.json"
# Of the settings, those that a sweep rests on: not which sweep stands behind the tuned kernels and the dispatchers
UNTUNED = {key: value for key, value in PLAN.job.items() if key != "tuned"}
PARTS, HARNESS = f"{RESULTS}/parts", f"{BUILD}/harness.cubin"
# The emulator's code, as a parameter of each job that runs it: fifty files as its inputs would bury all others
_emulator = sorted(path for path in Path("ptxsim").rglob("*.py") if "tests" not in path.parts)
EMULATOR = hashlib.sha256(b"\0".join(path.read_bytes() for path in _emulator)).hexdigest()
# What is built in addition to the catalogue's kernels, by the name of its cubin: the harness and the microbenchmarks
HARNESSES = {path.stem: path.as_posix() for path in sorted(Path("experiments").rglob("*.cu"))}
# Options that many commands take
NVCC = f"--nvcc {shlex.quote(config['nvcc'])}" if config["nvcc"] else ""
TUNED = shlex.join(PLAN.catalogue.option)


wildcard_constraints:
    variant="|".join(PLAN.runnable) or "none",
    # those that are measured; what earlier runs left of others is plain input
    experiment="|".join([*PLAN.planned, *(["compare"] if PLAN.compared else [])]) or "none",
    size="[0-9]+",
    part="[a-z0-9]+-[0-9]+",
    slice="[0-9]+of[0-9]+",
    clock_policy="boost|locked",
    scope="(/only/[a-z0-9_]+)?",
