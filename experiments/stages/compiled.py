"""Compiles kernels for the GPUs that the worklogs' authors measured on, and records what comes of it.

    python -m experiments.stages.compiled                # for every worklog, about two seconds a kernel

`compiled` in a worklog's source.yaml names the kernels by architecture; compiled.csv next to it has a row of
resources.csv for each. Registers, spills and machine instructions are the compiler's, so that no GPU is needed to
compare a text's words with them, on its own architecture.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from contracts import choose, read_json, run_command, scratch, worklogs, write_rows
from experiments.stages.build import build_variant
from kernels import catalogue

logger = logging.getLogger(__name__)


def rows(
    cases: Mapping[str, Sequence[str]], source: object, configured_nvcc: str | None = None
) -> list[dict[str, Any]]:
    """A row of resources.csv for each kernel of each architecture.

    Raises `UserError` for a kernel that the catalogue does not have, naming `source`, and with the
    compiler's first error.
    """
    pairs = [(name, arch) for arch, names in cases.items() for name in names]
    for name, arch in pairs:
        choose(catalogue.load().kernels, name, "kernel", f"{source}: compiled: {arch}")
    found = []
    for name, arch in pairs:
        with scratch() as folder:
            cubin = build_variant(name, arch, folder, configured_nvcc)
            row = read_json(cubin.with_suffix(".json"), "resources")
        logger.info(f"{name} for {arch}: {row['registers']} registers")
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nvcc", metavar="PATH", help="the compiler (default: the one found on PATH)")
    options = parser.parse_args()
    for source in worklogs.sources().values():
        if "compiled" in source:
            found = rows(source["compiled"], source["folder"] / "source.yaml", options.nvcc)
            write_rows(source["folder"] / "compiled.csv", "resources", found)


if __name__ == "__main__":
    run_command(main)
