"""Says what made the measurements, and when: provenance.json. No serial number, UUID, host or user
name, or path.
"""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import platform
import re
import subprocess
from pathlib import Path

from contracts import read_json
from contracts.rows import Machine, Provenance, Run, Session, StoredMeasurement, Toolchain
from kernels import catalogue

PACKAGES = [
    "cuda-core",
    "cuda-bindings",
    "torch",
    "triton",
    "nvidia-cublas",
    "numpy",
    "pandas",
    "nvidia-ml-py",
    "snakemake",
]


@functools.cache
def packages() -> dict[str, str]:
    """Versions of what takes part in measuring; what is not installed is not listed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git(*arguments: str) -> str | None:
    """git's answer, or None outside a repository."""
    command = ["git", "-C", str(catalogue.ROOT.parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def sessions(store: Path) -> list[Session]:
    """The cards that a run had, the first first: how many measurements are of each, and from when
    to when (UTC).
    """
    by_session: dict[str, list[StoredMeasurement]] = {}
    for path in store.rglob("*.json"):
        stored = read_json(path, StoredMeasurement)
        by_session.setdefault(stored.session, []).append(stored)
    sessions = [
        Session(
            session=session,
            driver=all_stored[0].driver,
            commits=sorted({stored.commit for stored in all_stored if stored.commit}),
            measurements=len(all_stored),
            first=min(stored.measured for stored in all_stored),
            last=max(stored.measured for stored in all_stored),
        )
        for session, all_stored in by_session.items()
    ]
    return sorted(sessions, key=lambda session: session.first)


def changed() -> str | None:
    """What differs from the commit, as git lists it; archives take no part.

    None outside a repository.
    """
    return git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/data")


@functools.cache
def clean_commit() -> str | None:
    """The commit that this tree is; None where it is none, or differs from it."""
    return git("rev-parse", "HEAD") if changed() == "" else None


def origin(command: str) -> Run:
    """When, by what command and from which commit something is made now."""
    return Run(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        command=re.sub(r"\S*/(?=\S)", "", command),
        commit=git("rev-parse", "HEAD") or "not a git checkout",
        commit_clean=changed() == "",
    )


def of_run(
    machine: Machine,
    toolchain: Path,
    command: str,
    left_out: dict[str, str],
    sessions: list[Session],
) -> Provenance:
    """Return the provenance of a folder of measurements that `command` makes now.

    left_out: stage that did not run, or not whole, and why. Rules are frozen at the last commit that
    this tree and main share, where git knows main: only main reaches readers.
    """
    provenance = Provenance(
        machine=machine.machine,
        **vars(origin(command)),
        gpu=machine.gpu,
        driver=machine.driver,
        cuda_driver=machine.cuda_driver,
        toolchain=vars(read_json(toolchain, Toolchain)),
        python=platform.python_version(),
        packages=packages(),
        sources={name: entry.source_hash for name, entry in catalogue.load().items()},
        left_out=left_out,
        sessions=sessions,
    )
    if frozen := git("merge-base", "HEAD", "main"):
        provenance.rules_commit = frozen
    return provenance
