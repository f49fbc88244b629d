"""PTX of the test kernels, compiled once a session, and helpers to run them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ptxsim
from ptxsim.api import Kernel
from ptxsim.compiler import compile_ptx
from ptxsim.errors import PtxError
from ptxsim.parser import parse
from ptxsim.types import TYPES

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session")
def compiled(ptx):
    """A function: file name and entry to a `Kernel`. Skips where there is no compiler."""

    def kernel(name: str, entry: str) -> Kernel:
        return Kernel(parse(ptx(name)), entry)

    return kernel


@pytest.fixture(scope="session")
def ptx():
    """A function: file name to its PTX. Skips where there is no compiler."""
    texts: dict[str, str] = {}

    def text(name: str) -> str:
        if name not in texts:
            if not shutil.which("g++"):
                pytest.skip("nvcc needs g++")
            try:
                texts[name] = compile_ptx(KERNELS / name)
            except PtxError as error:
                if str(error).startswith("no nvcc"):
                    pytest.skip(str(error))
                raise
        return texts[name]

    return text


@pytest.fixture
def run_lines():
    """A function that runs a few lines of PTX, one thread for each row of the inputs.

    `lines` reads its inputs from the registers %i0, %i1 ... (bits of `width` each) and leaves its results in %o0 ...;
    gives the results as arrays of unsigned integers.
    """
    return execute


TRIED: set[tuple[str, str | None]] = set()  # opcodes with their types that `execute` ran


def execute(lines: str, inputs: list, outputs: list[int], declare: str = ""):
    import numpy as np

    count = len(inputs[0]) if inputs else 32
    widths = [x.dtype.itemsize * 8 for x in inputs]
    registers = [f".reg .b{w} %i{n};" for n, w in enumerate(widths)]
    registers += [f".reg .b{w} %o{n};" for n, w in enumerate(outputs)]
    params = ", ".join(f".param .u64 p{n}" for n in range(len(inputs) + len(outputs)))
    body = ["mov.u32 %index, %ctaid.x;", "mov.u32 %t, %tid.x;", "mad.lo.u32 %index, %index, 32, %t;"]
    for n, w in enumerate(widths):
        body += [
            f"ld.param.u64 %a, [p{n}];",
            f"mad.wide.u32 %a, %index, {w // 8}, %a;",
            f"ld.global.b{w} %i{n}, [%a];",
        ]
    body.append(lines)
    for n, w in enumerate(outputs):
        body += [
            f"ld.param.u64 %a, [p{len(inputs) + n}];",
            f"mad.wide.u32 %a, %index, {w // 8}, %a;",
            f"st.global.b{w} [%a], %o{n};",
        ]
    text = "\n".join(
        [
            ".version 8.0\n.target sm_90\n.address_size 64",
            f".visible .entry test({params}) {{",
            ".reg .b32 %index, %t;\n.reg .b64 %a;\n.reg .pred %p, %q;",
            *registers,
            declare,
            *body,
            "ret;\n}",
        ]
    )
    blocks = -(-count // 32)
    padded = [np.resize(x, blocks * 32) for x in inputs]
    arrays = [ptxsim.Array(x) for x in padded]
    results = [ptxsim.Array(np.zeros(blocks * 32, f"u{w // 8}")) for w in outputs]
    kernel = ptxsim.load(text)
    kernel.launch(blocks, 32, [*arrays, *results])
    written = lines.replace("\n", " ").split(";")  # without the loads and stores around them
    for i in kernel.program.code:
        if any(f"{i.name} " in f"{line.strip().split(' ', 1)[-1]} {line} " for line in written):
            types = [name for name in i.modifiers if name in TYPES]
            TRIED.add((i.opcode, types[-1] if types else None))
    return [r.numpy()[:count] for r in results]
