"""Bounds from counts: rules by hand, executions of the machine code of real kernels, machines, the
command.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from running import fails, launch_options

import ptxsim
from ptxsim import gpus
from ptxsim.cli import main
from ptxsim.count import block_counts as executions
from ptxsim.count import bounds, machines
from ptxsim.count import register_banks as issue
from ptxsim.count.counters import Counters
from ptxsim.count.occupancy import occupancy
from ptxsim.errors import PtxError, PtxsimError
from ptxsim.interface import prepare
from ptxsim.ptx import sass, sizes, syntax
from ptxsim.ptx.sass import Instruction
from ptxsim.ptx.types import TYPES

SOURCE = """
extern "C" __global__ void waits(int* flags) {  // each block for the one before
    if (blockIdx.x > 0 && threadIdx.x == 0)
        while (atomicAdd(flags + blockIdx.x - 1, 0) == 0) {}
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(flags + blockIdx.x, 1);
}
extern "C" __global__ void dot(float* out, const float* a, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s = fmaf(a[i], s, 1.0f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
extern "C" __global__ void nested(float* out, const float* a, int n, int m) {
    __shared__ float tile[64];
    float s = 0;
    for (int i = 0; i < n; i++) {
        __syncthreads();
        tile[threadIdx.x & 63] = a[i];
        __syncthreads();
        for (int j = 0; j < m; j++) s = fmaf(tile[j], s, a[j]);
    }
    out[threadIdx.x] = s;
}
extern "C" __global__ void parting(float* out, const float* a) {
    float s = threadIdx.x;
    #pragma unroll 1
    for (int i = 0; i < (int)threadIdx.x; i++) s = fmaf(s, a[i], 2.0f);
    out[threadIdx.x] = s;
}
extern "C" __global__ void some(float* out, const float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (threadIdx.x / 32 == 1) out[i] = fmaf(a[i], a[i + 1], 1.0f); else out[i] = a[i];
}
__device__ __noinline__ float poly(float x, float y) { return fmaf(fmaf(x, y, 1.0f), y, x); }
extern "C" __global__ void calling(float* out, const float* a) {
    out[threadIdx.x] = poly(a[threadIdx.x], poly(a[threadIdx.x + 1], 3.0f));
}
extern "C" __global__ void fetch(float4* out, cudaTextureObject_t t) {
    out[blockIdx.x * 64 + threadIdx.x] = tex1Dfetch<float4>(t, threadIdx.x);
}
extern "C" __global__ void axpy(float4* y, const float4* x, float f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[i], w = y[i];
    y[i] = make_float4(fmaf(f, v.x, w.x), fmaf(f, v.y, w.y), fmaf(f, v.z, w.z), fmaf(f, v.w, w.w));
}
#define D "{%0, %1, %2, %3}, "
#define WGMMA(shape, b, rest, ...) \
    asm volatile("wgmma.mma_async.sync.aligned." shape " " D b ", %4, 1, 1, 1" rest ";" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(at), ##__VA_ARGS__)
extern "C" __global__ void multiplies(float* out, int n) {
    __shared__ alignas(1024) float tile[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) tile[i] = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long at = (unsigned)__cvta_generic_to_shared(tile) >> 4 | 8ull << 32;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll 1
    for (int i = 0; i < n; i++) {
        WGMMA("m64n8k16.f32.bf16.bf16", "%4", ", 0, 0");
        WGMMA("m64n8k8.f32.tf32.tf32", "%4", "");
        WGMMA("m64n8k32.f32.e4m3.e5m2", "%4", "");
        WGMMA("m64n8k16.f32.f16.f16", "{%5, %5, %5, %5}", ", 0", "r"(n));
    }
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, built):
    """A function: entry, grid, block, arguments to the kernel, its SASS and its work."""
    folder = tmp_path_factory.mktemp("bounds")
    ptx, cubin = prepare(built(SOURCE).with_suffix(".cu"), folder=folder)

    def run(entry, grid, block, arguments):
        kernel = ptxsim.load(ptx, entry)
        counters, traffic = Counters(), bounds.Traffic()
        kernel.launch(grid, block, arguments, observers=[counters, traffic], checks=False)
        return kernel, sass.read(cubin, entry), bounds.Work.observed(counters, traffic)

    run.cubin, run.ptx = cubin, folder / "kernel.ptx"
    return run


def array(count):
    return ptxsim.Array(np.ones(count, np.float32))


def executions_of(made, *launch):
    """The machine code, the work, the executions of its blocks, and a function from an opcode to
    its executions.
    """
    kernel, function, work = made(*launch)
    found = executions.executions(function, kernel.program.code, work.executed)
    each = [
        (i.name, times)
        for b, times in zip(function.blocks, found.blocks, strict=True)
        for i in b.instructions
    ]
    return function, work, found, lambda name: sum(times for other, times in each if other == name)


# executions of the machine code


@pytest.mark.parametrize(
    ("launch", "counts"),
    [
        (("dot", 2, 96, [array(192), array(64), 1]), {"FFMA": 6, "STG": 6}),
        # that ptxas unrolls further
        (("dot", 2, 96, [array(192), array(64), 19]), {"FFMA": 6 * 19, "STG": 6}),
        (("nested", 3, 64, [array(64), array(64), 5, 7]), {"FFMA": 6 * 5 * 7, "BAR": 6 * 5 * 2}),
        # threads go round at different times
        (("parting", 1, 32, [array(32), array(32)]), {"FFMA": 31, "STG": 1}),
        (("calling", 1, 64, [array(64), array(65)]), {"FFMA": 2 * 4, "CALL": 2 * 2}),
    ],
)
def test_executions_by_opcode(made, launch, counts):
    _, _, found, executed = executions_of(made, *launch)
    assert {name: executed(name) for name in counts} == pytest.approx(counts, rel=1e-3)
    assert found.disagreement < 0.02


def test_warps_that_leave_and_warps_that_part(made):
    function, work, found, executed = executions_of(
        made, "some", 2, 128, [array(256), array(257), 160]
    )
    assert work.warps == 8 and executed("FFMA") == 1  # warp 5 is gone before it parts
    # a predicate in place of a branch: the warp that stores later comes to the store of the others,
    # too
    guarded = {i.predicate is not None for i in function.instructions if i.name == "STG"}
    assert executed("STG") == (6 if True in guarded else 5) and found.disagreement < 0.01


def test_another_kernel_s_ptx_is_refused(made):
    kernel, _, work = made("dot", 1, 32, [array(32), array(64), 4])
    function = sass.read(made.cubin, "dot")
    function.ptx = "\n".join("// nothing" for _ in function.ptx.splitlines())
    with fails("made from other PTX", PtxError):
        bounds.compute(function, kernel.program, work, machines.find("h200"))
    function.ptx = None
    with fails("names no lines of its PTX; remedy: compile", PtxError):
        bounds.compute(function, kernel.program, work, machines.find("h200"))


@pytest.mark.parametrize(
    ("ptx", "machine", "blocks", "estimated"),
    [
        # a line in two blocks: each is taken to do half of it; what one block alone has is known
        (["5 8 add.s32", "6 7 add.s32"], ["5 IADD3", "6 IADD3", "6 IADD3"], [8, 3.5, 3.5], 7 / 15),
        # a line with two of a kind says nothing; stores of another line are known
        (
            ["5 8 fma.rn.f32", "5 4 fma.rn.f32", "6 6 st.global.f32"],
            ["5 FFMA", "6 STG", "6 STG"],
            [4, 3, 3],
            0,
        ),
        # of another type: no execution of it is one of the PTX
        (["5 6 fma.rn.f64"], ["5 FFMA", "5 FFMA"], [3, 3], 1),
        (["5 6 fma.rn.f64"], ["5 DFMA", "5 DFMA"], [3, 3], 0),
        # of wgmma the cubin names other lines
        (
            ["5 9 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"],
            ["1 HGMMA.64x8x16.F32.BF16"],
            [9],
            0,
        ),
    ],
)
def test_executions_of_blocks_by_hand(ptx, machine, blocks, estimated):
    """Lines of PTX with their number and executions, and machine code with the line it is of: each
    is a block.
    """
    code, counts = [], {}
    for pc, (line, count, name) in enumerate(map(str.split, ptx)):
        opcode, *modifiers = name.split(".")
        code.append(
            syntax.Instruction(opcode, tuple(modifiers), (), None, False, None, int(line), pc=pc)
        )
        counts[pc] = float(count)
    instructions = [
        Instruction(16 * n, text.split()[1], ("R0", "R1"), None, "", 0, int(text.split()[0]))
        for n, text in enumerate(machine)
    ]
    labels = {str(n): n for n in range(len(machine))}
    found = executions.executions(sass.Function("k", instructions, labels), code, counts)
    assert found.blocks.tolist() == blocks
    assert found.estimated == estimated and found.disagreement == 0


@pytest.mark.parametrize(
    ("loads", "machine", "predicates", "blocks"),
    [
        (["f32", "f32"], ["LDS.64"], (None, None), [8]),
        (["f32", "f32"], ["LDS.64 LDS.64"], (None, None), [4]),
        (["v4.f32"], ["LDS", "LDS LDS.64"], (None, None), [0, 8 * 128 / 96]),
        (["f32", "f32"], ["LDS.64"], ("p", None), [0]),
        (["f32", "f32"], ["LDS.64"], (None, "P0"), [0]),
        # of another line
        (["f32", "f32"], ["LDS.64"], (None, "other"), [0]),
    ],
)
def test_loads_of_a_line_keep_their_bits(loads, machine, predicates, blocks):
    """Loads of shared memory are merged; eight times the PTX's bits are those of the machine code."""
    guard, ours = predicates
    register = syntax.Register("%p", TYPES["pred"], 0) if guard else None
    place = syntax.Location("k.cu", 7)
    code = [
        syntax.Instruction("ld", ("shared", *x.split(".")), (), register, False, place, 5, pc=pc)
        for pc, x in enumerate(loads)
    ]
    line, predicate = (8, None) if ours == "other" else (7, ours)
    names = [name.split() for name in machine]
    flat = [name for group in names for name in group]
    instructions = [
        Instruction(16 * n, name, ("R0", "[R2]"), predicate, "k.cu", line, 99)
        for n, name in enumerate(flat)
    ]
    labels = {str(n): sum(map(len, names[:n])) for n in range(len(names))}
    function = sass.Function("k", instructions, labels)
    found = executions.executions(function, code, dict.fromkeys(range(len(loads)), 8.0))
    assert found.blocks.tolist() == blocks
    assert (found.compared > 0) == (predicates == (None, None))


# work and bounds


def test_bounds_of_a_copy_by_hand(made):
    """128 bytes a thread pass: 16 read of each of two arrays, 16 written; the memory is what holds
    it back.
    """
    blocks, threads = 264, 128
    n = blocks * threads
    kernel, function, work = made(
        "axpy", blocks, threads, [array(4 * n), array(4 * n), np.float32(2)]
    )
    assert work.counts["sectors"] == work.counts["block_sectors"] == 2 * n * 16 / 32
    assert work.counts["lines"] == 2 * n * 16 / 128
    found = bounds.compute(function, kernel.program, work, machines.find("h200"))
    cycles = {b.resource: b.cycles_per_sm for b in found.bounds}
    assert cycles["dram"] == pytest.approx(2 * n * 16 / (4.8e12 / 1.98e9))
    assert "l2" not in cycles  # blocks of one SM may share what they read
    estimates = {b.resource: b.cycles_per_sm for b in found.estimates}
    assert estimates["l2"] == pytest.approx(3 * n * 16 / 132 / 64)
    assert cycles["l1"] == pytest.approx(2 * n * 16 / 128 / 132)
    assert cycles["fma"] >= 4 * n / 32 / 132 / 4
    length = [i.name for i in function.instructions].index("EXIT") + 1
    assert cycles["issue"] == work.warps * length / 132 / 4
    assert cycles["issue"] <= estimates["issue_model"] < 2 * cycles["issue"]
    assert "shared" not in cycles and "tensor" not in cycles
    assert found.limiter.resource == "dram" and found.tail == pytest.approx(cycles["dram"])


PIPES = [
    # The FMA pipe: as sm__pipe_fma_cycles_active, measured on an H200.
    *[(name, "fma", 1) for name in ("FFMA", "FMUL", "FADD", "IMAD", "VIADD", "IMAD.MOV.U32")],
    *[(name, "fma", 2) for name in ("IMAD.WIDE", "IMAD.HI.U32")],
    *[(name, "fma", 0) for name in ("IADD3", "VIADDMNMX", "DFMA", "LDS")],
    *[(name, "fp64", 1) for name in ("DFMA", "DMUL", "DADD")],
    ("FFMA", "fp64", 0),
    # Tensor cores: FLOP of the shape over those of a clock.
    ("HMMA.16816.F32", "tensor", 1.5),
    ("HMMA.1688.F32.BF16", "tensor", 0.75),
    ("HMMA.1688.F32.TF32", "tensor", 1.5),
    ("HMMA.1684.F32.TF32", "tensor", 0.75),
    ("HGMMA.64x128x16.F32.BF16", "tensor", 2 * 64 * 128 * 16 / 4 / 4096),
    ("HGMMA.64x8x8.F32.TF32", "tensor", 2 * 64 * 8 * 8 / 4 / 2048),
    ("QGMMA.64x8x32.F32", "tensor", 2 * 64 * 8 * 32 / 4 / 8192),
    ("HGMMA.64x8x16.F32 RZ", "tensor", 0),
    # Of these the rate is not known: their executions are told.
    *[
        (name, name, 1)
        for name in ("IMMA.16816.S8.S8", "DMMA.884", "HMMA.884.F32", "IGMMA.64x8x32")
    ],
]


@pytest.mark.parametrize(("text", "pipe", "clocks"), PIPES, ids=str)
def test_clocks_of_pipes(text, pipe, clocks):
    opcode, first = (*text.split(), "R0")[:2]
    code = [Instruction(0, opcode, (first, "R2", "R4"), None, "", 0, 0)]
    found = executions.Executions(np.array([10.0]), 0.0, 0.0)
    pipes = bounds._pipes(sass.Function("k", code, {"top": 0}), found, machines.find("h200"))
    assert pipes.get(pipe, 0) == 10 * clocks
    # an instruction is of one pipe
    assert sum(pipes.values()) == 10 * clocks or not clocks


def test_tensor_cores_of_wgmma_by_hand(made):
    """Each of 4 a turn does 2 x 64 x 8 x k FLOP; three read 64 and 8 rows of 32 bytes, one the 8
    only.
    """
    n, blocks = 5, 3
    kernel, function, work = made("multiplies", blocks, 128, [array(128), n])
    found = bounds.compute(function, kernel.program, work, machines.find("h200"))
    assert found.unrated == {} and found.disagreement == 0
    least = {b.resource: b for b in (*found.bounds, *found.estimates)}
    clocks = 2 * 64 * 8 * (16 / 4096 + 8 / 2048 + 32 / 8192 + 16 / 4096)
    assert least["tensor"].amount == pytest.approx(n * blocks * clocks)
    operands = n * blocks * 32 * (3 * 72 + 8) // 128
    stored = least["shared"].amount - operands
    assert 0 <= stored < 100 * blocks and stored % blocks == 0
    assert least["shared"].cycles_per_sm == pytest.approx(least["shared"].amount / 132)


def test_textures_are_fetched_too(made):
    """Three blocks fetch the same 64 elements of 16 bytes: 8 lines and 32 sectors each."""
    args = [array(4 * 192), ptxsim.Texture(array(4 * 64))]
    kernel, _, work = made("fetch", 3, 64, args)
    for counts in (
        work.counts,
        ptxsim.predict(kernel, 3, 64, args, by_instruction=True).work.counts,
    ):
        assert counts["lines"] == 3 * 8
        assert counts["block_sectors"] == 3 * 32 and counts["sectors"] == 32


def test_instructions_of_a_kernel_that_waits_are_a_least(made):
    """How often a device looks is a matter of time: its instructions are those of one look for each
    wait, or more.
    """
    h200 = machines.find("h200")
    kernel, function, work = made("waits", 2, 32, [ptxsim.Array(np.zeros(2, np.int32))])
    found = bounds.compute(function, kernel.program, work, h200)
    assert "polls depends on time; once for each wait is counted" in found.waits
    assert f"{found.instructions:,.0f} instructions or more" in found.table()
    kernel, function, work = made("dot", 2, 32, [array(64), array(64), 5])
    assert (
        bounds.compute(function, kernel.program, work, h200).report()["instructions_at_least"]
        is None
    )


def test_the_tail_is_a_block_more(made):
    kernel, function, work = made(
        "axpy", 133, 32, [array(4 * 133 * 32), array(4 * 133 * 32), np.float32(2)]
    )
    machine = machines.Machine(
        **{**vars(machines.find("h200")), "dram_gb_per_s": 1e9, "l2_bytes_per_clock": 1e9}
    )
    found = bounds.compute(function, kernel.program, work, machine)
    assert found.tail == pytest.approx(found.limiter.cycles_per_sm * 2 * 132 / 133)
    assert found.waves == pytest.approx(133 / (132 * 32)) and found.blocks_per_sm == 32


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (256, 93, 8192, 2),
        (128, 168, 16384, 3),
        (1024, 32, 8192, 2),
        (512, 39, 4096, 3),
        (256, 127, 32768, 2),
    ],
)
def test_blocks_that_an_sm_holds(threads, registers, shared, blocks):
    """As ncu's launch__occupancy limits have it for the first ladder."""
    assert bounds.held(machines.find("h200"), threads, registers, shared) == blocks


# machines


def test_a_machine_from_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('like = "h100-sxm"\nname = "mine"\nsms = 100\nclock_mhz = 1500\n')
    machine = machines.find(str(path))
    assert (machine.name, machine.sms, machine.clock_mhz, machine.dram_gb_per_s) == (
        "mine",
        100,
        1500,
        3350,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('like = "h300"', "like = 'h300' is not known; known: h100"),
        ("sms = 132", "bad.toml: issue_per_clock is missing; give it"),
        ('like = "h200"\nsmss = 1', "unknown key 'smss'"),
        ('like = "h200"\nsms = 1.5', "sms = 1.5 is not allowed; allowed: a positive whole number"),
        ('like = "h200"\nclock_mhz = -1', "clock_mhz = -1 is not allowed"),
        ("sms = ", "not TOML"),
    ],
)
def test_a_machine_that_cannot_be(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PtxsimError) as caught:
        machines.find(str(path))
    assert words in str(caught.value) and "\n" not in str(caught.value)


# the command


OPTIONS = ["--entry", "dot", *launch_options(2, 96, "zeros:f32:192", "random:f32:64:1", "i32:19")]


def test_the_command(made, tmp_path, capsys):
    out = tmp_path / "bounds.json"
    assert main(["bounds", str(made.cubin), *OPTIONS, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "limiter: " in text and "issue slots" in text and "2 blocks of 96 threads" in text
    written = json.loads(out.read_text())
    assert written["kernel"] == "dot" and written["gpu"]["sms"] == 132
    rows, rough = (
        {row["resource"]: row for row in written[kind]} for kind in ("bounds", "estimates")
    )
    # of an unrolled loop
    assert rough["issue"]["amount"] == written["instructions"] and written["estimated"] > 0.02
    assert (
        max(rows.values(), key=lambda row: row["cycles_per_sm"])["resource"] == written["limiter"]
    )
    assert set(rough) == {"fma", "issue", "registers", "l2", "issue_model"}
    above, below = text.split("estimates, no bounds:")
    assert "register banks" not in above
    assert all(name in below for name in ("L2 to SM", "issue cycles", "FMA pipe"))
    assert "of the instructions are executed is an estimate" in text
    assert main(["bounds", str(made.cubin), *OPTIONS, "--ptx", str(made.ptx), "--sms", "66"]) == 0
    assert "66 SMs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kernel", "options", "words"),
    [
        ("gone.cubin", [], "gone.cubin: no such file"),
        ("all.cubin", ["--gpu", "h300"], "GPU 'h300' is not known"),
        ("all.txt", [], "all.txt: no such file"),
        ("all.ptx", ["--ptx", "x.ptx"], "only goes with a .cubin"),
        ("text.cubin", [], "not a cubin"),
        ("all.cubin", ["--sms", "0"], "sms = 0 is not allowed; allowed: a positive whole number"),
    ],
)
def test_faults_are_one_line(made, tmp_path, capsys, kernel, options, words):
    (tmp_path / "all.cubin").write_bytes(made.cubin.read_bytes())
    (tmp_path / "text.cubin").write_text("not a cubin")
    (tmp_path / "all.ptx").write_text("")
    assert main(["bounds", str(tmp_path / kernel), *OPTIONS, *options]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("ptxsim: ") and words in lines[0], lines


# The model of issue: what is read of the register banks, and how long that takes


def ffma(*operands):
    return Instruction(0, "FFMA", operands, None, "", 0, 0)


@pytest.mark.parametrize(
    ("before", "now", "reads"),
    [
        ([], ("R0", "R2", "R4", "R0"), (3, 0)),
        ([], ("R0", "R2", "R5", "R0"), (2, 1)),
        ([], ("R1", "R2", "RZ", "R1"), (1, 1)),
        ([], ("R1", "R2", "c[0x0][0x210]", "RZ"), (1, 0)),
        ([], ("R1", "RZ", "UR4", "RZ"), (0, 0)),
        # kept in the same slot: not read again
        ([("R0", "R2", "R4.reuse", "R0")], ("R6", "R3", "R4", "R6"), (1, 1)),
        # not kept, kept in another slot, kept another register: read
        ([("R0", "R2", "R4", "R0")], ("R6", "R3", "R4", "R6"), (2, 1)),
        ([("R0", "R4.reuse", "R2", "R0")], ("R6", "R3", "R4", "R6"), (2, 1)),
        ([("R0", "R2", "R8.reuse", "R0")], ("R6", "R3", "R4", "R6"), (2, 1)),
        ([("R0", "R2.reuse", "R4.reuse", "R0")], ("R6", "R2", "R4", "R6"), (1, 0)),
        # kept until that slot reads another register of that bank
        (
            [("R0", "R2", "R4.reuse", "R0"), ("R0", "R2", "R5", "R0")],
            ("R6", "R3", "R4", "R6"),
            (1, 1),
        ),
        (
            [("R0", "R2", "R4.reuse", "R0"), ("R0", "R2", "R8", "R0")],
            ("R6", "R3", "R4", "R6"),
            (2, 1),
        ),
        (
            [("R0", "R2", "R4.reuse", "R0"), ("R0", "R2", "R4", "R0")],
            ("R6", "R3", "R4", "R6"),
            (2, 1),
        ),
        # one register in two slots is one read
        ([], ("R0", "R2", "R2", "R1"), (1, 1)),
    ],
)
def test_bank_reads(before, now, reads):
    assert issue.bank_reads([*(ffma(*operands) for operands in before), ffma(*now)])[-1] == reads


def test_what_is_no_ffma_reads_nothing_and_leaves_the_cache_alone():
    load = Instruction(0, "LDS", ("R8", "[R4]"), None, "", 0, 0)
    code = [ffma("R0", "R2", "R4.reuse", "R0"), load, ffma("R6", "R3", "R4", "R6")]
    assert issue.bank_reads(code) == [(3, 0), (0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("reads", "backlog", "cycles"),
    [
        ([(3, 0), (0, 0)], 0, 3 + 1),  # each instruction waits for all that was read before
        ([(3, 0), (0, 0)], 1, 2 + 1),  # the last operand comes while the next one is issued
        ([(3, 0), (0, 0)], 2, 1 + 1),
        # of loops that were timed on an H200, a period: two with operands of one bank, then two of
        # the other
        ([(2, 0), (2, 0), (0, 2), (0, 2)] * 100, 1, 600),
        ([(2, 0), (0, 2)] * 100, 1, 200),
        ([(3, 0), (2, 1), (0, 1), (0, 1)] * 100, 1, 600),
        ([(3, 0), (2, 1), (0, 1)] * 100, 1, 500),
        ([(2, 1)] * 100, 1, 200),
        ([(1, 1)] * 10, 0, 10),
        ([], 1, 0),
    ],
)
def test_issue_cycles(reads, backlog, cycles):
    assert issue.issue_cycles(reads, backlog) == pytest.approx(cycles, abs=2)


def test_a_function_s_cycles_follow_executions_and_merged_loads():
    loop = [
        ffma("R0", "R2", "R4.reuse", "R0"),
        ffma("R6", "R3", "R4", "R7"),
        Instruction(0, "NOP", (), None, "", 0, 0),
    ]
    function = sass.Function("k", loop, {"top": 0})
    found = executions.Executions(np.array([10.0]), 0.0, 0.0)
    reads, cycles = issue.of_function(function, found, merged=5)
    assert reads == [30.0, 20.0]  # R2 R4 R0; R3 R7
    assert cycles == 10 * (3 + 1) + 5 * issue.MERGED  # the second waits once for the first


# The table of GPUs, and the one reading of an architecture's name


def test_an_architecture_s_number():
    for target, number in (("sm_90a", 90), ("sm_120", 120), ("sm_100f", 100)):
        assert gpus.architecture(target) == gpus.number(target) == number
    for target in ("pascal", "sm_", "sm_9x", "90", "sm_90aa"):
        assert gpus.number(target) == 0
        with fails(f"arch = '{target}' is not allowed; allowed: sm_ and a number"):
            gpus.architecture(target)
    with fails(r"arch = 'sm_61': limits unknown; known: sm_75, sm_80, sm_86"):
        gpus.limits_of("sm_61")


def test_every_architecture_from_sm_75_to_sm_120_has_a_gpu():
    assert {gpu.architecture for gpu in gpus.GPUS.values()} >= {75, 80, 86, 89, 90, 100, 120}


@pytest.mark.parametrize("name", gpus.GPUS)
def test_a_gpu_s_memory_is_as_fast_as_its_bus(name):
    """A pin moves two bits a clock; data sheets round, and some state a lower clock."""
    gpu = gpus.GPUS[name]
    assert gpu.dram_gb_per_s == pytest.approx(
        2 * gpu.memory_clock_mhz * gpu.bus_bits / 8e3, rel=0.03
    )


def test_the_rates_of_an_h100_are_its_own():
    h100, h200 = machines.find("h100"), machines.find("h200")
    assert machines.find("h100-sxm") == h100
    assert (h100.name, h100.dram_gb_per_s, h200.dram_gb_per_s) == (
        "NVIDIA H100 80GB HBM3",
        3350,
        4800,
    )
    with fails("the rates of the NVIDIA L4 are not known"):
        machines.of_gpu(gpus.find("l4"))


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "warps", "limiter"),
    [
        # 65536 registers, 64 warps, 2048 threads: 32 registers a thread is the most at full
        # occupancy
        ("sm_90", 256, 32, 0, 8, 64, "registers"),
        # 40 by the unit of 256 a warp: 12 warps a scheduler
        ("sm_90", 256, 33, 0, 6, 48, "registers"),
        ("sm_80", 1024, 16, 0, 2, 64, "threads"),
        ("sm_86", 1024, 16, 0, 1, 32, "threads"),  # 48 warps: the second block of 32 does not fit
        ("sm_90", 32, 16, 0, 32, 32, "blocks"),
        ("sm_89", 32, 16, 0, 24, 24, "blocks"),
        # the most a block may have, with the driver's 1 KB
        ("sm_90", 128, 16, 227 * 1024, 1, 4, "shared"),
        ("sm_90", 128, 16, 113 * 1024 + 1, 1, 4, "shared"),
        ("sm_86", 128, 16, 99 * 1024, 1, 4, "shared"),
        ("sm_120", 128, 16, 49 * 1024, 2, 8, "shared"),
        ("sm_90", 288, 168, 0, 1, 9, "registers"),
        ("sm_90", 1024, 65, 0, 0, 0, "registers"),  # cannot be launched
        ("sm_90", 32, 255, 0, 8, 8, "registers"),
        ("sm_90", 992, 16, 0, 2, 62, "threads"),
        ("sm_90", 32, 0, 6272, 32, 32, "shared"),  # 32 KiB of the 228 are the driver's
        ("sm_90", 32, 0, 6273, 31, 31, "shared"),  # by 128 bytes
        ("sm_90", 33, 16, 0, 32, 64, "threads"),  # a part of a warp takes a whole one
    ],
)
def test_occupancy_by_hand(arch, threads, registers, shared, blocks, warps, limiter):
    held = occupancy(gpus.limits_of(arch), threads, registers, shared)
    assert (held.blocks_per_sm, held.warps_per_sm, held.limiter) == (blocks, warps, limiter)
    assert held.fraction == warps / gpus.limits_of(arch).warps


@pytest.mark.parametrize(("shared", "blocks"), [(113 * 1024, 2), (113 * 1024 + 1, 1)])
def test_the_system_takes_a_kib_of_each_block_s_shared_memory(shared, blocks):
    assert bounds.held(machines.find("h100"), 128, 16, shared) == blocks
    assert sizes.resident_blocks(128, shared) == blocks * sizes.SMS
