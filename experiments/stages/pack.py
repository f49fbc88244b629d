"""Puts what a run measured into one file, from which another machine of the same GPU model goes on.

    python -m experiments.stages.pack results/h100 --out results/h100.measured.zip
    python -m experiments.stages.pack results/h100 --resume results/h100.measured.zip

The file is a zip archive of the measurements that `experiments.stages.store` keeps, with pack.json: the commit, the GPU
model and the SHA-256 of each. Going on from it copies what is not there yet; what it holds is used where it still
serves. It is of one commit: packing needs a git checkout without changes, going on the same commit.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import logging
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import UserError, atomic_write, run_command, validate
from contracts.archives import checksum
from contracts.files import read_bytes
from contracts.json_files import json_value
from contracts.schema_files import LIMIT_BYTES as LARGEST
from experiments.gpu import discovery
from experiments.stages import store
from experiments.stages.provenance import git

logger = logging.getLogger(__name__)

LIMIT_BYTES = 16 * 2**20  # of a pack
MANIFEST = "pack.json"
MEMBER = re.compile(r"[a-z_]+/[\w.-]+/[\w.-]+\.(json|parquet)")  # a place in the store, below its folder


@dataclass(frozen=True)
class Pack:
    """A pack that was read, and is whole."""

    commit: str
    gpu: str
    files: dict[str, bytes]


def commit_of_tree() -> str:
    """The commit that this tree is. Raises `UserError` where it is none, or differs from it."""
    commit = git("rev-parse", "HEAD")
    if commit is None:
        raise UserError("a pack is of one commit, and this is no git checkout; clone the repository")
    if git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/data"):
        raise UserError(f"a pack is of one commit, and this tree differs from {commit[:12]}; commit the changes first")
    return commit


def gpu_here() -> str:
    """The model of the GPU. Raises `UserError` without one."""
    if (gpu := discovery.gpu()) is None:
        raise UserError("a pack is of one GPU model, and no NVIDIA GPU is visible here")
    return gpu.name


def read(path: Path) -> Pack:
    """A pack, checked file by file. Raises `UserError` for what is none, is cut, or was changed."""
    content = read_bytes(path, LIMIT_BYTES)
    damaged = f"{path}: not a whole pack of measurements; make it again with `snakemake pack`"
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = [one.file_size for one in archive.infolist()]
            if sum(sizes) > LARGEST or len(set(archive.namelist())) < len(sizes):
                raise UserError(damaged)
            files = {name: archive.read(name) for name in archive.namelist()}
        manifest = json_value(files.pop(MANIFEST).decode(), path)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise UserError(damaged) from error
    validate(manifest, "pack", path)
    sums = {name: checksum(content) for name, content in files.items()}
    if sums != manifest["files"] or not all(MEMBER.fullmatch(name) and ".." not in name for name in files):
        raise UserError(damaged)
    return Pack(manifest["commit"], manifest["gpu"], files)


def require_same(pack: Pack, path: Path, commit: str, gpu: str) -> None:
    """Raises `UserError` where a run of `commit` on `gpu` cannot go on from this pack."""
    if pack.gpu != gpu:
        raise UserError(f"{path}: measured on {pack.gpu}, and the GPU here is {gpu}; a run is of one model")
    if pack.commit != commit:
        raise UserError(f"{path}: measured at commit {pack.commit[:12]}, and this is {commit[:12]}; check that one out")


def require_resumable(path: Path) -> None:
    """Raises `UserError` where a run here cannot go on from this file."""
    require_same(read(path), path, commit_of_tree(), gpu_here())


def unpack(path: Path, folder: Path) -> int:
    """Copy what a pack holds, and `folder` does not, into this store; how many files these were."""
    pack = read(path)
    added = 0
    for name, content in sorted(pack.files.items(), key=lambda one: one[0].endswith(".json")):  # samples come first
        if not (target := folder / name).exists():
            with atomic_write(target) as temporary:
                temporary.write_bytes(content)
            added += 1
    return added


def write(folder: Path, out: Path, commit: str, gpu: str) -> int:
    """Pack this store into `out`; how many measurements it has. Raises `UserError`, and leaves `out` as it was."""
    files = {
        path.relative_to(folder).as_posix(): read_bytes(path, LARGEST)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and MEMBER.fullmatch(path.relative_to(folder).as_posix())
    }
    count = sum(name.endswith(".json") for name in files)
    if not count:
        raise UserError(f"{folder}: nothing was measured yet; there is nothing to pack")
    with _alone(out):
        if out.exists() and (lost := set(read(out).files) - set(files)):
            raise UserError(
                f"{out}: holds {len(lost)} files that this run does not have; go on from it, or name another"
            )
        manifest: dict[str, Any] = {"format": 1, "commit": commit, "gpu": gpu}
        manifest["files"] = {name: checksum(content) for name, content in files.items()}
        validate(manifest, "pack", out)
        with atomic_write(out) as temporary:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
                for name, content in files.items():
                    archive.writestr(name, content)
            if (size := temporary.stat().st_size) > LIMIT_BYTES:
                raise UserError(f"{out} would have {size / 1e6:.1f} MB; a pack is at most {LIMIT_BYTES / 1e6:.0f} MB")
    return count


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Until the block ends, nobody else packs into this file's folder."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(out.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose a folder that can be written") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UserError(f"{out}: another run is packing there; wait for its end, or choose another folder") from error
    finally:
        os.close(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pack what a run measured, or go on from a pack.")
    parser.add_argument("results", type=Path, help="a machine's folder, for instance results/h100")
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--out", type=Path, metavar="FILE", help="the pack to write")
    either.add_argument("--resume", type=Path, metavar="FILE", help="the pack to go on from")
    options = parser.parse_args()
    folder = options.results / store.FOLDER
    if options.resume:
        require_resumable(options.resume)
        logger.info(f"{unpack(options.resume, folder)} files from {options.resume}")
    else:
        count = write(folder, options.out, commit_of_tree(), gpu_here())
        logger.info(f"packed {count} measurements, {options.out.stat().st_size / 1e6:.1f} MB, into {options.out}")


if __name__ == "__main__":
    run_command(main)
