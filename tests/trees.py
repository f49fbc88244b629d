"""Snakemake in copies of the project, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from helpers import snakemake

# The variants of the session's one run of the pipeline
SOME = ["sgemm_naive", "sgemm_coalesced", "sgemm_vectorized", "hgemm_naive_bf16"]
SOME += ["cublas_fp32", "cublas_bf16"]
OF_SOME = ("--config", f"variants={json.dumps(SOME)}")
GPU = {"nvcc": "13.0.88", "ptxas": "13.0.88", "host_compiler": "g++ 12", "cuobjdump": "13.5"}
GPU |= {"driver": "580.0", "gpu": "NVIDIA H200", "arch": "sm_90a"}


class Tree:
    """A copy of the project, and options with which Snakemake runs there."""

    def __init__(self, folder: Path, options: Sequence[str] = OF_SOME) -> None:
        self.folder, self.options = folder, options
        self.build = folder / "results" / "build" / "sm_90a"

    def succeed(self, *arguments: str, **changes: str) -> str:
        """What Snakemake says of these arguments."""
        done = snakemake(self.folder, *arguments, *self.options, **changes)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def fail(self, *arguments: str, **changes: str) -> str:
        """The one line that begins with "error:" of a run that fails; Snakemake repeats a job's.

        No traceback.
        """
        done = snakemake(self.folder, *arguments, **changes)
        words = done.stdout + done.stderr
        errors = {line for line in words.splitlines() if line.startswith("error: ")}
        assert done.returncode != 0 and len(errors) == 1, words
        assert "Traceback" not in words and 'File "' not in words, words
        return errors.pop()

    def planned(self, *arguments: str, **changes: str) -> dict[str, int]:
        """How many jobs of each rule a dry run counts."""
        return jobs(self.succeed("-n", *arguments, **changes))

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the first `old` in a file, which has it."""
        text = (self.folder / path).read_text()
        assert old in text
        (self.folder / path).write_text(text.replace(old, new, 1))

    def dates(self) -> dict[str, int]:
        """When each cubin was written."""
        return {path.stem: path.stat().st_mtime_ns for path in self.build.glob("[a-z]*.cubin")}


def jobs(words: str) -> dict[str, int]:
    """Snakemake's table of jobs."""
    table = words.partition("Job stats:")[2].partition("\n\n")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}
