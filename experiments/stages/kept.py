"""Runs the command that makes a table, or takes what it made before: a prefix of commands that keep nothing.

    python -m experiments.stages.kept dispatch sgemm_best --store results/h200/measured \
        -- python -m experiments.tuning.dispatch sgemm_best --build-dir DIR --out dispatch.csv

What was made serves as long as the kernels' sources, the command and its module are the same, on each machine that a
run goes on with. The command's --out and, where it has one, --left-out are written either way.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

from contracts import UserError, read_rows, registry, run_command, write_rows, write_text
from contracts.archives import checksum
from experiments.command_line import add_job, add_store
from experiments.gpu.session import UNKNOWN, names_here
from experiments.stages import store
from experiments.stages.machine_code import code_of
from experiments.stages.store import Measurement, Place
from kernels import catalogue
from kernels.catalogue import Catalogue


def basis_of(command: list[str], entries: list[str], known: Catalogue) -> store.Basis:
    """What the rows rest on."""
    module = command[command.index("-m") + 1]
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None  # the registry names it
    code = checksum(Path(spec.origin).read_bytes())[:16]
    build_dir = option(command, "--build-dir")
    found = map(known.find, entries)
    # a sweep builds its kernels itself
    kernels = {one.name: code_of(one, build_dir) if build_dir else one.source_hash for one in found}
    return store.versions(build_dir) | {"code": code, "kernels": kernels, "command": command}


def option(command: list[str], name: str) -> Path | None:
    """The file that follows an option; None where the command has it not."""
    return Path(command[command.index(name) + 1]) if name in command else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a table, or take what was made of it before.")
    parser.add_argument("table", help="in contracts/recorded.py")
    parser.add_argument("entries", nargs="*", metavar="VARIANT", help="names in kernels/catalogue.yaml: what it is of")
    add_store(parser)
    catalogue.add_tuned_argument(parser)
    add_job(parser)
    before, _, command = (list(words) for words in _parted(sys.argv[1:]))
    options = parser.parse_args(before)
    table = registry.find(options.table, "contracts/recorded.py")
    out, left_out = option(command, "--out"), option(command, "--left-out")
    if out is None or "-m" not in command:
        raise UserError(f"{' '.join(command[:3]) or 'nothing'} after --: expected python -m MODULE ... --out FILE")
    place = Place("table", table.name, options.entries[0] if len(options.entries) == 1 else "all")
    basis = basis_of(command, options.entries, options.catalogue)
    with store.opened(options.store) as kept:
        if one := kept.find(place, basis.__eq__):
            if left_out:
                write_text(left_out, one.note)
            write_rows(out, table.schema, one.rows[table.name])
            return
        if code := subprocess.run(command).returncode:
            sys.exit(code)
        here, rows = names_here(), {table.name: read_rows(out, table.schema)}
        note = left_out.read_text() if left_out else ""
        kept.keep(place, Measurement(basis, here.pop() if len(here) == 1 else UNKNOWN, rows, note))


def _parted(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The words before the first "--", that, and those after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


if __name__ == "__main__":
    run_command(main)
