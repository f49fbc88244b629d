"""The merged accesses that the rule predicts, against what ptxas makes of the same PTX."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim.count import wavefronts
from ptxsim.count.counters import Stats
from ptxsim.errors import PtxError
from ptxsim.ptx import merging, sass
from ptxsim.ptx.compiler import tool

SOURCE = Path(__file__).parent / "kernels" / "merging.cu"
ENTRIES = re.findall(r"^KERNEL (\w+)\(", SOURCE.read_text(), re.M)
LD = "smsp__inst_executed_op_shared_ld.sum"


def assemble(ptx: Path, arch: str) -> Path:
    """A cubin of a PTX file."""
    cubin = ptx.with_suffix(".cubin")
    subprocess.run(
        [tool("ptxas"), "-O3", "--generate-line-info", f"-arch={arch}", ptx, "-o", cubin],
        check=True,
    )
    return cubin


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def built(request, ptx, tmp_path_factory):
    """Module and cubin of merging.cu, which is disassembled once."""
    if not shutil.which("g++"):
        pytest.skip("nvcc needs g++")
    try:
        tool("nvcc"), tool("nvdisasm")
    except PtxError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("merging") / "merging.ptx"
    path.write_text(ptx(SOURCE.name, request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sass, "read_all", functools.cache(sass.read_all))
        yield ptxsim.load(path, ENTRIES[0]).module, assemble(path, request.param)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_rule_predicts_what_ptxas_merges(built, entry):
    module, cubin = built
    program = ptxsim.Kernel(module, entry).program
    different = [line for line in merging.compare(program, cubin) if not line.agree]
    assert not different
    rule, found = merging.predicted(program), merging.from_cubin(program, cubin)
    assert rule.widths == found.widths
    assert rule.parts == found.parts
    assert not found.dropped


@pytest.mark.parametrize(
    "entry", ["all_four", "a_hole", "pairs", "stores", "rows_in_a_loop", "volatile_loads"]
)
def test_counts_are_the_same_by_rule_and_by_cubin(built, entry):
    module, cubin = built
    totals = []
    for given in (None, cubin):
        counters = ptxsim.Counters()
        kernel = ptxsim.Kernel(module, entry, given)
        arguments = [ptxsim.Array(np.zeros(128)), np.int32(4)][: len(kernel.parameters)]
        kernel.launch(1, 64, arguments, 8192, observers=[counters], checks=False)
        totals.append(counters.totals())
    assert totals[0] == totals[1]


ENTRY = """.visible .entry {name}(.param .u64 out) {{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<64>; .shared .align 16 .b8 s[8192];
mov.u32 %r1, %tid.x; mov.u32 %r4, s; mad.lo.s32 %r3, %r1, 32, %r4;
ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; mad.wide.u32 %rd3, %r1, 4, %rd2;
cvt.rn.f32.u32 %f63, %r1; st.shared.f32 [%r3], %f63; bar.sync 0;
{lines}
st.global.f32 [%rd3], %f0; ret; }}
"""


def words(subset, accesses: str) -> str:
    """An access of each word of a row; what is loaded is added up in %f0."""
    lines = [accesses.format(register=f"%f{word + 1}", offset=4 * word) for word in subset]
    total = (
        [f"fma.rn.f32 %f0, %f0, 0f40400000, %f{word + 1};" for word in subset]
        if "ld" in accesses
        else []
    )
    return "\n".join(
        ["mov.f32 %f0, %f63;", *lines, *total, "bar.sync 0; ld.shared.f32 %f40, [%r3+128];"]
    )


@pytest.mark.parametrize(
    "access",
    ["ld.shared.f32 {register}, [%r3+{offset}];", "st.shared.f32 [%r3+{offset}], %f63;"],
    ids=["ld", "st"],
)
def test_every_set_of_eight_words(access, tmp_path):
    """All 255 sets of words that a thread may take of a row of eight."""
    subsets = [c for count in range(1, 9) for c in itertools.combinations(range(8), count)]
    text = HEADER + "".join(
        ENTRY.format(name=f"k{i}", lines=words(s, access)) for i, s in enumerate(subsets)
    )
    (tmp_path / "sets.ptx").write_text(text)
    try:
        cubin = assemble(tmp_path / "sets.ptx", "sm_90")
        functions = sass.read_all(cubin)
    except PtxError as error:
        pytest.skip(str(error))
    assert len(functions) == len(subsets)
    module = ptxsim.load(text, "k0").module
    for i in range(len(subsets)):
        program = ptxsim.Kernel(module, f"k{i}").program
        rule = merging.predicted(program)
        mine = sorted(
            8 * rule.widths.get(a.pc, 4)
            for a in program.code
            if a.pc not in rule.parts
            and a.name in ("ld.shared.f32", "st.shared.f32")
            and "128" not in str(a.operands)
        )
        found = sorted(
            x.bits
            for x in functions[f"k{i}"].instructions
            if x.name in ("LDS", "STS") and not x.never
        )
        assert mine == found, subsets[i]


def unrolled(tmp_path, start: str, step: str, words: int, iterations: int):
    """A loop that ptxas unrolls wholly, and whose words it may merge across iterations: PTX, cubin
    and function.
    """
    body = "\n".join(f"ld.shared.f32 %f{i}, [%r5+{4 * i - 4}];" for i in range(1, words + 1))
    body += "\n".join(f" fma.rn.f32 %f0, %f{i}, %f0, %f{i};" for i in range(1, words + 1))
    loop = f"""{start} mov.u32 %r6, 0; mov.f32 %f0, 0f00000000;
    L: {step} {body}
    add.s32 %r5, %r5, {4 * words}; add.s32 %r6, %r6, 1; setp.lt.s32 %p1, %r6, {iterations}; @%p1 bra L;"""
    ptx = tmp_path / "loop.ptx"
    ptx.write_text(
        HEADER
        + ENTRY.format(name="k", lines=loop).replace(".reg .b32", ".reg .pred %p<2>; .reg .b32")
    )
    try:
        cubin = assemble(ptx, "sm_90")
        function = sass.read(cubin, "k")
    except PtxError as error:
        pytest.skip(str(error))
    assert not function.loops()
    return ptx, cubin, function


def counted(ptx, cubin) -> dict[str, float]:
    counters = ptxsim.Counters()
    data = [ptxsim.Array(np.zeros(32, np.float32))]
    ptxsim.load(ptx, cubin=cubin).launch(1, 32, data, observers=[counters], checks=False)
    return counters.totals()


@pytest.mark.parametrize(
    ("words", "iterations", "by_rule", "loads"),
    [
        (1, 16, 16, 4),  # four iterations to each load of 128 bits
        (2, 8, 8, 4),  # two, of pairs that the rule has merged already
        (2, 5, 5, 3),  # the last iteration has a load of 64 bits to itself
        (2, 63, 63, 32),
        (4, 8, 8, 8),  # nothing is left to merge
    ],
)
def test_loads_that_merge_across_iterations_are_counted_as_in_the_cubin(
    words, iterations, by_rule, loads, tmp_path
):
    """Each iteration reads so many words further on. Its loads are those executed."""
    ptx, cubin, function = unrolled(tmp_path, "mov.u32 %r5, %r3;", "", words, iterations)
    assert sum(i.name == "LDS" for i in function.instructions) == loads
    assert [counted(ptx, given)[LD] for given in (None, cubin)] == [by_rule, loads]
    by_block, data = ptxsim.Counters(by_block=True), [ptxsim.Array(np.zeros(96, np.float32))]
    kernel = ptxsim.load(ptx, cubin=cubin)
    kernel.launch(3, 32, data, observers=[by_block], checks=False, blocks=[0, 1, 2])
    alone = ptxsim.Counters()
    kernel.launch(1, 32, data, observers=[alone], checks=False)
    each = {name: np.broadcast_to(sums, 3).tolist() for name, sums in by_block.sums().items()}
    assert each == {name: [total] * 3 for name, total in alone.sums().items()}
    assert max(s.width for s in alone.by_instruction() if s.kind == "ld" and s.executed) == 16


@pytest.mark.parametrize(
    ("pitch", "words", "iterations"), [(37, 8, 8), (34, 8, 8), (33, 4, 12), (39, 6, 16), (36, 8, 8)]
)
def test_words_that_merge_otherwise_in_each_copy_of_a_loop_are_counted_as_in_the_cubin(
    pitch, words, iterations, tmp_path
):
    """Rows of a pitch that is no multiple of 16 bytes begin elsewhere in a piece of 16 bytes in
    each iteration.
    """
    step = f"mad.lo.s32 %r5, %r6, {4 * pitch}, %r3;"
    ptx, cubin, function = unrolled(tmp_path, "", step, words, iterations)
    lanes = np.arange(32)[None] * 32
    waves = loads = 0
    for i in function.instructions:
        if i.name == "LDS":
            offset = int((re.search(r"\+0x(\w+)", i.operands[1]) or ["", "0"])[1], 16)
            waves += int(
                wavefronts.shared(lanes + offset, np.ones((1, 32), bool), i.bits // 8)[0].sum()
            )
            loads += 1
    totals = counted(ptx, cubin)
    assert (totals[LD], totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]) == (
        loads,
        waves,
    )


def test_a_run_of_iterations_splits_as_the_machine_code_goes_through_it():
    """A loop unrolled four times, with two loads of 128 bits; what is left over goes by pairs, then
    one by one.
    """
    unrolled = merging.Unrolled(step=8, tiers=((16, 2),), alone=True)
    assert list(unrolled.split(11)) == [
        (0, 16),
        (2, 16),
        (4, 16),
        (6, 16),
        (8, None),
        (9, None),
        (10, None),
    ]
    # Two runs of three iterations, where addresses begin again, are not one of six.
    counters, stats = (
        ptxsim.Counters(),
        Stats(ptxsim.load(HEADER + ".entry k() { ret; }").program.code[0]),
    )
    for at in (0, 8, 16, 0, 8, 16):
        counters._next(
            (0, 0, None), stats, unrolled, np.array([at]), {None: (1, 1, 1, {}), 16: (1, 2, 2, {})}
        )
    assert len(counters.by_instruction()) == 0 and stats.requests == 6
    thrice = merging.Unrolled(step=4, tiers=((16, 2), (8, 1)), alone=True)
    assert list(thrice.split(11)) == [(0, 16), (4, 16), (8, 8), (10, None)]
    cycle = merging.Cycle(step=20, widths=(16, 0, 4), alone=True)
    assert list(cycle.split(7)) == [(0, 16), (2, 4), (3, 16), (5, 4), (6, None)]
    assert list(merging.Unrolled(step=8, tiers=((16, 1),), alone=False).split(3)) == [
        (0, 16),
        (2, 16),
    ]


def test_a_cubin_of_other_ptx_is_refused(built):
    """The cubin is of PTX in which two kernels have changed names."""
    module, cubin = built
    text = cubin.with_suffix(".ptx").read_text()
    names = {"pairs": "all_four", "all_four": "pairs"}
    text = re.sub(r"\b(pairs|all_four)(?=\(|_param)", lambda found: names[found[1]], text)
    changed = cubin.with_name("renamed.ptx")
    changed.write_text("//\n//\n" + text)
    other = assemble(changed, re.search(r"\.target (\w+)", text)[1])
    with fails("made from other PTX", PtxError):
        ptxsim.Kernel(module, "all_four", other)
