"""Which compilers, driver and GPU there are.

    python -m experiments.stages.toolchain --out results/toolchain.json

nvcc: the one named by config, else the pinned wheel, else the one on PATH; cuobjdump likewise. A
host g++ is needed.

Where Snakemake runs on a node without the GPU that its jobs get, the file is made on one that has
it: the config key gpu_node names it, and `--node` takes it over.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from contracts import UserError, read_json, run_command, write_json
from contracts.rows import Toolchain
from experiments.gpu import discovery


def _wheel_bin() -> Path | None:
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) / "bin" if places else None


def tool(name: str) -> Path:
    """Path of a CUDA tool: from the wheel, else from PATH. Raises `UserError` naming the remedy."""
    wheel = _wheel_bin()
    if wheel and (wheel / name).is_file():
        return wheel / name
    if found := shutil.which(name):
        return Path(found)
    raise UserError(
        f"no {name}: not in the installed wheels and not on PATH; remedy: pip install -e ./ptxsim -e ."
    )


def nvcc(configured: str | None = None) -> Path:
    """Path of nvcc. Raises `UserError` where it, or the g++ that it needs, is missing."""
    if configured is not None and not (
        Path(configured).is_file() and os.access(configured, os.X_OK)
    ):
        raise UserError(
            f"config key nvcc = {configured!r}: not an executable file; use null for the pinned wheel"
        )
    path = Path(configured) if configured else tool("nvcc")
    if not shutil.which("g++"):
        raise UserError(
            "no g++ on PATH: nvcc needs a host compiler; remedy: install g++ (package g++ or build-essential)"
        )
    return path


def ptxas(compiler: Path) -> Path:
    """The assembler that belongs to an nvcc."""
    sibling = compiler.resolve().parent / "ptxas"
    return sibling if sibling.is_file() else tool("ptxas")


@functools.cache
def version(path: str) -> str:
    """A tool's version line, for instance "13.0.88"."""
    try:
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{path} --version failed: {error}; is it the right program?") from error
    found = re.search(r"V(\d+\.\d+\.\d+)", text) or re.search(r"(\d+\.\d+\.\d+)", text)
    return found[1] if found else text.strip().splitlines()[0]


def identity(configured_nvcc: str | None = None, arch: str = "sm_90a") -> dict[str, str | None]:
    """What is in toolchain.json. Free of paths and of anything that changes from run to run."""
    compiler = nvcc(configured_nvcc)
    device = discovery.gpu()
    return {
        "nvcc": version(str(compiler)),
        "ptxas": version(str(ptxas(compiler))),
        "host_compiler": f"g++ {version(shutil.which('g++') or 'g++')}",
        "cuobjdump": version(str(tool("cuobjdump"))),
        "driver": device.driver if device else None,
        "gpu": device.name if device else None,
        "arch": device.arch if device else arch,
    }


def known_or_found(
    configured_nvcc: str | None, arch: str, node: str | None
) -> dict[str, str | None]:
    """The toolchain that a pipeline goes by: what it handed to this process, else another node's,
    else this one's.
    """
    found: dict[str, str | None]
    if known := os.environ.get(discovery.KNOWN):
        found = json.loads(known)
    else:
        found = vars(read_json(node, Toolchain)) if node else identity(configured_nvcc, arch)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the toolchain's fingerprint.")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--arch", default="sm_90a", help="architecture where there is no GPU")
    parser.add_argument("--node", type=Path, help="toolchain.json of another node: taken over")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    known = (
        read_json(options.node, Toolchain) if options.node else identity(options.nvcc, options.arch)
    )
    write_json(options.out, Toolchain, known, only_if_changed=True)


if __name__ == "__main__":
    run_command(main)
