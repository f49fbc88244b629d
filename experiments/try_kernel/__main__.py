"""Build, check, emulate and, where there is a GPU, measure one kernel, reported on one screen.

    python -m experiments.try_kernel sgemm_mine
    python -m experiments.try_kernel mine.cu --like sgemm_vectorized --template BK=16 --watch

The first command is for a kernel of the catalogue, and compares it with the rung that it builds on.
The second is for one that is not in the catalogue, and repeats whenever a file is saved. With
`--html FILE` a page shows what each line costs. The exit code is 1 where a check failed. Everything
goes into results/try, where the rung's part is cached.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from pathlib import Path

from contracts import UserError, run_command
from experiments.command_line import add_gpu, add_kernel, find_gpu, find_kernel, kernel_arguments
from experiments.gpu import discovery
from experiments.try_kernel import archived, findings, html, on_gpu, screen
from kernels import catalogue
from kernels.catalogue import Variant

POLL_S = 0.3
CLEAR = "\033[2J\033[H"


def chosen(options: argparse.Namespace) -> Variant:
    """Return the kernel that is tried; raise `UserError` for what is none."""
    entry = find_kernel(options)
    if isinstance(entry, catalogue.Dispatcher):
        raise UserError(
            f"{entry.name} is a dispatcher; try one of its kernels: {', '.join(v.name for v in entry.variants)}"
        )
    if not isinstance(entry, Variant):
        raise UserError(f"{entry.name} is a library baseline: there is nothing to build")
    return entry


def once(options: argparse.Namespace) -> int:
    """Print the screen of one round; return 1 where a check failed, else 0."""
    variant = chosen(options)
    against = options.against or variant.builds_on
    known: catalogue.Catalogue = options.catalogue
    rung = known.find(against) if against else None
    if rung is not None and not isinstance(rung, Variant):
        raise UserError(f"--against {against}: not a kernel; allowed: a variant of the catalogue")
    gpu = discovery.gpu()
    arch, root, nvcc = gpu.arch if gpu else options.arch, options.out_dir, options.nvcc
    size = findings.common_size(options.size, *([variant, rung] if rung else [variant]))
    rates = find_gpu(options.gpu)
    _tell(f"building {variant.name} for {arch} ...")
    seen = options.html is not None
    compared = findings.find_cached(rung, size, arch, rates, root, nvcc, seen) if rung else None
    _tell(f"checking and emulating {variant.name} ...")
    kernel = findings.find(variant, size, arch, rates, root, checked=True, nvcc=nvcc, seen=seen)
    measured, why = None, "a check failed" if gpu else "no NVIDIA GPU is visible here"
    if gpu and kernel.passed:
        named = kernel_arguments(options)
        measured = on_gpu.measure(known, variant, rung, size, gpu, root, named, nvcc)
        why = "a check failed on the GPU"
    recorded = (
        {}
        if measured
        else archived.speeds(options.gpu[0], [variant, *([rung] if rung else [])], size)
    )
    lines = screen.render(variant, kernel, compared, measured, why, recorded)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        lines = screen.coloured(lines)
    print("\n".join(lines), flush=True)
    if seen:
        html.write(options.html, kernel, compared, known, options.gpu[0], root)
    return 0 if kernel.passed and (measured is None or measured.passed) else 1


def _tell(text: str) -> None:
    """Say on a terminal what takes a while."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _round(options: argparse.Namespace) -> None:
    """Run one round in a process of its own, which sees the files as they are now."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            once(reread(options))
        except (UserError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)


def reread(options: argparse.Namespace) -> argparse.Namespace:
    """Return the same options with the catalogue as its file is now."""
    return argparse.Namespace(**vars(options) | {"catalogue": catalogue.load()})


def stamps(options: argparse.Namespace, before: dict[Path, int]) -> dict[Path, int]:
    """Return when the kernel's files and the catalogue were saved last, in nanoseconds.

    While the kernel cannot be read, the files of `before` count.
    """
    paths = [catalogue.CATALOGUE, *before]
    with contextlib.suppress(UserError, OSError):
        paths = [catalogue.CATALOGUE, *chosen(reread(options)).sources()]
    saved = {}
    for path in paths:
        with contextlib.suppress(OSError):  # An editor may be replacing it.
            saved[path] = path.stat().st_mtime_ns
    return saved


def watch(options: argparse.Namespace) -> int:
    """Run a round now and whenever a file of the kernel is saved, until Ctrl-C."""
    # A fork has all that is imported; no GPU is in use yet.
    fork = multiprocessing.get_context("fork")
    seen: dict[Path, int] = {}
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = stamps(options, seen)
            if now != seen:
                seen = now
                if os.isatty(sys.stdout.fileno()):
                    print(CLEAR, end="", flush=True)
                process = fork.Process(target=_round, args=(options,))
                process.start()
                process.join()
                print(f"watching {options.variant}; Ctrl-C ends", file=sys.stderr, flush=True)
            time.sleep(POLL_S)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Try one kernel: build, check, emulate, measure.")
    add_kernel(parser)
    parser.set_defaults(catalogue=catalogue.load())
    parser.add_argument(
        "--against", metavar="VARIANT", help="compared with; default: the rung that it builds on"
    )
    parser.add_argument(
        "--size", type=int, default=4096, metavar="N", help="m = n = k; rounded to what both take"
    )
    parser.add_argument("--arch", default="sm_90a", help="built for where there is no GPU")
    add_gpu(parser)
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument(
        "--out-dir", type=Path, default=Path("results/try"), help="results/try when left out"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again whenever a file of the kernel is saved; ends by Ctrl-C",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE.html",
        help="written: source, machine code and what each line costs, side by side",
    )
    options = parser.parse_args()
    if options.html:
        html.require_writable(options.html)
    if not 1 <= options.size <= 32768:
        raise UserError(f"--size {options.size} is not allowed; allowed: 1 to 32768")
    return watch(options) if options.watch else once(options)


if __name__ == "__main__":
    run_command(main)
