"""Records the kernels of which only the source has changed since an archive was measured: data/MACHINE/same_code.csv.

    python -m experiments.stages.same_code --data data/h200 --commit COMMIT

A row that was measured with another source is stale. But a change of a header that many kernels share often leaves most
of them, instruction for instruction, as they were; then what was measured is still what runs. This builds each kernel
of which the archive has such rows twice, from COMMIT and from this checkout, and records those whose machine code and
launch are the same; of a dispatcher, where its kernels and choices are. Rows of these are not stale. Earlier rows
of the table stay where they still hold. No GPU is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import re
import struct
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from contracts import UserError, read_json, read_rows, run_command, scratch, write_rows
from experiments.stages.archive import record_origin
from experiments.stages.provenance import origin
from kernels import catalogue

FILE = "same_code.csv"
FIELDS = ("threads", "shared_bytes", "tile", "grid_axes", "textures", "b_layout", "arguments", "persistent", "cluster")
LISTING = """
import json, sys
from pathlib import Path
from kernels import catalogue
record, *fields = sys.argv[1:]
listed = {}
for name, entry in catalogue.load(Path(record) if record else None).items():
    launch = {field: str(getattr(entry, field)) for field in fields if getattr(entry, field, None)}
    choices = getattr(entry, "choices", ())
    launch["choices"] = list(map(str, choices))
    listed[name] = {"hash": entry.source_hash, "launch": launch, "kernels": [choice.variant.name for choice in choices]}
print(json.dumps(listed))
"""  # is run by each tree, with its own code

logger = logging.getLogger(__name__)


class Tree:
    """The files of a commit, or this checkout. `record`: the sweeps behind tuned kernels and dispatchers, as
    `catalogue.load` takes them; None: the catalogue's own."""

    def __init__(self, root: Path, record: Path | None = None) -> None:
        self.root, self.record = root, record.resolve() if record else None
        fields = (*FIELDS, "cooperative", "shares_tiles")
        self.entries: dict[str, dict[str, Any]] = json.loads(
            self.python("-c", LISTING, str(self.record or ""), *fields)
        )

    def python(self, *arguments: str) -> str:
        """What its own code prints. Raises `UserError` with the last line where that fails."""
        settings = os.environ | {"PYTHONPATH": str(self.root)}
        done = subprocess.run([sys.executable, *arguments], cwd=self.root, env=settings, capture_output=True, text=True)
        if done.returncode:
            *_, last = ["no message", *done.stderr.strip().splitlines()]
            raise UserError(f"{self.root}: {last.removeprefix('error: ')}")
        return done.stdout

    def build(self, name: str, arch: str) -> tuple[dict[str, Any], str]:
        """A kernel's row of resources.csv, and the SHA-256 of its machine code."""
        with scratch() as folder:
            tuned = ["--tuned", str(self.record)] if self.record else []
            self.python("-m", "experiments.stages.build", name, "--arch", arch, "--out-dir", str(folder), *tuned)
            return read_json(folder / f"{name}.json", "resources"), code_hash((folder / f"{name}.cubin").read_bytes())


def code_hash(cubin: bytes) -> str:
    """SHA-256 of a kernel's instructions and constants: those sections of a cubin, a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, of_names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + size * index) for index in range(count)]
    sections = []
    for name, _, _, _, offset, length, *_ in headers:
        begin = headers[of_names][4] + name
        kind = re.match(rb"\.text|\.nv\.constant\d", cubin[begin : begin + 16])
        if kind:  # without the name of the function, which contains the template's values
            sections.append(kind[0] + b" %d " % length + cubin[offset : offset + length])
    return hashlib.sha256(b"".join(sorted(sections))).hexdigest()


def find(archive: Path, before: Tree, now: Tree) -> list[dict[str, Any]]:
    """The rows of same_code.csv.

    Raises `UserError` where the archive has a kernel with other registers or instructions than `before`.
    """
    measured = {row["variant"]: row for row in read_rows(archive / "resources.csv", "resources")}
    both = [name for name in now.entries if name in before.entries]
    changed = [name for name in both if before.entries[name]["hash"] != now.entries[name]["hash"]]
    same: dict[str, dict[str, Any]] = {}

    def compare(name: str) -> None:
        row, code = before.build(name, measured[name]["arch"])
        if other := [key for key, value in row.items() if measured[name].get(key) != value]:
            found = f"{other[0]} = {row[other[0]]} in the commit, {measured[name].get(other[0])} in the archive"
            raise UserError(f"{name}: {found}; name the commit that was measured, and use its compiler")
        if before.entries[name]["launch"] == now.entries[name]["launch"] and now.build(name, row["arch"])[1] == code:
            same[name] = {"arch": row["arch"], "compiler": row["compiler"], "code": code}

    kernels = [name for name in changed if name in measured]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compare, kernels))
    dispatchers = [name for name in changed if now.entries[name]["kernels"]]
    for name in dispatchers:
        alike = before.entries[name]["launch"] == now.entries[name]["launch"]
        if alike and all(kernel in same or kernel not in changed for kernel in now.entries[name]["kernels"]):
            same[name] = {}
    for name in (*kernels, *dispatchers):
        if name not in same:
            logger.info(f"{name}: other code; measure it again")
    hashes = {name: (before.entries[name]["hash"], now.entries[name]["hash"]) for name in sorted(same)}
    return [
        {"variant": name, "measured_hash": measured_hash, "source_hash": source_hash, **same[name]}
        for name, (measured_hash, source_hash) in hashes.items()
    ]


def chained(earlier: list[dict[str, Any]], rows: list[dict[str, Any]], now: Tree) -> list[dict[str, Any]]:
    """`rows`, and of the table's `earlier` rows those that still hold: of a source that has not changed since, or that
    `rows` show to have kept its code once more."""
    moved = {(row["variant"], row["measured_hash"]): row["source_hash"] for row in rows}
    held = []
    for row in earlier:
        here = now.entries.get(row["variant"], {}).get("hash")
        if here and here in (row["source_hash"], moved.get((row["variant"], row["source_hash"]))):
            held.append(row | {"source_hash": here})
    known = {(row["variant"], row["measured_hash"]) for row in rows}
    held = [row for row in held if (row["variant"], row["measured_hash"]) not in known]
    return sorted([*rows, *held], key=lambda row: (row["variant"], row["measured_hash"]))


def unpack(commit: str, folder: Path) -> None:
    """A commit's files. Raises `UserError` where git has no such commit."""
    done = subprocess.run(["git", "archive", "--format=tar", commit], capture_output=True)
    if done.returncode:
        raise UserError(f"--commit {commit}: {done.stderr.decode().strip().splitlines()[-1]}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="an archive: data/MACHINE")
    parser.add_argument("--commit", required=True, help="one whose kernels are those measured")
    options = parser.parse_args()
    with scratch() as folder:
        unpack(options.commit, folder)
        record = catalogue.record_in(options.data)
        now = Tree(catalogue.ROOT.parent, record)
        rows = find(options.data, Tree(folder, record), now)
    table = options.data / FILE
    rows = chained(read_rows(table, "same_code") if table.is_file() else [], rows, now)
    write_rows(table, "same_code", rows)
    record_origin(options.data, [FILE], origin(f"python -m experiments.stages.same_code --commit {options.commit}"))
    logger.info(f"{table}: {len(rows)} kernels of which only the source changed")


if __name__ == "__main__":
    run_command(main)
