"""Names of kernels as their source has them: compared with the system's demangler."""

from __future__ import annotations

import pytest

from ptxsim.ptx.demangle import demangle, matching, split

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
