"""Broken input: one line that says what is wrong, before anything runs, and nothing
half-written.
"""

from __future__ import annotations

import resource
import signal

import numpy as np
import pytest
from running import KERNELS, fails

import ptxsim
from ptxsim import Array, Struct, TensorMap, cli
from ptxsim.cli import main
from ptxsim.instructions import registry
from ptxsim.ptx import sizes
from ptxsim.ptx.compiler import compile_ptx, warnings_in
from ptxsim.ptx.sass import assemble

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
DECLARED = (
    ".reg .b64 %a<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<9>; .shared .b8 s[64];\n"
)


def entry(body: str, parameters: str = "", before: str = "") -> str:
    return f"{HEAD}{before}.visible .entry k({parameters}) {{\n{DECLARED}{body}\n}}"


@pytest.mark.parametrize(
    ("line", "message"),
    {
        "bra.uni ;": "bra.uni takes 1 operands, found 0",
        "bra.uni %r1;": "operand 1 of bra.uni must be a label",
        "ld.global.u32 %r1, %a1;": "operand 2 of ld.global.u32 must be an address [base+offset]",
        "st.shared.u32 [%a1], {};": "operand 2 of st.shared.u32 must be a register, constant or name, or a vector",
        "add.s32 %r1, %r2;": "add.s32 takes 3 operands, found 2",
        "add.sideways.s32 %r1, %r2, 3;": "modifier .sideways of add.sideways.s32 is not supported",
        "mapa.sideways.u32 %r1, %r2, 3;": "modifier .sideways of mapa.sideways.u32 is not supported",
        "ldu.sideways.u32 %r1, [%a1];": "modifier .sideways of ldu.sideways.u32 is not supported",
        "add.s32 %r1, %p1, 3;": "%p1 is .pred, where a .s32 is read",
        "mov.u64 %a1, 0f7F800000;": "the constant inf is no .u64",
        "mov.b64 %a1, {%r1, %r2, %r3};": "mov.b64 does not take a vector of 3 elements",
        "cp.async.wait_group -1;": "operand 1 of cp.async.wait_group must be a whole number from 0 on",
        "tex.1d.v4.f32.s32 %f1, [%a1, {%r1}];": "operand 1 of tex.1d.v4.f32.s32 must be a vector of registers",
        "setp.eq.and.s32 %p1, %r1, 3, !%r2;": "! stands before what is no predicate register",
        "call.uni printf, (%r1);": "printf is called but has no body here",
        "call.uni vprintf, (%r1);": "vprintf takes 2 or more arguments",
        "ld.global.u32 %r1, [%a1+09];": "09 is no number of at most 64 bits (a leading 0: octal)",
        "ld.global.u32 %r1, [%a1+9999999999999999999];": "an offset of 9999999999999999999 is too large",
        "ld.global.u32 %r1, [%p1];": "an address begins with a register of 32 or 64 bits",
        ".shared .align 3 .b8 x[4];": ".align 3: an alignment is a power of two",
        ".shared .b8 x[-4];": "x has a length of -4",
        "mov.u32 %r1, " + "{" * 5000: "nested too deeply",
    }.items(),
)
def test_operands_are_of_their_kinds(line, message):
    with pytest.raises(ptxsim.PtxError) as caught:
        ptxsim.load(entry(line + "\nret;"))
    text = str(caught.value)
    assert message in text and len(text.splitlines()) == 1
    assert text.startswith("PTX line 6: ") or "nested" in message


F4, R4 = "{%f1, %f2, %f3, %f4}", "{%r1, %r2, %r3, %r4}"
# Each line has one thing that a form of its instruction does not take.
UNKNOWN = """
cp.ca.shared.global [%r1], [%a1], 4; | a cp other than cp.async
cp.async.ca.global.global [%a1], [%a2], 4; | a copy that is not from global to shared memory
cp.async.ca.shared.shared [%r1], [%a1], 4; | a copy that is not from global to shared memory
cp.async.cg.shared.global [%r1], [%a1], 8; | cp.async.cg cannot copy 8 bytes
cp.async.ca.shared.global [%r1], [%a1], 2; | cp.async.ca cannot copy 2 bytes
cp.async.mbarrier.b64 [%a1]; | this operation
cp.async.bulk.global.global.bulk_group [%a1], [%a2], 16; | a copy between these spaces
cp.reduce.async.bulk.global.shared::cta.bulk_group.sub.u32 [%a1], [%r1], 16; | this operation
cvt.u32 %r1, %r2; | this combination of types
cvt.rn.f16x2.f16 %r1, %r2, %r3; | this source type
cvt.rn.f16x2.f32 %r1, %f2; | this source type
cvt.rn.e4m3x2.f32 %r1, %f1, %f2; | this combination of types
cvt.rn.satfinite.f16x2.e4m3x2 %r1, %r2; | this combination of types
cvt.rn.satfinite.f16.f32 %r1, %f2; | .satfinite
setp.equ.s32 %p1, %r1, %r2; | a comparison
setp.lo.f32 %p1, %f1, %f2; | a comparison
set.eq.u32 %r1, %r2, %r3; | set.eq.u32 needs two types
ldmatrix.sync.aligned.m8n16.x1.shared.b16 {%r1}, [%r2]; | a shape other than m8n8
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2]; | with 1 registers
mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, F4; | a layout other than .row.col
mma.sync.aligned.m16n8k8.col.col.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, F4; | a layout other than .row.col
mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 F4, {%r1, %r2}, {%r3}, F4; | this shape and types
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16 F4, {%r1, %r2}, {%r3}, F4; | this shape and types
mma.sync.aligned.row.col.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, F4; | this shape and types
mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, F4; | this shape and types
mma.sync.aligned.m16n8k8.row.col.s32.f16.f16.s32 R4, {%r1, %r2}, {%r3}, R4; | this shape and types
mma.sync.aligned.m16n8k16.row.col.f32.s8.s8.s32 F4, {%r1, %r2}, {%r3}, R4; | this shape and types
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32 R4, R4, {%r1, %r2}, R4; | this shape and types
mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32.xor.popc R4, {%r1, %r2}, {%r3}, R4; | this shape and types
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, F4; | with 4, 2, 1, 4 registers
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 F4, {%r1, %r2}, {%r3}, {%f1, %f2}; | with 4, 2, 1, 2 registers
wmma.load.a.sync.aligned.row.m16n16k4.f16 R4, [%a1]; | this shape
wmma.load.a.sync.aligned.row.m16n16k16.s16 R4, [%a1]; | this type
wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2, %r3}, [%a1]; | with 3 registers
wmma.mma.sync.aligned.row.m16n16k16.f32.f32 F4, R4, R4, F4; | is not supported
wmma.mma.sync.aligned.row.row.col.m16n16k16.f32.f32 F4, R4, R4, F4; | is not supported
wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite F4, R4, R4, F4; | is not supported
wmma.mma.sync.aligned.row.col.m16n16k16.s32.f16.f16.f32 R4, R4, R4, F4; | is not supported
wmma.mma.sync.aligned.row.col.m16n16k16.f32.s8.s8.s32 F4, R4, R4, R4; | is not supported
wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n264k16.f32.f16.f16 F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.e4m3 F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {%r1, %r2}, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k32.f32.s8.s8 F4, %a1, %a2, 1; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k32.s32.e4m3.s8 R4, %a1, %a2, 1; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16.satfinite F4, %a1, %a2, 1, 1, 1, 0, 0; | this shape and types
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 F4, R4, %a2, 1, 1, 1, 0, 0; | must be 1 or -1 twice, then 0 or 1
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 F4, %a1, %a2, 1, 1, 0, 0, 0; | then 0 or 1 twice
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 F4, %a1, %a2, 1, 1, 1, 2, 0; | then 0 or 1 twice
wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 F4, %a1, %a2, 1, 1, 1, 0, 0; | must be 1 or -1 twice
wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 F4, %a1, %a2, 1, 1, 1, 0, 0; | takes 8 registers for D
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 F4, {%r1, %r2}, %a2, 1, 1, 1, 0; | 4 for A
ld.v2.global.u32 {%r1, %r2, %r3}, [%a1]; | with 3 registers
st.const.u32 [%a1], %r1; | stores to read-only memory
st.param.u32 [p], %r1; | stores to read-only memory
atom.global.mul.u32 %r1, [%a1], 1; | this operation
redux.sync.add.f32 %f1, %f2, -1; | a floating-point type
barrier.cluster.aligned; | neither .arrive nor .wait
bar.red.xor.pred %p1, 0, %p2; | this reduction
setmaxnreg.sync.aligned.u32 40; | neither .inc nor .dec
setmaxnreg.inc.sync.aligned.u32 16; | setmaxnreg takes a multiple of 8 from 24 to 256, not 16
setmaxnreg.inc.sync.aligned.u32 44; | setmaxnreg takes a multiple of 8 from 24 to 256, not 44
setmaxnreg.dec.sync.aligned.u32 264; | setmaxnreg takes a multiple of 8 from 24 to 256, not 264
mbarrier.sideways.b64 [%a1], 1; | this operation
cvta.u64 %a1, %a2; | does not name a space
isspacep %p1, %a1; | this space
mov.b32 %r1, {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r1}; | does not take a vector of 8 elements
tensormap.cp_fenceproxy.global.shared::cta [%a1], [%r1], 64; | copies 128 bytes, not 64
st.async.shared::cluster.b32 [%r1], %r2, [%r3]; | a form other than
st.async.mbarrier::complete_tx::bytes.b32 [%a1], %r2, [%r3]; | a form other than
st.async.mbarrier::complete_tx::bytes.relaxed.shared::cluster.b32 [%r1], %r2, [%r3]; | a form other than
st.async.mbarrier::complete_tx::bytes.shared::cluster.b16 [%r1], %r2, [%r3]; | a store of 1 times 2 bytes
st.async.mbarrier::complete_tx::bytes.shared::cluster.v4.b64 [%r1], {%a1, %a1, %a1, %a1}, [%r3]; | 4 times 8 bytes
tex.5d.v4.f32.s32 R4, [%a1, {%r1}]; | this geometry and types
tex.2d.v4.f32.s32 F4, [%a1, {%r1}]; | with 1 coordinates
sust.b.2d.v2.b32.trap [%a1, {%r1, %r2}], {%r1}; | takes 2 values
"""


@pytest.mark.parametrize("row", UNKNOWN.strip().splitlines())
def test_forms_that_are_not_emulated_are_refused(row):
    line, message = row.replace("F4", F4).replace("R4", R4).split(" | ")
    with pytest.raises(ptxsim.PtxError) as caught:
        ptxsim.load(entry(line + "\nret;", ".param .u32 p"))
    assert str(caught.value).startswith("PTX line 6: ") and message in str(caught.value)


def test_every_instruction_states_its_operands():
    stated = set(registry.OPERANDS)
    assert stated == {opcode for opcode, _ in registry.ELEMENTWISE} | set(registry.EFFECTS) | set(
        registry.CONTROLS
    )
    # the last is for all the rest
    assert all(forms and not forms[-1].when for forms in registry.OPERANDS.values())


def test_operands_of_code_that_is_not_reached_are_checked():
    with fails("PTX line 10: operand 2 of ld", ptxsim.PtxError):
        ptxsim.load(
            entry("ret;") + "\n.visible .entry other() {\n.reg .b32 %r;\nld.global.u32 %r, 3; }",
            "k",
        )


@pytest.mark.parametrize("end", ["", "ret;\nEND:", "@%p1 ret;"])
def test_the_end_of_a_function_returns(end):
    """A function may end without ret, which ptxas accepts, too."""
    body = f"""ld.param.u64 %a1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;
        {"@%p1 bra END;" if "END" in end else ""} mad.wide.u32 %a2, %r1, 4, %a1; st.global.u32 [%a2], 7; {end}"""
    array = ptxsim.Array(np.zeros(32, np.uint32))
    ptxsim.load(entry(body, ".param .u64 p")).launch(1, 32, [array])
    first = 8 if "END" in end else 0
    assert (array.numpy() == np.where(np.arange(32) < first, 0, 7)).all()


def test_an_initialiser_that_is_too_long():
    with fails("PTX line 4: x holds 2 elements, but is initialised with 3", ptxsim.PtxError):
        ptxsim.load(entry("ret;", before=".global .u32 x[2] = {1, 2, 3};\n"))


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        ("", {"grid": 99999999999}, r"grid \(99999999999, 1, 1\) is more than CUDA takes"),
        ("", {"block": (1, 1, 65)}, "more than CUDA takes"),
        (
            "",
            {"grid": 2**31 - 1},
            r"6\.87e\+10 threads are more than the limit of 1e\+10 thread-instructions",
        ),
        ("", {"shared_bytes": -1}, "-1 bytes of dynamic shared memory; allowed: 0 to 232448"),
        (
            ".shared .b8 x[232448]; mov.u32 %r1, x;",
            {"shared_bytes": 16},
            "bytes of shared memory a block",
        ),
        (".local .b8 x[99999999999]; mov.u64 %a1, x;", {}, "bytes of local memory a thread"),
        (".global .b8 x[9999999999999]; mov.u64 %a1, x;", {}, "of memory are needed"),
    ],
)
def test_sizes_are_checked_before_anything_runs(body, options, message):
    kernel = ptxsim.load(entry(body + "trap;"))
    with fails(message):
        kernel.launch(**{"grid": 1, "block": 32, "args": [], **options})


def test_memory_is_checked(monkeypatch):
    monkeypatch.setattr(sizes, "available_bytes", lambda: 1 << 20)
    kernel = ptxsim.load(entry("trap;", ".param .u64 p"))
    with fails(r"k: 32 threads together: .* needed, 1 MiB are available"):
        kernel.launch(1, 32, [ptxsim.Array(np.zeros(1 << 20, np.uint8))])


def test_a_grid_that_costs_too_much_is_refused_after_its_first_blocks():
    """The grid runs if a higher limit allows it."""
    kernel = ptxsim.load(entry("mov.u32 %r1, 1;\nret;"))
    limits = {"lanes": 64}
    with fails(r"about 6\.4e\+04 thread-instructions .*first 2 of 1000 blocks"):
        kernel.launch(1000, 32, [], limits=ptxsim.Limits(thread_instructions=63_999, **limits))
    kernel.launch(1000, 32, [], limits=ptxsim.Limits(thread_instructions=64_000, **limits))


@pytest.fixture
def path(tmp_path):
    """Writes thread numbers to p[0:n]."""
    body = """ld.param.u64 %a1, [p]; mov.u32 %r1, %tid.x; mad.wide.u32 %a1, %r1, 4, %a1; st.global.u32 [%a1], %r1;"""
    (tmp_path / "k.ptx").write_text(entry(body, ".param .u64 p, .param .u32 n"))
    return tmp_path / "k.ptx"


def run(path, *options: str) -> int:
    return main(["run", str(path), "--grid", "1", "--block", "32", *options])


@pytest.mark.parametrize("value", ["1.5", "2.0", "f32:1.5", "1e3"])
def test_a_fraction_for_a_whole_number(path, value, capsys):
    assert run(path, "--arg", "zeros:u32:32", "--arg", value) == 2
    assert "is no whole number, which parameter n (.u32) takes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [("--lanes", "-1"), ("--lanes", "0"), ("--shared", "-1"), ("--steps", "x")]
)
def test_numbers_of_options(path, options, capsys):
    with pytest.raises(SystemExit) as caught:
        run(path, *options)
    assert caught.value.code == 2 and "is no whole number from" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing/folder/out.npy", "out.npy"])
def test_files_are_written_with_their_folders(path, name):
    assert run(path, "--arg", f"out={path.parent / name}=zeros:u32:32", "--arg", "1") == 0
    assert (np.load(path.parent / name) == np.arange(32)).all()


@pytest.mark.parametrize("name", ["k.ptx/out.npy", "", "x" * 300, "\0"])
def test_what_cannot_be_written_is_reported_before_the_run(path, name, capsys):
    path.write_text(path.read_text().replace("mov.u32", "trap;\nmov.u32"))
    assert (
        run(
            path,
            "--arg",
            f"out={path.parent / name if name else path.parent}=zeros:u32:32",
            "--arg",
            "1",
        )
        == 2
    )
    assert capsys.readouterr().err.startswith("ptxsim: cannot write ")


@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_leaves_nothing_half_written(path, before, capsys):
    """A file must not grow beyond 2000 bytes here: the error of a full disk, but for its number."""
    out = path.parent / "out.npy"
    if before:
        np.save(out, np.ones(3))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        assert run(path, "--arg", f"out={out}=zeros:u32:4096", "--arg", "1") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert "ptxsim: cannot write" in capsys.readouterr().err
    assert sorted(p.name for p in path.parent.iterdir()) == ["k.ptx"] + ["out.npy"] * before
    assert not before or (np.load(out) == np.ones(3)).all()


def test_a_full_device(path, capsys):
    assert run(path, "--arg", "out=/dev/full=zeros:u32:32", "--arg", "1") == 2
    assert capsys.readouterr().err == "ptxsim: cannot write /dev/full: No space left on device\n"


def test_a_special_register_that_is_not_supported_is_named():
    kernel = ptxsim.load(HEAD + ".visible .entry k() { .reg .b32 %r; mov.u32 %r, %envreg9; ret; }")
    with fails(r"^special register %envreg9 is not supported$"):
        kernel.launch(1, 32, [])


@pytest.mark.parametrize("value", [5, 2.5])
def test_a_struct_is_no_number(value):
    kernel = ptxsim.load(HEAD + ".visible .entry k(.param .align 4 .b8 k_param_0[24]) { ret; }")
    with fails(rf"argument 0 = {value} is a number, but .* is a struct of 24 bytes"):
        kernel.launch(1, 32, [value])
    kernel.launch(1, 32, [bytes(24)])


def test_a_long_name_is_reported_by_its_beginning():
    """As CuTe's kernels have them: thousands of characters."""
    argument = "N4cute6LayoutE"
    name = f"_Z4gemmI{argument * 200}EvPf"
    kernel = ptxsim.load(HEAD + f".visible .entry {name}(.param .u64 p) {{ ret; }}")
    assert len(kernel.name) > 2000 and len(kernel.title) <= 120
    assert kernel.title.startswith("gemm<cute::Layout, cute::Layout")
    assert kernel.title.endswith("...>")
    with pytest.raises(ptxsim.PtxsimError) as error:
        kernel.launch(1, 32, [])
    assert len(str(error.value)) < 200


def test_dynamic_parallelism_is_reported_as_that():
    text = ".extern .func (.param .b64 r) cudaGetParameterBufferV2 (.param .b64 a);\n.visible .entry k() {\n"
    text += "{ .param .b64 p; .param .b64 r; call.uni (r), cudaGetParameterBufferV2, (p); } ret; }"
    with fails(r"cudaGetParameterBufferV2 is called: kernels that launch others"):
        ptxsim.load(HEAD + text)


# What compilers warn of is shown, and a trap is looked into with code that is not optimised


SOURCE = """
__global__ void k(float* out, int n) {
    float sum[4] = {0};
    for (int i = 0; i < %d; ++i) sum[i] += n;
    for (int i = 0; i < 4; ++i) out[i] = sum[i];
    if (n == 3) __trap();
}
"""
WARNED = """
__global__ void k(float* out) {
    int unused;
    out[0] = 1;
}
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "k.cu"
        path.write_text(text)
        return path

    return write


def test_warnings_of_nvcc_are_shown(written, capsys):
    try:
        compile_ptx(written(WARNED))
    except Exception as error:  # without a compiler
        pytest.skip(str(error))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ptxsim: nvcc: ")
    assert '"unused" was declared but never referenced' in line
    compile_ptx(written(WARNED.replace("int unused;", "")))
    assert not capsys.readouterr().err


def test_warnings_of_ptxas_are_shown(tmp_path, capsys):
    source = tmp_path / "k.ptx"
    source.write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .minnctapersm 2 { ret; }\n"
    )
    try:
        assemble(source, tmp_path / "k.cubin")
    except Exception as error:
        pytest.skip(str(error))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ptxsim: ptxas: ") and ".minnctapersm is ignored" in line


def test_each_warning_is_one_line_and_is_said_once():
    said = "k.cu(3): warning #177-D: x\n  int x;\n\nk.cu(3): warning #177-D: x\nptxas warning : y\nRemark: warnings\n"
    assert warnings_in(said) == ["k.cu(3): warning #177-D: x", "ptxas warning : y"]


@pytest.mark.parametrize(
    ("many", "n", "expected"),
    [
        (4, 2, []),
        (400, 2, ["out-of-bounds local"]),  # which the optimised code leaves out
        (4, 3, ["trap", "with -G:", "trap"]),
        (400, 3, ["trap", "with -G:", "out-of-bounds local", "trap"]),
    ],
)
def test_what_the_optimiser_hides_is_found_with_debug_code(written, capsys, many, n, expected):
    options = f"--grid 1 --block 1 --arg zeros:f32:4 --arg {n}".split()
    status = cli.main(["run", str(written(SOURCE % many)), *options])
    if "no nvcc" in (err := capsys.readouterr().err):
        pytest.skip(err)
    lines = [line for line in err.splitlines() if "nvcc:" not in line]
    assert status == (1 if expected else 0) and len(lines) == len(expected)
    assert all(words in line for words, line in zip(expected, lines, strict=True))


# Parameters that are structs: pointers, numbers and tensor maps in them, from Python and the
# command line


STRUCTS = f"""
#define wait wait_in_tma
#include "{KERNELS / "tma.cu"}"
#undef wait
struct Inner {{ const float* in; short n; }};
struct Params {{ float* out; Inner inner; float factor; alignas(64) CUtensorMap map; cudaTextureObject_t texture; }};
extern "C" __global__ void whole(const __grid_constant__ Params p) {{
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {{
        init(&bar, 1);
        init_fence();
        expect(&bar, 32 * 16);
        load_2d(shared, &p.map, 0, 0, &bar);
    }}
    __syncthreads();
    wait_in_tma(&bar, 0);
    const uint16_t* box = reinterpret_cast<const uint16_t*>(shared);
    int i = threadIdx.x;
    p.out[i] = i < p.inner.n ? p.inner.in[i] * p.factor + box[i] + tex1Dfetch<float>(p.texture, i) : 0;
}}
struct Two {{ float* a; float* b; }};
extern "C" __global__ void meets(Two two, const float* also_b, float* out) {{  // a race, if b and also_b are one
    two.b[threadIdx.x] = 1;
    out[threadIdx.x] = also_b[31 - threadIdx.x] + two.a[threadIdx.x];
}}
"""


@pytest.fixture(scope="module")
def ptx_text(compiled, tmp_path_factory):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    path = tmp_path_factory.mktemp("structs") / "structs.cu"
    path.write_text(STRUCTS)
    return compile_ptx(path)


def parts(out, x, box, texture):
    return {
        0: out,
        8: Struct({0: x, 8: np.int16(20)}, 16),
        24: np.float32(3),
        128: TensorMap(box, (32, 8)),
        256: ptxsim.Texture(texture, 1),
    }


def test_pointers_numbers_maps_and_textures_in_a_struct(ptx_text):
    x, table = np.arange(32, dtype=np.float32), np.arange(100, 132, dtype=np.float32)
    box = np.arange(64 * 16, dtype=np.uint16).reshape(64, 16)
    out = Array(np.full(32, -1, np.float32), "out")
    kernel = ptxsim.load(ptx_text, "whole")
    value = Struct(parts(out, Array(x), Array(box), Array(table)))
    kernel.launch(1, 32, [value], shared_bytes=512)
    want = x * 3 + box[:32, :8].reshape(-1)[:32] + table
    assert (out.numpy()[:20] == want[:20]).all() and not out.numpy()[20:].any()
    assert kernel.count(1, 32, [value], shared_bytes=512).totals()["l2_sectors_bulk_ld.sum"] == 32


def test_a_map_at_another_place_of_the_struct_is_reported(ptx_text):
    given = parts(*(Array(np.zeros((64, 16), np.uint16)) for _ in range(4)))
    given[192] = given.pop(128)
    message = r"there is no tensor map at generic address 0x[0-9a-f]+, byte 128 of parameter 0: pass a ptxsim.TensorMap"
    del given[256]
    with pytest.raises(ptxsim.KernelFault, match=message):
        ptxsim.load(ptx_text, "whole").launch(1, 32, [Struct(given)], shared_bytes=512)


@pytest.mark.parametrize("one", [True, False])
def test_a_buffer_of_a_struct_is_that_of_another_parameter(ptx_text, one):
    """Watched for races, and not left out of a launch that only counts."""
    a, b, other, out = (
        Array(np.zeros(32, np.float32), name) for name in ("a", "b", "other", "out")
    )
    args = [Struct({0: a, 8: b}), b if one else other, out]
    kernel = ptxsim.load(ptx_text, "meets")
    if one:
        with pytest.raises(ptxsim.KernelFault, match="race in global memory: reads what thread"):
            kernel.launch(1, 32, args)
    else:
        kernel.launch(1, 32, args)
    nobody = Array(np.zeros(32, np.float32), "nobody", unwritten=True)
    with pytest.raises(
        ptxsim.KernelFault, match=r"read of global memory that nobody wrote .*0 bytes into nobody"
    ):
        kernel.launch(1, 32, [Struct({0: nobody, 8: b}), other, out])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: 5}, "at byte 0 of a struct a int has no size: pass np.int32"),
        (
            {0: np.int64(1), 4: np.int32(1)},
            "at byte 4 of a struct of 16 bytes there is no room for 4 .* taking 8",
        ),
        ({12: np.int64(1)}, "at byte 12 of a struct of 16 bytes there is no room for 8 bytes"),
    ],
)
def test_what_is_no_struct_is_one_line(ptx_text, given, message):
    arrays = [Array(np.zeros(32, np.float32)) for _ in range(2)]
    with fails(message):
        ptxsim.load(ptx_text, "meets").launch(1, 32, [Struct(given), *arrays])


def test_the_command_line(ptx_text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(ptx_text)
    text = (
        "struct:0=out=made.npy=zeros:f32:32;8=ones:f32:32;16=i16:32;24=f32:3;128=tma=zeros:u16:64x16:box=32x8;"
        "256=tex=ones:f32:32"
    )
    options = ["run", "k.ptx", "--entry=whole", "--grid=1", "--block=32", "--shared=512"]
    assert main([*options, "--arg", text]) == 0, capsys.readouterr().err
    assert (np.load("made.npy") == 4).all()
    for wrong, message in (
        ("struct:8", "expected OFFSET=ARG"),
        ("struct:0=5", "'0=5' says no type"),
    ):
        assert main([*options, "--arg", wrong]) == 2
        assert message in capsys.readouterr().err
