"""Finds nvcc and turns CUDA into PTX: the wheel's in this environment, else the one on PATH."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import PtxError

SOURCES = (".cu", ".cuh")
FLAGS = ("-std=c++17", "-O3", "-lineinfo")
DEBUG = ("-G", "--device-debug")


def tool(name: str) -> Path:
    """Return the path of a CUDA tool. Raises `PtxError` naming the remedy."""
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / "bin" / name).is_file():
            return Path(folder) / "bin" / name
    if path := shutil.which(name):
        return Path(path)
    raise PtxError(
        f"no {name}: not in the installed wheels and not on PATH; remedy: pip install a CUDA toolkit wheel"
    )


def warnings_in(report: str) -> list[str]:
    """Return the warnings in what a compiler said, each once and as one line."""
    lines = [line.strip() for line in report.splitlines() if "warning" in line.lower()]
    return list(dict.fromkeys(line for line in lines if not line.startswith("Remark")))


def show_warnings(program: str, report: str) -> None:
    """Print a compiler's warnings on standard error."""
    for line in warnings_in(report):
        print(f"ptxsim: {program}: {line}", file=sys.stderr)


def run(command: Sequence[object], failed: str) -> subprocess.CompletedProcess[str]:
    """Run a tool. Raises `PtxError`: `failed`, and the first error that the tool names."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line.lower()), lines[0])
        raise PtxError(f"{failed}: {first.removeprefix('nvdisasm fatal   : ').strip()}")
    return done


def compile_ptx(source: Path, arch: str = "sm_90a", flags: Sequence[str] = ()) -> str:
    """Return the PTX of a .cu or .cuh file; `flags` are nvcc's (-I, -D). Its warnings are printed
    on standard error. Raises `PtxError` with the compiler's first error.
    """
    if not source.is_file():
        raise PtxError(f"{source}: no such file")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        used = [flag for flag in FLAGS if not _replaced(flag, flags)]
        command = [tool("nvcc"), "-ptx", *used, f"-arch={arch.replace('sm_', 'compute_')}", *flags]
        done = run([*command, "-x", "cu", source, "-o", out], f"nvcc failed on {source.name}")
        show_warnings("nvcc", done.stderr + done.stdout)
        return out.read_text()


def _replaced(flag: str, given: Sequence[str]) -> bool:
    """Return whether one of our flags gives way to the user's."""
    if flag.startswith("-std"):
        return any("-std" in option for option in given)
    return flag == "-lineinfo" and any(option in DEBUG for option in given)
