"""The model of issue: what is read of the register banks, and how long that takes."""

import numpy as np
import pytest

from ptxsim.count import block_counts as executions
from ptxsim.count import register_banks as issue
from ptxsim.ptx import sass
from ptxsim.ptx.sass import Instruction


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
