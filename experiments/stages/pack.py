"""Puts what a run measured into one file, from which another machine of the same GPU model goes on.

    python -m experiments.stages.pack results/h100 --out results/h100.measured.tar.xz
    python -m experiments.stages.pack results/h100 --resume results/h100.measured.tar.xz

The file is a compressed tar archive of the measurements that `experiments.stages.store` keeps and of the tables that
targets other than `all` measure (the sweeps behind tuned kernels and dispatchers among them, which say what these
kernels are), with pack.json: the commit, the GPU model and the SHA-256 of each. Going on from it copies what is not
there yet; what it holds is used where it still serves: where the kernel's source, the compiler, the library and the
protocol are the same. provenance.json says at which commits was measured, so packing needs a git checkout without
changes.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import logging
import lzma
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import UserError, atomic_write, registry, run_command, validate
from contracts.archives import checksum
from contracts.documents import json_value
from contracts.files import read_bytes
from contracts.validation import LIMIT_BYTES as LARGEST
from experiments.gpu import discovery
from experiments.stages import store
from experiments.stages.provenance import changed, git

logger = logging.getLogger(__name__)

LIMIT_BYTES = 16 * 2**20  # of a pack
MANIFEST = "pack.json"
# A place in the store, below its folder; a problem's name may be 64x64x64,alpha=0.5,beta=1e-05
MEMBER = re.compile(r"[a-z_]+/[\w.-]+/[\w.,=+-]+\.(json|parquet)")
BY_NAME = {
    f"by_name/{table.file}"
    for table in registry.tables().values()
    if table.needs_gpu and table.target not in registry.MADE_BY_OTHERS
}


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
    if changed():
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
    files: dict[str, bytes] = {}
    left = LARGEST
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r|xz") as archive:  # one member after the other
            for member in archive:
                left -= member.size
                file = archive.extractfile(member) if left >= 0 and member.isfile() else None
                if file is None or member.name in files:
                    raise UserError(damaged)
                files[member.name] = file.read()
        manifest = json_value(files.pop(MANIFEST).decode(), path)
    except (tarfile.TarError, lzma.LZMAError, KeyError, ValueError, EOFError, OSError) as error:
        raise UserError(damaged) from error
    validate(manifest, "pack", path)
    sums = {name: checksum(content) for name, content in files.items()}
    known = (name in BY_NAME or (MEMBER.fullmatch(name) and ".." not in name) for name in files)
    if sums != manifest["files"] or not all(known):
        raise UserError(damaged)
    return Pack(manifest["commit"], manifest["gpu"], files)


def resumable(path: Path) -> Pack:
    """This pack. Raises `UserError` where a run here cannot go on from it."""
    pack, gpu, commit = read(path), gpu_here(), git("rev-parse", "HEAD")
    if pack.gpu != gpu:
        raise UserError(f"{path}: measured on {pack.gpu}, and the GPU here is {gpu}; a run is of one model")
    if commit and pack.commit != commit:
        logger.warning(f"{path}: of commit {pack.commit[:12]}, and this is {commit[:12]}; what still serves is taken")
    return pack


def unpack(pack: Pack, results: Path, tables_only: bool = False) -> int:
    """Copy what a pack holds and a machine's folder does not, into that folder; how many files these were.

    `tables_only`: the tables alone, which a run's plan depends on.
    """
    chosen = [name for name in pack.files if name in BY_NAME or not tables_only]
    added = 0
    for name in sorted(chosen, key=lambda name: name.endswith(".json")):  # samples come first
        if not (target := _target(results, name)).exists():
            with atomic_write(target) as temporary:
                temporary.write_bytes(_with_commit(pack, name))
            added += 1
    return added


def _with_commit(pack: Pack, name: str) -> bytes:
    """A pack's file. A measurement from before each named its commit is of the pack's, for then a pack was of one.

    One whose commit is null was made by a tree with changes, and stays so.
    """
    content = pack.files[name]
    if name in BY_NAME or not name.endswith(".json"):
        return content
    document = json_value(content.decode(), Path(name))
    return content if "commit" in document else json.dumps(document | {"commit": pack.commit}).encode()


def _target(results: Path, name: str) -> Path:
    """Where a pack's file belongs."""
    return results / Path(name).name if name in BY_NAME else results / store.FOLDER / name


def write(results: Path, out: Path, commit: str, gpu: str) -> int:
    """Pack what a machine's folder holds; how many measurements. Raises `UserError`, and leaves `out` as it was."""
    folder = results / store.FOLDER
    kept = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [name for name in kept if MEMBER.fullmatch(name)]
    names += [name for name in sorted(BY_NAME) if _target(results, name).is_file()]
    files = {name: read_bytes(_target(results, name), LARGEST) for name in names}
    count = sum(name.endswith(".json") for name in set(files) - BY_NAME)
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
            # what the files have in common is most of them: one stream is a third of a zip archive
            with tarfile.open(temporary, "w:xz", preset=1) as archive:
                for name, content in ({MANIFEST: json.dumps(manifest, indent=1).encode()} | files).items():
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
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
    if options.resume:
        logger.info(f"{unpack(resumable(options.resume), options.results)} files from {options.resume}")
    else:
        count = write(options.results, options.out, commit_of_tree(), gpu_here())
        logger.info(f"packed {count} measurements, {options.out.stat().st_size / 1e6:.1f} MB, into {options.out}")


if __name__ == "__main__":
    run_command(main)
