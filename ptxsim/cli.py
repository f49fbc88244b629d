"""`python -m ptxsim run | annotate | banks | bounds | predict`: emulate a kernel, check its memory
accesses, count what the memory system does.

python -m ptxsim run KERNEL.ptx --entry NAME --grid 2,2 --block 256 --arg i32:256 --arg
random:f32:256x256 ... python -m ptxsim annotate KERNEL.cu --grid 2,2 --block 256 --arg ... python
-m ptxsim banks KERNEL.cu --line 57 --grid 1 --block 256 --arg ... python -m ptxsim bounds KERNEL.cu
--grid 64,64 --block 256 --arg ... --gpu h200 python -m ptxsim predict KERNEL.cuh --entry
'tiled<128, 8>' -I include --grid 64,64 --block 256 --arg ...
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .arguments import Argument, parse_argument, parse_constant, parse_size
from .arguments import __doc__ as ARGUMENTS
from .count import bounds as limits
from .count import fidelity, machines, prediction
from .count.annotate import listing
from .count.banks import accesses, distinct, table
from .count.counters import Counters, Stats
from .engine.kernel import Launch
from .errors import (
    EMULATOR_FAILED,
    KernelFault,
    Kind,
    PtxsimError,
    TooCostlyError,
    report_own_failure,
)
from .exec import command as programs
from .exec.options import OPPOSITE, ORDERS, TYPES, WHY, add_options, number
from .interface import Kernel, load
from .machine import faults
from .machine.arrays import Array
from .machine.launch import Limits
from .machine.observer import Observer
from .machine.tensor_maps import TensorMap
from .ptx import sass
from .ptx.compiler import DEBUG, SOURCES
from .ptx.sources import require_writable, write_whole

FOLDER = Path(__file__).parent
DESCRIPTION = """\
Run CUDA programs and kernels without a GPU. Each launch is emulated on the CPU, each use of memory
is checked, and bank conflicts, sectors and other counters are reported by line of the source."""
EPILOG = f"""\
examples:
  ptxsim nvcc -o matmul matmul.cu          compile a program for `exec`: nvcc with a few flags
  ptxsim exec ./matmul 256                 run it: its output, its faults, what its kernels did
  ptxsim run scale.ptx --grid 2 --block 32 --arg out=zeros:f32:64 --arg random:f32:64 --arg 2.0 --arg 64
                                           run, check and count one kernel; `--arg` once for each parameter
  ptxsim run --help                        the options of a command, and what arguments it takes

A .ptx file needs nothing else. For .cu files, `exec` and cubins there must be nvcc (a CUDA toolkit on
PATH, or: pip install 'ptxsim[nvcc]') and g++. `exec` runs on Linux only.
These files are in {FOLDER / "examples" / "first"}.
{FOLDER / "QUESTIONS.md"} has one command for each frequent question."""

# The exit codes stand for faults of the kernel, for what cannot be run, and for notes alone.
FAULTS, USAGE, NOTES = 1, 2, 4
# `OWN_ARRAY` matches the declaration of a thread's own array, as far as a line tells.
OWN_ARRAY = re.compile(
    r"^(?!.*__(?:shared|constant|device)__)\s+(?:const )?\w+ \w+\[[^\]]+\]", re.M
)
# A grid is also run with -G up to this many thread-instructions.
MAX_HIDDEN = 2e7


def report(kernel: Kernel, counters: Counters) -> dict[str, Any]:
    """Return the report that `--out` writes: totals under ncu's names, and each instruction that
    touched memory.
    """
    stats = counters.by_instruction()
    return {
        "kernel": kernel.name,
        "grid": list(counters.grid),
        "block": list(counters.block),
        "totals": counters.totals(),
        "at_least": counters.at_least(),
        "polls": sum(s.polled for s in stats),
        "instructions": [_row(s) for s in stats if s.requests or s.merged_into],
    }


def _row(s: Stats) -> dict[str, Any]:
    location = s.instruction.location
    return {
        "pc": s.instruction.pc,
        "ptx_line": s.instruction.ptx_line,
        "file": location.file if location else None,
        "line": location.line if location else None,
        "instruction": s.instruction.name,
        "space": s.space,
        "kind": s.kind,
        "bytes_per_thread": s.width,
        "executed": s.executed,
        "polled": s.polled,
        "requests": s.requests,
        "wavefronts": s.wavefronts,
        "wavefronts_ideal": s.ideal,
        "conflicts_by_ways": {str(ways): count for ways, count in sorted(s.ways.items())},
        "sectors": s.sectors,
        "sectors_excess": s.excess_sectors,
        "bytes_per_sector": round(s.bytes_per_sector, 3),
        "pattern": s.pattern if s.sectors else None,
        "merged_into_pc": s.merged_into.pc if s.merged_into else None,
    }


def summary(kernel: Kernel, counters: Counters) -> str:
    """Return totals and, by source line, the accesses that cost more than they must."""
    lines = [
        f"{kernel.title}: grid {counters.grid}, block {counters.block}",
        *_figures(counters.totals(), counters.at_least()),
    ]
    if polls := sum(s.polled for s in counters.by_instruction()):
        lines.append(
            f"  {polls:,} instructions of loops that poll again are left out: on a device, time decides how many"
        )
    costly = []
    for (file, line), stats in counters.by_line().items():
        waves, ideal = sum(s.wavefronts for s in stats), sum(s.ideal for s in stats)
        if waves > ideal:
            costly.append(
                f"  {Path(file).name}:{line}: {waves / ideal:.3g} wavefronts for each that would do"
            )
        texts = dict.fromkeys(s.sectors_in_words() for s in stats if s.excess_sectors)
        costly += [f"  {Path(file).name}:{line}: {text}" for text in texts if text]
    return "\n".join(
        lines + (["accesses that cost more than they must:", *costly] if costly else [])
    )


def _figures(totals: Mapping[str, float], at_least: Mapping[str, str]) -> list[str]:
    """Return a line for each total that is not zero: counts whole, ratios with six digits. What a
    device may count more of is marked, and the reasons stand below."""
    nonzero = {name: value for name, value in totals.items() if value}
    lines = []
    for name, value in nonzero.items():
        figure = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
        lines.append(f"  {name:72s} {'>= ' * (name in at_least) + figure:>16s}")
    reasons = dict.fromkeys(reason for name, reason in at_least.items() if name in nonzero)
    return lines + [f"  >=: {reason}" for reason in reasons]


def _write_json(path: Path, content: object) -> None:
    write_whole(path, json.dumps(content, indent=1) + "\n")


def _kernel(options: argparse.Namespace, folder: Path | None = None) -> Kernel:
    """Return the kernel that the options name; with `folder`, its machine code too, which is put
    there if need be.
    """
    cubin, ptx, arch, flags = options.cubin, options.ptx, options.arch, options.flags
    return load(options.kernel, options.entry, cubin, ptx, arch, flags, folder)


def _fields(options: argparse.Namespace, arguments: list[Argument]) -> dict[str, Any]:
    """Return the fields of a launch that all commands have."""
    return {
        "grid": parse_size(options.grid),
        "block": parse_size(options.block),
        "args": [a.value for a in arguments],
        "shared_bytes": options.shared,
        "limits": Limits(**{field.name: getattr(options, field.name) for field in fields(Limits)}),
        "constants": dict(map(parse_constant, options.constant)),
        "cluster": _cluster(options),
    }


def _arguments(options: argparse.Namespace) -> list[Argument]:
    """Return the kernel's arguments; what is to be written can be."""
    arguments = [parse_argument(text, number) for number, text in enumerate(options.arg)]
    written = [options.out, *(saved.save_as for given in arguments for saved in given.saved)]
    require_writable([path for path in written if path])
    return arguments


def _launch(
    kernel: Kernel,
    options: argparse.Namespace,
    arguments: list[Argument],
    observers: Sequence[Observer],
    blocks: Sequence[int] | None = None,
) -> Launch:
    launched = {
        "checks": options.checks,
        "blocks": blocks,
        "stop_at_first": options.stop_at_first,
        "accept": options.accept,
    }
    done = kernel.launch(**_fields(options, arguments), **launched, observers=observers)
    if options.orders == 2 and not done.faults:
        others = _arguments(options)
        again = kernel.launch(**_fields(options, others), **launched, backwards=True)
        done = _of_both_orders(kernel, arguments, others, done, again)
    for fault in sorted(done.faults, key=lambda fault: fault.accepted is not None):
        print(f"ptxsim: {fault if fault.accepted is None else fault.acceptance}", file=sys.stderr)
    for note in done.notes:
        print(f"ptxsim: note: {note}", file=sys.stderr)
    return done


def _of_both_orders(
    kernel: Kernel,
    arguments: list[Argument],
    others: list[Argument],
    done: Launch,
    second: Launch,
) -> Launch:
    """Return a launch without faults with what only a second one in the opposite order showed, which
    had other arguments."""
    notes = [note for note in second.notes if note not in done.notes]
    for index, pair in enumerate(zip(arguments, others, strict=True)):
        left = [argument.value for argument in pair if isinstance(argument.value, Array)]
        if len({array.numpy().tobytes() for array in left}) == 2 and not second.faults:
            notes.append(f"{kernel.title}: {OPPOSITE}, argument {index} is left otherwise: {WHY}")
    faults = [replace(f, message=f"{f.message} ({OPPOSITE})") for f in second.faults]
    return replace(done, faults=tuple(faults), notes=(*done.notes, *notes))


def _cluster(options: argparse.Namespace) -> tuple[int, ...] | None:
    return parse_size(options.cluster) if options.cluster else None


def _counted(
    kernel: Kernel, options: argparse.Namespace, arguments: list[Argument]
) -> tuple[Counters, limits.Work]:
    """Return counts of the whole grid: it is executed and checked, or if that takes long, they
    follow from a few blocks.
    """
    result, why = None, ""
    if math.prod(parse_size(options.grid)) > prediction.FEW:
        try:
            result = _predicted(kernel, options, arguments, by_instruction=True)
        except PtxsimError as error:
            why = f"; not predicted, either: {error}"
    if result is not None and limits.WARP * sum(result.work.executed.values()) > prediction.WHOLE:
        print(f"ptxsim: note: {_sampled(kernel, result)}; nothing is checked", file=sys.stderr)
        return result.counters, result.work
    counters, traffic = Counters(), limits.Traffic()
    try:
        _launch(kernel, options, arguments, [counters, traffic])
    except TooCostlyError as error:
        raise PtxsimError(f"{error}{why}") from None
    return counters, limits.Work.observed(counters, traffic)


def _predicted(
    kernel: Kernel,
    options: argparse.Namespace,
    arguments: list[Argument],
    by_instruction: bool = False,
) -> prediction.Prediction:
    launched = _fields(options, arguments) | {"over": _over(options.over)}
    return prediction.predict(kernel, **launched, by_instruction=by_instruction)


def _sampled(kernel: Kernel, result: prediction.Prediction) -> str:
    smaller = ""
    if result.over:
        smaller = f", run with {', '.join(map(str, result.over[1]))} for argument {result.over[0]}"
    return f"{kernel.title}: {result.blocks:,} blocks, predicted from {result.sampled} of them{smaller}"


def _blocks(given: Sequence[str] | None, grid: tuple[int, ...]) -> list[int] | None:
    """Return the linear numbers of blocks given as `0,0` or `3`; None for all."""
    if not given:
        return None
    sizes, numbers = (*grid, 1, 1)[:3], []
    for text in given:
        index = (*parse_size(text), 0, 0)[:3]
        if any(p >= n for p, n in zip(index, sizes, strict=True)):
            raise PtxsimError(
                f"--blocks {text}: the grid has {'x'.join(map(str, sizes))} blocks, counted from 0"
            )
        numbers.append(index[0] + sizes[0] * (index[1] + sizes[1] * index[2]))
    return sorted(set(numbers))


def run(options: argparse.Namespace) -> int:
    """Run a kernel; print the summary, write the report and the arrays that are to be saved.

    All faults are reported, each line and kind once. Exit codes: 0, 1 for faults, 2 for what cannot
    be run, 3 for a programming error of the emulator, 4 for notes."""
    kernel = _kernel(options)
    arguments = _arguments(options)
    counters, executed = Counters(), fidelity.Executed()
    blocks = _blocks(options.blocks, parse_size(options.grid))
    try:
        done = _launch(kernel, options, arguments, [counters, executed], blocks)
    except TooCostlyError as error:
        if blocks is not None or any(given.saved for given in arguments):
            raise
        blocks = prediction.edges(kernel, parse_size(options.grid), _cluster(options))
        print(
            f"ptxsim: note: {error}. Instead {len(blocks)} blocks are run, at the edges of the grid and between, and "
            "the counts are theirs",
            file=sys.stderr,
        )
        counters, executed = Counters(), fidelity.Executed()
        done = _launch(kernel, options, arguments, [counters, executed], blocks)
        done = replace(done, notes=(*done.notes, str(error)))
    exactness = []
    if options.fidelity or options.out:
        exactness = fidelity.rows(kernel.program, kernel.machine.origins, executed)
    faulty = any(fault.accepted is None for fault in done.faults)
    if any(fault.kind is Kind.TRAP for fault in done.faults):
        _with_debug_code(options)
    elif not done.faults:
        faulty = _hidden(options)
    if not faulty:
        print(summary(kernel, counters))
    if options.fidelity:
        print(fidelity.table(exactness))
    if options.out:
        made = report(kernel, counters) | {"faults": [vars(f) for f in done.faults]}
        made |= {"notes": list(done.notes), "fidelity": [vars(row) for row in exactness]}
        _write_json(options.out, made)
    if faulty:
        # The arrays are not what the kernel is meant to compute.
        return FAULTS
    for argument in (saved for given in arguments for saved in given.saved):
        content = io.BytesIO()
        # Only these values can be saved.
        assert isinstance(argument.value, (Array, TensorMap)) and argument.save_as
        np.save(content, argument.value.numpy())
        write_whole(argument.save_as, content.getvalue())
    return NOTES if done.notes else 0


def _not_optimised(options: argparse.Namespace) -> argparse.Namespace | None:
    """Return the options of the same launch of code that is not optimised (nvcc -G); None where
    there is none.
    """
    if options.kernel.suffix not in SOURCES or not {*options.flags}.isdisjoint(DEBUG):
        return None
    return argparse.Namespace(**vars(options) | {"flags": [*options.flags, "-G"], "cubin": None})


def _hidden(options: argparse.Namespace) -> bool:
    """Return whether code that is not optimised leaves a thread's own array, whose accesses outside
    of it the compiler drops: in the first block of the same launch, if the source has such arrays.
    """
    again = _not_optimised(options)
    if again is None or not OWN_ARRAY.search(options.kernel.read_text(errors="replace")):
        return False
    again.thread_instructions = MAX_HIDDEN
    try:
        # nvcc would print its warnings once more.
        with contextlib.redirect_stderr(io.StringIO()):
            kernel, arguments = _kernel(again), _arguments(again)
        launched = _fields(again, arguments)
        faults = kernel.launch(**launched, blocks=[0], stop_at_first=False).faults
    except PtxsimError:
        return False
    outside = [f for f in faults if f.kind is Kind.BOUNDS and "bounds local" in f.message]
    for fault in outside:
        print(f"ptxsim: {fault} (with -G: the optimised code leaves it out)", file=sys.stderr)
    return bool(outside)


def _with_debug_code(options: argparse.Namespace) -> None:
    """Run the same launch of code that is not optimised (nvcc -G) after a trap, and print what that
    finds."""
    again = _not_optimised(options)
    if again is None:
        return
    print("ptxsim: the same launch with -G:", file=sys.stderr)
    try:
        done = _launch(_kernel(again), again, _arguments(again), [])
    except PtxsimError as error:
        print(f"ptxsim: {error}", file=sys.stderr)
    else:
        if not done.faults:
            print("ptxsim: no fault: only the optimised code traps", file=sys.stderr)


def annotate(options: argparse.Namespace) -> int:
    """Run a kernel; print its CUDA source with, next to each line, what its memory accesses
    cost.
    """
    kernel = _kernel(options)
    arguments = _arguments(options)
    counters, _ = _counted(kernel, options, arguments)
    terminal = options.out is None and sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if terminal else None
    near = [options.kernel.parent]
    lines = listing(kernel, counters, options.source, near, options.file, colour, width)
    text = "\n".join(lines) + "\n"
    if options.out:
        write_whole(options.out, text)
    else:
        sys.stdout.write(text)
    return 0


def banks(options: argparse.Namespace) -> int:
    """Run a kernel; show which lane's word each bank of shared memory serves in each wavefront of a
    line's accesses.
    """
    kernel = _kernel(options)
    arguments = _arguments(options)
    same = ("line", "file", "warp", "execution", "source", "checks")
    wanted = {name: getattr(options, name) for name in same}
    wanted |= {"of_block": parse_size(options.of_block), "near": [options.kernel.parent]}
    matches = accesses(kernel, **_fields(options, arguments), **wanted)
    selected = distinct(matches)
    if options.occurrence is not None:
        selected = [access for access in matches if access.number == options.occurrence]
        if not selected:
            numbers = ", ".join(str(access.number) for access in matches)
            raise PtxsimError(
                f"--occurrence {options.occurrence}: line {options.line} has {numbers}"
            )
    for access in selected:
        print(f"access {access.number} of {access.of}: {table(access)}\n")
    if options.out:
        _write_json(options.out, [access.as_dict() for access in selected])
    return 0


def bounds(options: argparse.Namespace) -> int:
    """Run a kernel; print the minimum cycles that each resource of a GPU needs for it, and the
    limiter.
    """
    gpu = machines.find(options.gpu)
    if options.sms is not None:
        gpu = machines.with_sms(gpu, options.sms)
    with tempfile.TemporaryDirectory() as folder:
        kernel = _kernel(options, Path(folder))
        # The cubin was made in that folder.
        assert kernel.cubin is not None
        function = sass.read(kernel.cubin, kernel.name)
    arguments = _arguments(options)
    _, work = _counted(kernel, options, arguments)
    result = limits.compute(function, kernel.program, work, gpu, options.shared)
    print(result.table())
    if options.out:
        _write_json(options.out, result.report())
    return 0


def predict(options: argparse.Namespace) -> int:
    """Predict the counters of a whole grid from a few of its blocks, or say why that cannot be."""
    kernel = _kernel(options)
    arguments = _arguments(options)
    predicted = _predicted(kernel, options, arguments)
    print(_sampled(kernel, predicted))
    print("\n".join(_figures(predicted.totals, predicted.at_least)))
    if options.out:
        content = {
            "kernel": kernel.name,
            "blocks": predicted.blocks,
            "sampled": predicted.sampled,
            "totals": predicted.totals,
        }
        content |= {"at_least": predicted.at_least, "over": predicted.over}
        _write_json(options.out, content)
    return 0


def _over(text: str | None) -> tuple[int, tuple[int, ...]] | None:
    """Parse the option `--over 2=96,128,160`."""
    if text is None:
        return None
    index, _, values = text.partition("=")
    try:
        return int(index), tuple(int(value) for value in values.split(","))
    except ValueError:
        raise PtxsimError(
            f"--over {text!r}: expected the number of an argument and values, as in 2=96,128,160"
        ) from None


class _Parser(argparse.ArgumentParser):
    """A parser that reports a wrong option in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"ptxsim: {message}\n")


def existing(text: str) -> Path:
    """Return a path. Raises `PtxsimError` where nothing is there, before options are missed."""
    if not (path := Path(text)).exists():
        raise PtxsimError(f"{text}: no such file")
    return path


class _Flag(argparse.Action):
    """-I and -D as nvcc takes them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        value: Any,
        option: str | None = None,
    ) -> None:
        options.flags = [*options.flags, f"{option}{value}"]


class _Flags(argparse.Action):
    """Any of nvcc's, in one text as a shell would split it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        value: Any,
        option: str | None = None,
    ) -> None:
        try:
            options.flags = [*options.flags, *shlex.split(value)]
        except ValueError as error:
            parser.error(f"--nvcc-flags {value!r}: {error}")


FLAGS: tuple[tuple[str, type[argparse.Action], str, str], ...] = (
    ("-I", _Flag, "FOLDER", "of headers, for nvcc"),
    ("-D", _Flag, "NAME[=VALUE]", "a macro, for nvcc"),
    ("--nvcc-flags", _Flags, "FLAGS", "further ones, as --nvcc-flags='-std=c++20 --use_fast_math'"),
)
OPTIONS = """
--cubin FILE            what was made of it: merged accesses count as there
--ptx FILE              what a .cubin was made from (default: the PTX that it holds)
--arch ARCH             what CUDA is compiled for (default: %(default)s)
--entry NAME            the kernel: its name, 'tiled<128, 8>', or a part that only its name has
--grid SIZE!            X, X,Y or X,Y,Z
--block SIZE!           X, X,Y or X,Y,Z
--cluster SIZE          blocks of a cluster, X, X,Y or X,Y,Z (default: as the kernel says)
--arg ARG...            an argument of the kernel, in order; see below
--constant NAME=ARG...  what a __constant__ variable holds
--shared N              bytes of dynamic shared memory
--no-checks             do not watch memory and barriers
--steps COUNT           instructions after which a loop is endless
--lanes COUNT           threads that run together
--thread-instructions INSTRUCTIONS  what the grid may cost; more, as its first blocks tell, is refused
                        (default: %(default)g)
"""
RUN = f"""
--fidelity              list how exactly each executed instruction is emulated
--blocks X[,Y[,Z]]+     run only these blocks of the grid (with their clusters)
{ORDERS}
"""
ANNOTATE = """
--source FILE           the source, if not where the PTX says
--file NAME             another source file of the PTX to show, by name or end of path
"""
BANKS = """
--line COUNT!           of the source
--file NAME             the source file, by name or end of path (default: the kernel's own)
--source FILE           where it is, if not where the PTX says
--warp N                of the block, from 0 (default: the first that does the access)
--of-block X[,Y[,Z]]    which block (default: 0,0,0)
--occurrence COUNT      which access of the line (default: all that differ)
--execution COUNT       which time of the warp's, from 1 (default: the costliest)
"""
BOUNDS = f"""
--gpu NAME              {", ".join(machines.PRESETS)}, or a .toml file (default: %(default)s)
--sms SMS               multiprocessors, if not the GPU's
"""
PREDICT = """
--over N=V,V,V          run with smaller values of argument N (from 0), by which a block's work grows
                        linearly (k of a GEMM)
"""


def _command(
    commands: Any, act: Callable[[argparse.Namespace], int], out: str, options: str
) -> argparse.ArgumentParser:
    """Return a subcommand that launches a kernel, with the options that all of these have and a
    table of its own; `out`: what --out writes.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        act.__name__,
        help=act.__doc__,
        epilog=ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(act=act)
    parser.add_argument(
        "kernel",
        type=existing,
        help=".ptx, .cubin with line information, or .cu, .cuh that nvcc compiles",
    )
    for name, action, word, text in FLAGS:
        parser.add_argument(name, action=action, dest="flags", metavar=word, help=text)
    types = TYPES | {"SMS": int, "INSTRUCTIONS": number(1e-9)}
    add_options(parser, f"{OPTIONS}--out FILE  {out}\n{options}", types)
    parser.set_defaults(arch="sm_90a", shared=0, flags=[], **vars(Limits()))
    # Not every command has these options.
    parser.set_defaults(orders=1, over=None, stop_at_first=True, accept=[])
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = _Parser(
        prog="ptxsim",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command")
    parser.set_defaults(act=lambda _: parser.print_help())
    run_parser = _command(commands, run, "report as JSON", RUN)
    faults.add_options(run_parser, "end with the first fault")
    run_parser.set_defaults(stop_at_first=False)
    _command(commands, annotate, "write the text there", ANNOTATE)
    _command(commands, banks, "the same as JSON", BANKS).set_defaults(of_block="0")
    _command(commands, bounds, "the bounds as JSON", BOUNDS).set_defaults(gpu="h100")
    _command(commands, predict, "the counters as JSON", PREDICT)
    programs.add(commands)
    try:
        options = parser.parse_args(argv)
        status = options.act(options) or 0
        sys.stdout.flush()
        return int(status)
    except KernelFault as error:
        print(f"ptxsim: {error}", file=sys.stderr)
        return FAULTS
    except PtxsimError as error:
        print(f"ptxsim: {error}", file=sys.stderr)
    except MemoryError:
        print("ptxsim: out of memory: smaller arrays, or fewer --lanes", file=sys.stderr)
    except OSError as error:
        # Standard output failed: what is left in its buffer would be tried again at the end.
        print(f"ptxsim: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        report_own_failure()
        return EMULATOR_FAILED
    return USAGE


def command() -> NoReturn:
    """Run the `ptxsim` command."""
    sys.exit(main())
