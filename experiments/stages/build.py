"""Compiles variants to PTX and cubins, and reads their resources from them.

    python -m experiments.stages.build sgemm_warptile sgemm_naive --arch sm_90a --out-dir results/build/sm_90a

writes for each NAME.cu (the instantiation), NAME.ptx, NAME.cubin, NAME.sass (what nvdisasm says of
that, which the emulator reads, too) and NAME.json (its row of resources.csv). The cubin is made
from the very PTX next to it. With `--toolchain FILE`, a variant is left as it is where it was built
from the same source after FILE was written. `--source FILE.cu` compiles a whole file instead (the
harness), without a row.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from contracts import (
    UserError,
    atomic_write,
    read_json,
    run_command,
    scratch,
    write_json,
    write_rows,
    write_text,
)
from contracts.rows import Resources
from experiments.command_line import templates
from experiments.stages import toolchain
from experiments.stages.machine_code import code_hash
from experiments.stages.relocatable import SEED, relocatable
from kernels import catalogue
from kernels.catalogue import Catalogue
from ptxsim import PtxsimError, gpus
from ptxsim.count.occupancy import occupancy
from ptxsim.ptx import sass
from ptxsim.ptx.compiler import warnings_in

FLAGS = ["-std=c++17", "-O3", "-lineinfo", SEED]

logger = logging.getLogger(__name__)

SERIALIZED = "wgmma.mma_async instructions are serialized"  # ptxas, C7510

# SASS opcodes that are counted by the width of the access: column prefix by opcode
BY_WIDTH = {"LDS": "lds", "STS": "sts", "LDG": "ldg", "STG": "stg"}
PLAIN = {
    "FFMA": "ffma",
    "HMMA": "hmma",
    "LDGSTS": "ldgsts",
    "LDSM": "ldsm",
    "TLD": "tex",
    "TEX": "tex",
    "BAR": "bar",
}


def compile_source(source: Path, stem: Path, arch: str, compiler: Path) -> str:
    """Compile `source` to `stem`.ptx and `stem`.cubin; return what `ptxas -v` says of its
    resources.

    Raises `UserError` with the compiler's first error.
    """
    with (
        atomic_write(stem.with_suffix(".ptx")) as ptx,
        atomic_write(stem.with_suffix(".cubin")) as cubin,
        scratch() as empty,
    ):
        virtual = arch.replace("sm_", "compute_")
        include = f"-I{catalogue.ROOT}"
        to_ptx = [
            str(compiler),
            "-ptx",
            *FLAGS,
            f"-arch={virtual}",
            include,
            str(source),
            "-o",
            str(ptx),
        ]
        messages = _run(to_ptx, source, env={**os.environ, "TMPDIR": str(empty)})
        ptx.write_text(relocatable(ptx.read_text(), source, catalogue.ROOT.parent, stem.parent))
        assembler = [
            str(toolchain.ptxas(compiler).absolute()),
            "-v",
            "-O3",
            "--generate-line-info",
            f"-arch={arch}",
        ]
        # It notes date and size of each source file that it finds from where it runs. Here it finds
        # none.
        report = _run(
            [*assembler, str(ptx.absolute()), "-o", str(cubin.absolute())], source, cwd=empty
        )
    for warning in warnings_in(messages + report):
        logger.warning(f"{source.name}: {warning}")
    return report


def compile_debug(source: Path, ptx: Path, arch: str, compiler: Path) -> None:
    """Compile `source` to PTX that is not optimised (nvcc -G).

    Raises `UserError` with the compiler's first error.
    """
    flags = [flag for flag in FLAGS if flag != "-lineinfo"]
    virtual = arch.replace("sm_", "compute_")
    with atomic_write(ptx) as out:
        command = [str(compiler), "-ptx", "-G", *flags, f"-arch={virtual}", f"-I{catalogue.ROOT}"]
        _run([*command, str(source), "-o", str(out)], source)


def _run(
    command: list[str], source: Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line.lower()), lines[0])
        raise UserError(f"{Path(command[0]).name} failed on {source.name}: {first.strip()}")
    return done.stderr + done.stdout


def sass_counts(listing: str) -> dict[str, int]:
    """Static counts of SASS instructions by what nvdisasm prints: the columns from `sass_total` on
    in resources.csv.
    """
    counts: Counter[str] = Counter()
    for opcode in re.findall(
        r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", listing, re.M
    ):
        name, *modifiers = opcode.split(".")
        counts["sass_total"] += 1
        if name in BY_WIDTH:
            width = next((m for m in modifiers if m in ("64", "128")), "32")
            counts[f"{BY_WIDTH[name]}_{width}"] += 1
        elif name in PLAIN:
            counts[PLAIN[name]] += 1
    widths = [f"{prefix}_{width}" for prefix in BY_WIDTH.values() for width in (32, 64, 128)]
    return {column: counts[column] for column in ["sass_total", *PLAIN.values(), *widths]}


def _number(pattern: str, report: str) -> int:
    match = re.search(pattern, report)
    return int(match[1]) if match else 0


def compiler_name(compiler: Path) -> str:
    """Both compilers with their versions, as in resources.csv."""
    assembler = toolchain.ptxas(compiler)
    return f"nvcc {toolchain.version(str(compiler))}, ptxas {toolchain.version(str(assembler))}"


def resources(
    variant: catalogue.Variant, stem: Path, arch: str, compiler: Path, report: str
) -> Resources:
    """The variant's row of resources.csv. Keeps what nvdisasm says of the cubin next to it."""
    try:
        listing, limits = sass.listing(stem.with_suffix(".cubin")), gpus.limits_of(arch)
    except PtxsimError as error:
        raise UserError(str(error)) from error
    write_text(stem.with_suffix(".sass"), listing)
    registers = _number(r"Used (\d+) registers", report)
    shared = _number(r"(\d+) bytes smem", report) + variant.shared_bytes
    held = occupancy(limits, variant.threads, registers, shared)
    return Resources(
        variant=variant.name,
        arch=arch,
        compiler=compiler_name(compiler),
        source_hash=variant.source_hash,
        code_hash=code_hash(variant, stem.with_suffix(".cubin")),
        registers=registers,
        shared_bytes=shared,
        stack_bytes=_number(r"(\d+) bytes stack frame", report),
        spill_bytes=_number(r"(\d+) bytes spill stores", report)
        + _number(r"(\d+) bytes spill loads", report),
        threads=variant.threads,
        blocks_per_sm=held.blocks_per_sm,
        occupancy=held.fraction,
        limiter=held.limiter,  # type: ignore[arg-type]  # text, in ptxsim
        **sass_counts(listing),
    )


def build_variant(
    name: str,
    arch: str,
    out_dir: Path,
    configured_nvcc: str | None = None,
    known: Catalogue | None = None,
) -> Path:
    """Build a variant of the catalogue in `out_dir`; return the path of its cubin.

    See `build_kernel`.
    """
    variant = (known or catalogue.load()).find(name)
    if isinstance(variant, catalogue.Dispatcher):
        kernels = ", ".join(kernel.name for kernel in variant.variants)
        raise UserError(
            f"{name} is a dispatcher: there is nothing to build but its kernels, {kernels}"
        )
    if not isinstance(variant, catalogue.Variant):
        raise UserError(f"{name} is a library baseline: there is nothing to build")
    return build_kernel(variant, arch, out_dir, configured_nvcc)


def build_kernel(
    variant: catalogue.Variant, arch: str, out_dir: Path, configured_nvcc: str | None = None
) -> Path:
    """Build a kernel, be it in the catalogue or not, in `out_dir`; return the path of its cubin.

    Raises `UserError` with the compiler's first error, and with what there is where the kernel's
    function is not.
    """
    name = variant.name
    if reason := variant.unsupported(arch):
        raise UserError(reason)
    compiler = toolchain.nvcc(configured_nvcc)
    stem = out_dir / name
    write_text(stem.with_suffix(".cu"), variant.translation_unit())
    # It is written last, and says that the others are complete.
    stem.with_suffix(".json").unlink(missing_ok=True)
    try:
        report = compile_source(stem.with_suffix(".cu"), stem, arch, compiler)
    except UserError as error:
        there = [function.name for path in variant.sources() for function in templates(path)]
        if variant.entry in there:
            raise
        hint = f"{variant.source.name} has no __global__ template {variant.entry!r} written out"
        known = ", ".join(there) or "none"
        raise UserError(
            f"{error}; {hint}; there: {known}; {name} says which by `entry:` in the catalogue"
        ) from error
    if SERIALIZED in report:
        logger.warning(
            f"{name}: ptxas waits after each wgmma, for it cannot see that its registers are left alone"
        )
    write_json(
        stem.with_suffix(".json"), Resources, resources(variant, stem, arch, compiler, report)
    )
    return stem.with_suffix(".cubin")


def current(variant: catalogue.Variant, stem: Path, arch: str, compiler: Path) -> Resources | None:
    """The row of what `build_kernel` left at `stem`; None where that is not whole, or of another
    source or compiler.
    """
    if not all(
        stem.with_suffix(suffix).is_file() for suffix in (".json", ".ptx", ".cubin", ".sass")
    ):
        return None
    try:
        row = read_json(stem.with_suffix(".json"), Resources)
    except UserError:
        return None
    now = (variant.source_hash, compiler_name(compiler), arch)
    return row if (row.source_hash, row.compiler, row.arch) == now else None


def build_batch(
    names: list[str],
    arch: str,
    out_dir: Path,
    configured_nvcc: str | None,
    known: Catalogue,
    toolchain_file: Path | None,
) -> list[Resources]:
    """Build several variants in `out_dir`; return their rows of resources.csv, in the order of
    `names`.

    toolchain_file: what was built from the same source since this file was written is left as it
    is; None: nothing is. Raises `UserError` with the first error of each variant that failed, once
    the others are built.
    """
    compiler = toolchain.nvcc(configured_nvcc)
    rows, failed = [], []
    for name in names:
        variant, stem = known.find(name), out_dir / name
        try:
            row = None
            if (
                isinstance(variant, catalogue.Variant)
                and toolchain_file
                and _is_newer(stem, toolchain_file)
            ):
                row = current(variant, stem, arch, compiler)
            if row is None:
                build_variant(name, arch, out_dir, configured_nvcc, known)
                row = read_json(stem.with_suffix(".json"), Resources)
            rows.append(row)
        except UserError as error:
            failed.append(str(error))
    if failed:
        raise UserError("; ".join(failed))
    return rows


def _is_newer(stem: Path, than: Path) -> bool:
    """Whether a variant's row was written after the file `than`."""
    row = stem.with_suffix(".json")
    return row.is_file() and row.stat().st_mtime_ns > than.stat().st_mtime_ns


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile variants.")
    parser.add_argument(
        "variants", nargs="*", metavar="VARIANT", help="names in kernels/catalogue.yaml"
    )
    parser.add_argument(
        "--source", type=Path, help="compile this file as it is, instead of variants"
    )
    parser.add_argument("--arch", required=True, help="for instance sm_90a")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out-dir", required=True, type=Path)
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="written last: their rows of resources.csv"
    )
    parser.add_argument(
        "--toolchain",
        type=Path,
        metavar="FILE",
        help="toolchain.json: what is older is built again",
    )
    options = parser.parse_args()
    if bool(options.variants) == bool(options.source):
        raise UserError("name variants, or one file with --source")
    if options.source:
        stem = options.out_dir / options.source.stem
        compile_source(options.source, stem, options.arch, toolchain.nvcc(options.nvcc))
        return
    rows = build_batch(
        options.variants,
        options.arch,
        options.out_dir,
        options.nvcc,
        catalogue.load(),
        options.toolchain,
    )
    if options.rows:
        write_rows(options.rows, Resources, rows)


if __name__ == "__main__":
    run_command(main)
