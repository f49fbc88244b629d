"""What many tests share: a head for PTX, options of a launch, and a few lines of PTX run by
themselves.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim.ptx.types import TYPES

KERNELS = Path(__file__).parent / "kernels"
TRIED: set[tuple[str, str | None]] = set()  # opcodes with their types that `execute` ran

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def fails(message: str, error: type[ptxsim.PtxsimError] = ptxsim.PtxsimError):
    """Within this context there is an error whose message has this pattern."""
    return pytest.raises(error, match=message)


def launch_options(grid: object, block: object, *arguments: str) -> list[str]:
    """Options of the command line that give a launch's sizes and its arguments."""
    return [
        "--grid",
        str(grid),
        "--block",
        str(block),
        *(part for text in arguments for part in ("--arg", text)),
    ]


def execute(lines: str, inputs: list, outputs: list[int], declare: str = ""):
    count = len(inputs[0]) if inputs else 32
    widths = [x.dtype.itemsize * 8 for x in inputs]
    registers = [f".reg .b{w} %i{n};" for n, w in enumerate(widths)]
    registers += [f".reg .b{w} %o{n};" for n, w in enumerate(outputs)]
    params = ", ".join(f".param .u64 p{n}" for n in range(len(inputs) + len(outputs)))
    body = [
        "mov.u32 %index, %ctaid.x;",
        "mov.u32 %t, %tid.x;",
        "mad.lo.u32 %index, %index, 32, %t;",
    ]
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
            HEADER,
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
