"""Reading machine code: real cubins, and operands written by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from running import fails

import ptxsim
from ptxsim.errors import PtxError
from ptxsim.ptx import compiler, sass
from ptxsim.ptx.sass import Instruction

SOURCE = """
extern "C" __global__ void merged(float* out, const float* in) {
    __shared__ __align__(16) float tile[256];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const float* own = &tile[4 * (threadIdx.x / 32)];
    out[threadIdx.x] = own[0] * own[1] + own[2] * own[3];
}
__device__ __noinline__ float power(float x, int n) {
    float s = 1;
    for (int i = 0; i < n; i++) s = s * x + i;
    return s;
}
extern "C" __global__ void branching(float* a, int n, int* which) {
    int i = threadIdx.x;
    if (i < n) a[i] = power(a[i], n);
    switch (which[0]) {
        case 0: a[0] = 1; break;
        case 1: a[2] = which[1]; break;
        case 2: a[5] *= 3; break;
        case 3: a[7] += 2; break;
        case 4: a[9] = 2; break;
        default:;
    }
}
"""


def nvcc(folder, name, text, *flags):
    source = folder / f"{name}.cu"
    source.write_text(text)
    cubin = folder / f"{name}.cubin"
    command = [
        str(compiler.tool("nvcc")),
        "-cubin",
        "-arch=sm_90a",
        *flags,
        str(source),
        "-o",
        str(cubin),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return cubin


@pytest.fixture(scope="module")
def cubin(tmp_path_factory, compiled):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    return nvcc(tmp_path_factory.mktemp("sass"), "both", SOURCE, "-lineinfo")


def test_a_listing_kept_next_to_a_cubin_is_read_as_long_as_it_is_that_cubin_s(cubin, tmp_path):
    copy, found = tmp_path / "copy.cubin", sass.read_all(cubin)
    copy.write_bytes(cubin.read_bytes())
    kept = sass.listing(copy)
    copy.with_suffix(".sass").write_text(kept.replace("FMUL", "FADD"))
    assert "FADD" in {i.name for i in sass.read(copy, "merged").instructions}
    assert "FADD" not in {i.name for i in found["merged"].instructions}
    copy.write_bytes(copy.read_bytes() + b" ")  # another file
    assert sass.read(copy, "merged").instructions == found["merged"].instructions
    copy.with_suffix(".sass").write_bytes(b"\xff")
    assert sass.listing(copy) != kept
    assert sass.listing(copy).splitlines()[1:] == kept.splitlines()[1:]


def accesses(cubin, entry=None):
    """The accesses of shared memory that some thread executes."""
    names = ("LDS", "STS", "LDSM", "STSM", "LDGSTS", "ATOMS")
    return [i for i in sass.read(cubin, entry).instructions if i.name in names and not i.never]


def test_shared_accesses_by_line_and_width(cubin):
    found = accesses(cubin, "merged")
    # four loads of 32 bits are one of 128
    assert [(i.line, i.name, i.bits) for i in found] == [(4, "STS", 32), (7, "LDS", 128)]
    assert {Path(i.file).name for i in found} == {"both.cu"}


def test_resources_and_the_ptx_inside(cubin):
    function = sass.read(cubin, "merged")
    assert 8 <= function.registers <= 32 and function.shared_bytes == 1024
    kernel = ptxsim.load(function.ptx, "merged")
    lines = function.ptx.splitlines()
    named = {i.ptx_line for i in function.instructions if i.name == "STS"}
    assert named and all("st.shared" in lines[line - 1] for line in named)
    assert named <= {i.ptx_line for i in kernel.program.code}


def test_blocks_loops_calls_and_jumps(cubin):
    function = sass.read(cubin, "branching")
    blocks = function.blocks
    assert sum(len(b.instructions) for b in blocks) == len(function.instructions)
    for block in blocks:
        assert not [
            i
            for i in block.instructions[:-1]
            if i.name in ("BRA", "EXIT", "BRX", "CALL", "RET", "BSYNC")
        ]
    called = [b for b in blocks if b.calls is not None]
    assert len(called) == 1 and called[0].successors == [called[0].number + 1]
    assert any(b.leaves and b.instructions[-1].name == "RET" for b in blocks[called[0].calls :])
    assert any(len(b.successors) > 2 for b in blocks if b.instructions[-1].name == "BRX")
    assert function.loops() and all(
        any(i.name == "FFMA" for b in loop for i in b.instructions) for loop in function.loops()
    )
    assert sass.read(cubin, "merged").loops() == []


@pytest.mark.parametrize(
    ("operands", "sources"),
    [
        (("R0", "R12.reuse", "-R9", "R0"), [(12, True), (9, False), (0, False)]),
        (("R0", "|R3|", "c[0x0][0x210]", "RZ"), [(3, False), (None, False), (None, False)]),
        (("R0", "-|R3.reuse|", "UR4", "1"), [(3, True), (None, False), (None, False)]),
    ],
)
def test_source_operands(operands, sources):
    assert Instruction(0, "FFMA", operands, None, "", 0, 0).sources() == sources


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [
        ("LDS", 32),
        ("LDS.U.128", 128),
        ("LDS.S16", 16),
        ("LDSM.16.MT88.2", 64),
        ("LDSM.16.M88", 32),
        ("LDGSTS.E.BYPASS.LTC128B.128", 128),
    ],
)
def test_widths(opcode, bits):
    assert Instruction(0, opcode, (), None, "", 0, 0).bits == bits


def joined(*code: str) -> dict[int, list[int]]:
    """Successors of the blocks that end with a BSYNC.

    Code as `BSSY B0 x`, with `x:` for a label.
    """
    instructions, labels = [], {}
    for text in code:
        if text.endswith(":"):
            labels[text[:-1]] = len(instructions)
            continue
        name, *operands = text.split()
        targets = (operands[-1],) if name in ("BSSY", "BRA") else ()
        guard = "P0" if name == "BRA" else None
        instructions.append(Instruction(0, name, tuple(operands), guard, "", 0, 0, targets))
    blocks = sass.Function("joined", instructions, labels).blocks
    return {b.number: b.successors for b in blocks if b.instructions[-1].name == "BSYNC"}


def test_a_bsync_goes_on_where_the_bssy_before_it_says():
    one_after_the_other = joined(
        "BSSY B0 x",
        "BRA x1",
        "NOP",
        "x1:",
        "BSYNC B0",
        "x:",
        "BSSY B0 y",
        "NOP",
        "BSYNC B0",
        "y:",
        "EXIT",
    )
    assert one_after_the_other == {2: [3], 3: [4]}
    inside = joined(
        "BSSY B0 x",
        "BSSY B1 y",
        "BRA y1",
        "NOP",
        "y1:",
        "BSYNC B1",
        "y:",
        "NOP",
        "BSYNC B0",
        "x:",
        "EXIT",
    )
    assert inside == {2: [3], 3: [4]}
    two_ways = joined(
        "BRA b",
        "BSSY B0 x",
        "BRA end",
        "b:",
        "BSSY B0 y",
        "end:",
        "BSYNC B0",
        "x:",
        "NOP",
        "y:",
        "EXIT",
    )
    assert sorted(next(iter(two_ways.values()))) == [4, 5]


def test_a_barrier_kept_in_a_register_may_be_any():
    kept = joined(
        "BSSY B0 x",
        "NOP",
        "BSYNC B0",
        "x:",
        "BMOV B0 R1",
        "BSSY B0 y",
        "NOP",
        "BSYNC B0",
        "y:",
        "EXIT",
    )
    assert kept == {0: [1, 2], 1: [1, 2]}


COPY = """
extern "C" __global__ void copy(const float4* in) {
    __shared__ float4 tile[32];
    unsigned to = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;" :: "r"(to), "l"(in + threadIdx.x));
}
"""


def test_what_no_thread_executes_is_left_out(tmp_path, cubin):
    made = nvcc(tmp_path, "copy", COPY, "-lineinfo")
    # ptxas puts empty ones before a cp.async
    assert "LDS" in {i.name for i in sass.read(made).instructions}
    assert {i.name for i in accesses(made)} == {"LDGSTS"}


def test_a_cubin_without_lines_still_reads(tmp_path, cubin):
    plain = nvcc(tmp_path, "plain", SOURCE)
    function = sass.read(plain, "merged")
    assert function.ptx is None and {i.line for i in function.instructions} == {0}
    assert [(i.file, i.name) for i in accesses(plain, "merged")] == [("", "STS"), ("", "LDS")]


@pytest.mark.parametrize(
    ("entry", "kept", "words"),
    [
        ("nothing", None, "0 entries match 'nothing'"),
        (None, None, "2 entries"),
        ("r", None, "entries match 'r'"),
        (None, -1, "no such file"),
        (None, 0, "not a cubin"),
        (None, 0.5, "truncated or damaged"),
        (None, 0.01, "truncated or damaged"),
    ],
)
def test_faults_are_one_clear_line(cubin, tmp_path, entry, kept, words):
    """`kept` is the part of the cubin that is there; 0: text instead."""
    path, data = tmp_path / "part.cubin", cubin.read_bytes()
    if kept is None:
        path = cubin
    elif kept >= 0:
        path.write_bytes(data[: int(len(data) * kept)] or b"not a cubin")
    with pytest.raises(PtxError) as caught:
        sass.read(path, entry)
    assert "\n" not in str(caught.value) and words in str(caught.value)
    assert path.name in str(caught.value) + "both.cubin"


def test_without_nvdisasm_a_remedy_is_named(cubin, tmp_path, monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    unread = tmp_path / "unread.cubin"
    unread.write_bytes(cubin.read_bytes())
    with fails(r"no nvdisasm.*remedy", PtxError):
        sass.read(unread, "merged")


SETMAXNREG = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry moves() {bound} {{
.reg .pred %p; .reg .b32 %r;
mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 128; @%p bra GIVES;
setmaxnreg.inc.sync.aligned.u32 248; bra END;
GIVES: setmaxnreg.dec.sync.aligned.u32 24;
END: ret; }}
"""


@pytest.mark.parametrize(("bound", "kept"), [("", False), (".maxntid 384 .minnctapersm 1", True)])
def test_setmaxnreg_that_ptxas_ignored_does_nothing(tmp_path, bound, kept):
    """Two warpgroups ask for 248 registers a thread: more than the block has, where the instruction
    is in force.
    """
    (tmp_path / "moves.ptx").write_text(SETMAXNREG.format(bound=bound))
    try:
        sass.assemble(tmp_path / "moves.ptx", tmp_path / "moves.cubin")
        kernel = ptxsim.load(tmp_path / "moves.ptx", cubin=tmp_path / "moves.cubin")
    except ptxsim.PtxsimError as error:
        if str(error).startswith("no "):
            pytest.skip(str(error))
        raise
    if kept:
        with fails(r"deadlock: setmaxnreg\.inc waits for registers"):
            kernel.launch(1, 384, [])
    else:
        notes = kernel.launch(1, 384, []).notes
        assert len(notes) == 2
        assert all("ptxas ignored it, the machine code has no USETMAXREG" in n for n in notes)
