"""Jobs on two GPUs at once; and all through a real Slurm: one host, over loopback, gone when these
tests end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT, copy_tree, dict_rows, environment, json_dict

from contracts.rows import Checks, Toolchain
from experiments.gpu.session import LOCKS

PROFILE = ROOT / "profiles" / "slurm" / "config.yaml"
TOOLS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol"]
TWO = ("--config", 'variants=["sgemm_naive","sgemm_vectorized"]')
# What a cluster's own accounting and patience would give
QUICK = ("--workflow-profile", "profiles/slurm", "--slurm-no-account")
QUICK += ("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2")
# Two GPUs that are only names: Slurm wants device files, and nothing opens them
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
MinJobAge=3600
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=32000 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""
# A rule that measures nothing, but sessions a GPU as measuring rules do, and reports whether it met
# the other one
MEETING = """
include: "Snakefile"

rule meet:
    output:
        "results/met/{name}.json"
    resources:
        gpu=1
    shell:
        "python meet.py {wildcards.name} {output}"
"""
MEET = """
import json, os, sys, time
from pathlib import Path
from experiments.gpu.session import session
name, out = sys.argv[1], Path(sys.argv[2])
given = {key: os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID")}
with session():
    given["held"] = os.environ["CUDA_VISIBLE_DEVICES"]
    Path(f"{name}.here").touch()
    deadline = time.monotonic() + float(os.environ["WAIT_S"])
    while len(list(Path().glob("*.here"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    given["met"] = len(list(Path().glob("*.here")))
out.write_text(json.dumps(given))
"""


class Slurm:
    """Munge, slurmctld and slurmd of this host, with all their state in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.host = socket.gethostname().partition(".")[0]
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        for number in range(2):
            (folder / f"gpu{number}").symlink_to("/dev/null")
        (folder / "gres.conf").write_text(f"NodeName={self.host} Name=gpu File={folder}/gpu[0-1]\n")
        self.conf = folder / "slurm.conf"
        user = os.environ.get("USER") or "root"
        values = {"host": self.host, "user": user, "ports": free_ports(2), "folder": folder}
        self.conf.write_text(CONFIGURATION.format(**values).lstrip())
        # The executor's jobstep drops SLURM_CONF; elsewhere the configuration is in its usual place
        wrapper = folder / "bin" / "srun"
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.conf} exec {shutil.which("srun")} "$@"\n')
        wrapper.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "bin"), environment()["PATH"]])
        return {"SLURM_CONF": str(self.conf), "PATH": path}

    def daemon(self, name: str, *options: str) -> None:
        log = (self.folder / f"{name}.out").open("wb")
        command = [shutil.which(name) or name, *options]
        streams: dict[str, Any] = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
        self.daemons.append(subprocess.Popen(command, env=environment(**self.env), **streams))

    def ask(self, *command: str) -> str:
        env = environment(**self.env)
        return subprocess.run(command, env=env, capture_output=True, text=True).stdout

    def start(self) -> None:
        kinds = {"key": "key-file", "socket": "socket", "pid": "pid-file", "seed": "seed-file"}
        files = [f"--{option}={self.folder}/munge.{kind}" for kind, option in kinds.items()]
        # --force: the folders of a test are its user's alone, where munged likes its socket open to
        # all
        self.daemon("munged", "-F", "--force", *files)
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.daemon("slurmctld", "-D", "-f", str(self.conf))
        self.wait(lambda: "UP" in self.ask("scontrol", "ping"), "slurmctld")
        self.daemon("slurmd", "-D", "-f", str(self.conf))
        self.wait(lambda: "idle gpu:2" in self.ask("sinfo", "-h", "-N", "-o", "%T %G"), "slurmd")

    def wait(self, ready: Callable[[], object], what: str) -> None:
        while not ready():
            assert all(daemon.poll() is None for daemon in self.daemons), (
                f"{what} did not start: {self.folder}"
            )
            time.sleep(0.1)

    def stop(self) -> None:
        """Its jobs are cancelled, and every daemon ends."""
        if len(self.daemons) > 1:
            self.ask("scancel", "--full", "--user", os.environ.get("USER") or "root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def jobs(self) -> dict[str, dict[str, str]]:
        """What Slurm knows of each job so far, by the rule or group that it ran."""
        found = {}
        for line in self.ask("scontrol", "-o", "show", "job").splitlines():
            fields = dict(item.partition("=")[::2] for item in line.split() if "=" in item)
            if "Comment" in fields:  # the executor's
                found[fields["Comment"].removeprefix("rule_")] = fields
        return found


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.skip(
            f"no Slurm here ({', '.join(missing)} missing); Debian: apt-get install slurm-wlm munge"
        )
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs only as root")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e '.[slurm]'")
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
        shutil.rmtree(slurm.folder)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("tree") / "project")


def run(tree: Path, *arguments: str, **changes: str) -> str:
    """`snakemake arguments` in a copy of the project; what it said."""
    env = environment(**changes)
    done = subprocess.run(
        ["snakemake", *arguments], cwd=tree, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def meet(tree: Path, options: tuple[str, ...], *others: str, **env: str) -> list[dict]:
    """Run the rule that meets for two names, and make `others`; what each of the two was given."""
    (tree / "meeting.smk").write_text(MEETING)
    (tree / "meet.py").write_text(MEET)
    shutil.rmtree(tree / "results" / "met", ignore_errors=True)
    for path in tree.glob("*.here"):
        path.unlink()
    met = [f"results/met/{name}.json" for name in "ab"]
    node = ["gpu_node=gpu-node.json"] if (tree / "gpu-node.json").exists() else []
    run(tree, *options, "-s", "meeting.smk", *met, *others, *TWO, *node, **env)
    return [json.loads((tree / path).read_text()) for path in met]


def two_cards(library: Path, folder: Path) -> dict[str, str]:
    """The environment in which NVML's stand-in has two GPUs, whose locks lie in `folder`."""
    (folder / "cards").write_text("cards 2\n")
    stand_in = {"NVML_STAND_IN": str(folder / "cards"), "LD_LIBRARY_PATH": str(library)}
    return stand_in | {LOCKS: str(folder), "WAIT_S": "600"}


def test_the_profile_speaks_of_rules_that_there_are() -> None:
    profile = yaml.safe_load(PROFILE.read_text())
    texts = [path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk")]
    rules = {name for text in texts for name in re.findall(r"^ *rule (\w+):", text, re.MULTILINE)}
    assert {*profile["set-resources"], *profile["set-threads"]} <= rules and "bench" in rules


def test_on_a_host_with_two_gpus_two_jobs_measure_at_a_time(
    tree: Path, library: Path, tmp_path: Path
) -> None:
    """Each with a GPU alone."""
    env = two_cards(library, tmp_path) | {"CUDA_VISIBLE_DEVICES": "0,1"}
    given = meet(tree, ("--cores", "2", "--resources", "gpu=2"), **env)
    assert [job["met"] for job in given] == [2, 2]
    assert sorted(job["held"] for job in given) == ["GPU-stand-in-0", "GPU-stand-in-1"]


@pytest.mark.slow
def test_through_slurm_the_results_are_those_of_a_local_run(
    tree: Path, slurm: Slurm, tmp_path: Path
) -> None:
    """All that can be made of two kernels without a GPU, report and paper with it."""
    checks, resources = "results/no-gpu/emulated-checks.csv", "results/no-gpu/resources.csv"
    figure = "results/figures/ladder_sgemm_ladder.svg"
    local = copy_tree(tmp_path / "local")
    run(local, "--cores", "2", resources, checks, figure, *TWO)
    said = run(tree, *QUICK, "all", *TWO, **slurm.env)
    assert "SLURM run ID" in said
    for path in (resources, figure, "results/variants.csv", "results/toolchain.json"):
        assert (tree / path).read_bytes() == (local / path).read_bytes(), path
    drawn_anew = {"seed": None, "error_over_bound": None}  # the inputs are fresh each time
    here, there = (
        [row | drawn_anew for row in dict_rows(folder / checks, Checks)] for folder in (local, tree)
    )
    assert here == there and len(here) > 10 and all(row["passed"] for row in there)
    jobs = slurm.jobs()
    assert all(job["JobState"] == "COMPLETED" and "TresPerJob" not in job for job in jobs.values())
    of_rule = {
        name: job for name, job in jobs.items() if name.startswith(("build_kernels", "emulate"))
    }
    assert len(of_rule) == 2  # of one batch
    # in Snakemake's own process
    assert not {"toolchain", "catalogue", "joined_table", "report_html"} & {*jobs}
    built = next(job for name, job in of_rule.items() if name.startswith("build"))
    assert (built["MinMemoryNode"], built["TimeLimit"]) == ("1000M", "00:10:00")


@pytest.mark.slow
def test_measuring_jobs_have_a_gpu_each(
    tree: Path, slurm: Slurm, library: Path, tmp_path: Path
) -> None:
    """Snakemake runs where no GPU is to be seen; a job sees one of the stand-in's two cards, which
    Slurm chose.
    """
    env = {**slurm.env, **two_cards(library, tmp_path)}
    look = "srun --gpus=1 python -m experiments.stages.toolchain --out gpu-node.json"
    subprocess.run(look.split(), cwd=tree, env=environment(**env), check=True)
    assert json_dict(tree / "gpu-node.json", Toolchain)["gpu"] == "NVIDIA Stand-in"

    # of rule `clocks`, the one that needs no kernel to be run
    marker = "results/stand-in/parts/locked.json"
    given = meet(tree, QUICK, marker, **env)
    assert "not asked for" in (tree / marker).read_text()
    assert [job["met"] for job in given] == [2, 2]  # at once
    assert sorted(job["CUDA_VISIBLE_DEVICES"] for job in given) == ["0", "1"]
    for job in given:
        assert job["held"] == f"GPU-stand-in-{job['CUDA_VISIBLE_DEVICES']}"
    jobs = {name: job for name, job in slurm.jobs().items() if name.startswith(("meet", "clocks"))}
    assert len(jobs) == 3
    assert {job.get("TresPerJob") for job in jobs.values()} == {"gres:gpu:1"}
