"""PTX text in: what is malformed or not known ends in one clear line; what is odd but legal is
read.
"""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim
from ptxsim.ptx.demangle import demangle, matching, split
from ptxsim.ptx.parser import parse
from ptxsim.ptx.syntax import Immediate, Symbol

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
ENTRY = (
    HEADER
    + ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<4>;\nBODY\nret;\n}\n"
)


def entry(lines: str) -> str:
    """An entry with these lines."""
    return ENTRY.replace("BODY", lines)


def refused(text: str, entry: str | None = None) -> str:
    with pytest.raises(ptxsim.PtxError) as caught:
        ptxsim.load(text + "\n", entry)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("message", "text"),
    {
        "not PTX: the text is empty": "",
        "PTX line 1: unexpected 'hello' at module level": "hello world\n",
        "PTX line 1: PTX version 42.0 is not known (known: 6.x to 9.x)": ".version 42.0\n.target sm_90\n",
        "not PTX: no .version directive": ".target sm_90\n",
        "not PTX: no .target directive": ".version 9.0\n",
        "the PTX has no entry (.entry with a body)": HEADER,
        "PTX line 2: no .target directive before .visible": ".version 9.0\n.visible .entry k() { ret; }\n",
        "PTX line 7: the text ends in the middle of a statement": HEADER
        + ".visible .entry k() {\nret;\n",
        "parameter %a is a register; those of an .entry are": HEADER
        + ".visible .entry k(.reg .b32 %a) {\nret;\n}\n",
        "PTX line 9: expected ';', found 'ret'": entry("add.s32 %r1, %r2"),
        "PTX line 8: register %r9 is not declared": entry("add.s32 %r1, %r9, 1;"),
        "PTX line 8: no label nowhere": entry("bra nowhere;"),
        "PTX line 8: %r1 is not a predicate register": entry("@%r1 bra x;"),
        "PTX line 8: instruction frobnicate.b32 is not known": entry("frobnicate.b32 %r1, %r2;"),
        "PTX line 8: modifier .strange of add.strange.s32 is not supported": entry(
            "add.strange.s32 %r1, %r2, 1;"
        ),
        "multimem.ld_reduce.global.add.f32 is not known": entry(
            "multimem.ld_reduce.global.add.f32 %f1, [%rd1];"
        ),
        "PTX line 8: unexpected character '`'": entry("mov.u32 %r1, ` ;"),
    }.items(),
)
def test_one_clear_line(text, message):
    assert message in refused(text)


def test_unknown_instruction_names_its_source_line():
    text = entry(".loc 1 77 3\nfrobnicate.b32 %r1, %r2;") + '.file 1 "/some/where/kernel.cu"\n'
    assert refused(text) == "kernel.cu:77: instruction frobnicate.b32 is not known"


def test_missing_and_ambiguous_entries():
    text = HEADER + ".visible .entry one() { ret; }\n.visible .entry two() { ret; }\n"
    assert refused(text, "three") == "no entry 'three' in the PTX; it has: one; two"
    assert refused(text) == "the PTX has 2 entries, name one: one; two"
    assert ptxsim.load(text, "tw").name == "two"


def test_every_truncation_is_one_line(compiled):
    """Cut anywhere, PTX is refused in one line or still whole."""
    text = entry(
        "mov.u32 %r1, {0};\n.loc 1 2 3\n@%p bra L;\nL:\nld.global.v2.f32 {%f1, %f2}, [%rd1+8];"
    )
    for cut in range(len(text)):
        try:
            parse(text[:cut])
        except ptxsim.PtxError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "k takes 1 arguments, got 0"),
        ([np.float32(1)], "argument 0 has 4 bytes, the parameter 8"),
        ([np.zeros(4)], "argument 0 has 32 bytes"),
        ([[1]], "argument 0 is a list; wrap arrays in ptxsim.Array"),
        ([1 << 70], "argument 0 = 1180591620717411303424 does not fit 8 bytes"),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(ptxsim.PtxsimError) as caught:
        ptxsim.load(entry("")).launch(1, 32, args)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "block"), [(0, 32), ((1, 2, 3, 4), 32), (1, 1025), (1, (33, 32)), (1, 65)]
)
def test_launches_that_cannot_be(grid, block):
    kernel = ptxsim.load(entry("").replace(") {", ")\n.maxntid 64, 1, 1\n{"))
    with pytest.raises(ptxsim.PtxsimError):
        kernel.launch(grid, block, [0])


def test_declarations():
    module = parse(
        HEADER
        + """
        .extern .shared .align 16 .b8 dynamic[];
        .global .align 4 .b8 text[6] = {104, 101, 108, 108, 111};
        .const .align 4 .f32 values[2][2] = {{0f3F800000, 0f40000000}, {1.5, -2}};
        .global .align 8 .u64 pointers[2] = {text, generic(text)+2};
        .visible .global .u32 plain = 7;
        .section .debug_str { .b8 1, 2 \n $L__info: .b8 3 }
        .visible .entry k() .reqntid 32, 1, 1 .maxnreg 40 { .pragma "nounroll"; ret; }
        """
    )
    v = module.variables
    assert v["dynamic"].extern and v["dynamic"].size == 0 and v["dynamic"].align == 16
    assert v["values"].size == 16 and [i.value for i in v["values"].initial] == [1.0, 2.0, 1.5, -2]
    assert v["pointers"].initial == [Symbol("text"), Symbol("text", 2)]
    assert v["plain"].initial == [Immediate(7)]
    assert module.functions["k"].attributes == {"reqntid": (32, 1, 1), "maxnreg": (40,)}
    assert module.version == (9, 0) and module.target == "sm_90a"


def test_inlined_locations():
    text = (
        entry(".loc 2 5 1, function_name $L__i0, inlined_at 1 40 2\nmov.u32 %r1, 0;")
        + '.file 1 "a.cu"\n.file 2 "b.cuh"\n'
    )
    location = parse(text).functions["k"].code[0].location
    assert str(location) == "b.cuh:5" and str(location.inlined_at) == "a.cu:40"


def test_scopes_have_their_own_names():
    lines = "{ .reg .b32 t; mov.u32 t, 1; { .reg .b32 t; mov.u32 t, 2; } mov.u32 %r1, t; L: bra M; M: }\n{ L: bra L; }"
    code = parse(entry(lines)).functions["k"].code
    assert code[0].operands[0] is code[2].operands[1]
    assert code[1].operands[0] is not code[0].operands[0]


def test_reading_goes_on_where_optional_parts_are_missing():
    text = ".version 8.5\n.target sm_80, debug\n.entry k { ret; }\n"
    ptxsim.load(text).launch(1, 32, [])


# Names of kernels as their source has them: compared with the system's demangler


# as nvcc 13.0 mangles them, with what they are
NAMES = {
    "plain": "plain",
    "_Z4statPi": "stat(int*)",
    "_Z14sgemmVectorizeILi128ELin64ELi8EEviifPKfPfS2_": "sgemmVectorize<128, -64, 8>"
    "(int, int, float, float const*, float*, float*)",
    "_Z1gIfLb1ELj7ELln9EEvPT_RKS0_N1a1b1VIS0_Li4EEEPS7_PVi": "g<float, true, 7, -9>"
    "(float*, float const&, a::b::V<float, 4>, a::b::V<float, 4>*, int volatile*)",
    "_Z1gI6__halfLb0ELj0ELl9EEvPT_RKS1_N1a1b1VIS1_Li4EEEPS8_PVi": "g<__half, false, 0, 9>"
    "(__half*, __half const&, a::b::V<__half, 4>, a::b::V<__half, 4>*, int volatile*)",
    "_Z4packIJifPKcEEvDpT_": "pack<int, float, char const*>(int, float, char const*)",
    "_Z4packIJEEvDpT_": "pack<>()",
    "_Z4modeILN1a1b4ModeE1ELan3EEvPFffiERA4_fP6__half": "mode<(a::b::Mode)1, -3>"
    "(float (*)(float, int), float (&)[4], __half*)",
    "_Z2ttIN1a1b1VEdEvT_IT0_Li3EEPS3_IS4_Li2EE": "tt<a::b::V, double>(a::b::V<double, 3>, a::b::V<double, 2>*)",
    "_Z2fpIXadL_Z2sqfEEEvPf": "fp<&sq>(float*)",
    "_Z2inIfEvN1S2InIT_EE": "in<float>(S::In<float>)",
    "_Z5applyIZ4hostvEUlfE_EvT_Pf": "apply<host()::{lambda(float)#1}>(host()::{lambda(float)#1}, float*)",
    "_ZN1a5innerI5uint4EEvT_NS_1b1FEPKS4_": "a::inner<uint4>(uint4, a::b::F, a::b::F const*)",
    "_ZN55_GLOBAL__N__0f8bd1bb_4_m_cu_12345678_1234567_12345678904anonEPi": "(anonymous namespace)::anon(int*)",
    "_ZSt4swapIiEvRT_S1_": "std::swap<int>(int&, int&)",
}
# cut off, or with what is not covered: they stay as they are
OTHERS = ["_Z", "_Z5tiled", "_Z5tiledILi128", "_Z1fS5_", "_Z1fT9_", "_Z99f", "_ZN1aE_", "_Z1fIi"]


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert demangle(name) == NAMES[name]
    assert NAMES[name].startswith(split(name)[0])


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_understood_stays(name):
    assert demangle(name) in (name, "tiled")


def test_no_cut_or_change_makes_an_error():
    for name in NAMES:
        for at in range(len(name)):
            demangle(name[:at])
            demangle(name[:at] + "I" + name[at:])
            demangle(name[:at] + "E" + name[at + 1 :])


def test_which_entries_a_text_means():
    names = [name for name in NAMES if "1gI" not in name]
    sgemm = names[2]
    for text in (
        sgemm,
        "sgemmVectorize<128,-64,8>",
        "-64",
        "sgemmVectorize<(int)128, -64, 8>",
        "Vect",
    ):
        assert matching(names, text) == [sgemm], text
    assert matching(names, "stat(int*)") == matching(names, "stat") == ["_Z4statPi"]
    assert len(matching(names, "pack")) == 2 and matching(names, "pack<>") == ["_Z4packIJEEvDpT_"]
    assert matching(names, "inner") == ["_ZN1a5innerI5uint4EEvT_NS_1b1FEPKS4_"]
    assert matching(NAMES, "g<__half,false,0u,9l>") == [
        "_Z1gI6__halfLb0ELj0ELl9EEvPT_RKS1_N1a1b1VIS1_Li4EEEPS8_PVi"
    ]
    assert matching(names, "nothing") == []
