"""The page of one kernel: the explorer's lens, which `analysis lens` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from contracts import UserError, write_json, write_rows
from contracts.rows import Lens, Variants
from experiments.try_kernel.archived import DATA
from experiments.try_kernel.findings import Findings
from kernels.catalogue import ROOT, Catalogue


def require_writable(path: Path) -> None:
    """Raise `UserError` where a page cannot be written there."""
    if not path.parent.is_dir():
        raise UserError(f"--html {path}: no folder {path.parent}; make it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"--html {path}: cannot be written; allowed: a file in a folder of yours")


def write(
    path: Path, kernel: Findings, rung: Findings | None, known: Catalogue, gpu: str, root: Path
) -> None:
    """Write the page of a kernel next to its rung, with what the archive of a GPU has of both.

    gpu: folder of data/, if there is one of this name. root: folder of what the page is made of.
    Raises `UserError` where there is nothing to show.
    """
    if kernel.lens is None:
        raise UserError(f"--html {path}: no page: {kernel.why_not}")
    write_rows(root / "variants.csv", Variants, known.rows())
    lenses = [findings for findings in (kernel, rung) if findings and findings.lens]
    files = [(root / "lens" / f"{findings.name}.json").resolve() for findings in lenses]
    for findings, file in zip(lenses, files, strict=True):
        write_json(file, Lens, findings.lens, indent=None)
    command = [sys.executable, "-m", "analysis", "lens", files[0], "--out", path.resolve()]
    command += [word for file in files[1:] for word in ("--over", file)]
    command += ["--results", DATA / gpu] if (DATA / gpu).is_dir() else []
    command += ["--catalogue", (root / "variants.csv").resolve()]
    done = subprocess.run([*map(str, command)], cwd=ROOT.parent, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"--html {path}: {lines[-1].removeprefix('error: ')}")
    print(f"page: {path}", flush=True)
