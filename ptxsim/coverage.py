"""A table, in Markdown, of the PTX instructions that are emulated, made by trying each.

python -m ptxsim.coverage                # print it
python -m ptxsim.coverage README.md      # put it between <!-- instructions --> and <!-- end --> of a file

An opcode is emulated where the registry knows it. Of opcodes with many forms each form below is loaded as a kernel of
its own, which refuses what it cannot run.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from .api import load
from .errors import PtxsimError
from .instructions import registry
from .sources import write_whole

# Groups of the PTX ISA (9.7) with all their opcodes
OPCODES = {
    "Integer arithmetic": "add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi "
    "szext bmsk dp4a dp2a",
    "Extended precision": "addc subc madc",
    "Floating point": "testp copysign fma rcp sqrt rsqrt sin cos lg2 ex2 tanh",
    "Comparison and selection": "set setp selp slct",
    "Logic and shift": "and or xor not cnot lop3 shf shl shr",
    "Data movement": "mov prmt cvt cvta isspacep mapa getctarank",
    "Control flow": "bra brx call ret exit",
    "Warps": "shfl vote match activemask redux elect",
    "Video": "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 "
    "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4",
    "Others": "alloca stacksave stackrestore nanosleep trap brkpt pmevent setmaxnreg griddepcontrol discard "
    "applypriority createpolicy prefetch prefetchu",
}
# Forms that are tried: by group, name and an instance. Registers: %r 32 bits, %rd 64, %h 16, %f, %d, %p; F4 stands for
# four %f in braces, R4 and R2 for so many %r
FORMS = {
    "Memory": {
        "ld, st of any space, width and vector": "ld.global.v4.f32 F4, [%rd1]; st.shared.u8 [%r1], %r2;",
        "ldu": "ldu.global.u32 %r1, [%rd1];",
        "ld.acquire, st.release, volatile": "ld.acquire.gpu.global.u32 %r1, [%rd1];st.volatile.shared.u32 [%r1], %r2;",
        "atom, red": "atom.global.add.f32 %f1, [%rd1], %f2; red.shared.max.s32 [%r1], %r2;",
        "atom, red of vectors": "red.global.add.noftz.v2.f16 [%rd1], {%h1, %h2};",
        "fence, membar": "fence.acq_rel.gpu; membar.gl;",
        "multimem": "multimem.ld_reduce.global.add.f32 %f1, [%rd1];",
        "st.async": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
    },
    "Asynchronous copies": {
        "cp.async with groups": "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;"
        "cp.async.wait_group 0;",
        "cp.async.mbarrier.arrive": "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];",
        "cp.async.bulk, global to shared": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%r1], [%rd1], %r2, [%r3];",
        "cp.async.bulk, shared to global": "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;",
        "cp.async.bulk.tensor (TMA)": "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
        "tensormap": "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], %r1;",
        "tensormap.replace": "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], %r1;",
        "cp.reduce.async.bulk": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;",
    },
    "Barriers": {
        "bar.sync, bar.arrive, bar.red": "bar.sync 1, 64; bar.arrive 2, 64; bar.red.popc.u32 %r1, 0, %p1;",
        "bar.warp.sync": "bar.warp.sync -1;",
        "mbarrier": "mbarrier.init.shared.b64 [%r1], %r2; mbarrier.arrive.shared.b64 %rd2, [%r1];"
        "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd2;",
        "barrier.cluster": "barrier.cluster.arrive; barrier.cluster.wait;",
    },
    "Matrices": {
        "ldmatrix, stmatrix, movmatrix": "ldmatrix.sync.aligned.m8n8.x2.shared.b16 R2, [%r3];"
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], R2; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
        "mma of fp16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 F4, R4, R2, F4;",
        "bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 F4, R4, R2, F4;",
        "tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 F4, R4, R2, F4;",
        "int8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 R4, R4, R2, R4;",
        "fp8": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 F4, R4, R2, F4;",
        "fp64": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d1, %d2};",
        "mma.sp": "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 F4, R2, R2, F4, %r1, 0x0;",
        "wmma": "wmma.load.a.sync.aligned.m16n16k16.row.shared.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r9];",
        "wgmma of fp16, bf16, tf32, fp8": "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
        " F4, %rd1, %rd2, 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "wgmma of int8": "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 R4, %rd1, %rd2, 1;",
        "wgmma of bits": "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc R4, %rd1, %rd2, 1;",
        "wgmma.sp": "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 F4, %rd1, %rd2, %r1, 0, 1, 1, 1, 0, 0;",
        "tcgen05": "tcgen05.wait::ld.sync.aligned;",
    },
    "Textures and surfaces": {
        "tex.1d of linear memory, by object": "tex.1d.v4.f32.s32 F4, [%rd1, {%r1}];",
        "tex of CUDA arrays, 1d to 3d, layered, cube": "tex.2d.v4.f32.f32 F4, [%rd1, {%f1, %f2}];",
        "surfaces": "suld.b.1d.b32.trap {%r1}, [%rd1, {%r2}]; sust.b.1d.b32.trap [%rd1, {%r2}], {%r1};",
        "tld4": "tld4.r.2d.v4.f32.f32 F4, [%rd1, {%f1, %f2}];",
    },
}
SHORT = {"F4": "{%f1, %f2, %f3, %f4}", "R4": "{%r1, %r2, %r3, %r4}", "R2": "{%r1, %r2}"}
TRIAL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry trial() {{
.reg .b16 %h<9>; .reg .b32 %r<10>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<9>;
{lines}
ret; }}
"""
START, END = "<!-- instructions -->", "<!-- end -->"


def refusal(lines: str) -> PtxsimError | None:
    """Why a kernel of these lines cannot be run; None: it can."""
    for short, registers in SHORT.items():
        lines = lines.replace(short, registers)
    try:
        load(TRIAL.format(lines=lines))
    except PtxsimError as error:
        return error
    return None


@cache
def known_opcodes() -> frozenset[str]:
    """Opcodes that the registry has, in any form."""
    return frozenset({opcode for opcode, _ in registry.ELEMENTWISE} | set(registry.EFFECTS) | set(registry.CONTROLS))


def table() -> str:
    """Return the table in Markdown."""
    rows = [
        (group, {opcode: opcode in known_opcodes() for opcode in names.split()}) for group, names in OPCODES.items()
    ]
    rows += [(group, {name: refusal(lines) is None for name, lines in forms.items()}) for group, forms in FORMS.items()]
    lines = ["| | emulated | not emulated |", "|---|---|---|"]
    for group, found in rows:
        separator = "; " if group in FORMS else " "
        cells = [
            separator.join(_shown(name, group in FORMS) for name, is_known in found.items() if is_known is wanted)
            or "–"
            for wanted in (True, False)
        ]
        lines.append(f"| {group} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _shown(name: str, is_form: bool) -> str:
    return name if is_form else f"`{name}`"


def fill(text: str) -> str:
    """A document with the table as it is now. Raises `PtxsimError` where the document has no place for it."""
    pattern = re.compile(f"({re.escape(START)}\n).*?({re.escape(END)})", re.S)
    if not pattern.search(text):
        raise PtxsimError(f"no place for the table: {START} ... {END}")
    return pattern.sub(lambda found: f"{found[1]}\n{table()}\n\n{found[2]}", text)


def main() -> int:
    if len(sys.argv) < 2:
        print(table())
        return 0
    path = Path(sys.argv[1])
    try:
        write_whole(path, fill(path.read_text()))
    except (OSError, UnicodeDecodeError, PtxsimError) as error:
        print(f"ptxsim: {path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
