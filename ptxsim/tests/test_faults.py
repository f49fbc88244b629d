"""Each memory check: a planted fault is reported, with its kernel, line, block and thread; without
it all is well.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptxsim

# kernel: what the message must say, and the thread
FAULTS = {
    "global_bounds": (
        r"out-of-bounds global store of 4 bytes .* 0 bytes past the end of a \(256 bytes\)",
        63,
    ),
    "shared_bounds": (
        r"out-of-bounds shared store of 4 bytes at shared address 0x500: 0 bytes past the end",
        63,
    ),
    "local_bounds": (r"out-of-bounds local load of 4 bytes", 32),
    "misaligned": (r"misaligned 16-byte store at global address 0x2000", 0),
    "unwritten": (
        r"read of shared memory that nobody wrote \(shared address 0x414, 20 bytes into s\)",
        58,
    ),
    "race_raw": (
        r"race: reads what thread \(63, 0, 0\) writes at faults.cu:\d+, without a barrier between",
        0,
    ),
    "race_war": (r"race: reads what thread \(63, 0, 0\) writes at faults.cu:\d+", 0),
    "race_waw": (r"race: writes what thread \(32, 0, 0\) writes", 0),
    "warp_race": (r"race: reads what thread \(16, 0, 0\) writes", 0),
    "deadlock": (
        r"deadlock: barrier 1 .* thread \(32, 0, 0\) waits at another barrier at faults.cu:\d+",
        0,
    ),
    "split_barrier": (
        r"barrier reached by part of a warp here, by the other part at faults.cu:\d+",
        1,
    ),
    "early_read": (r"read before the wait: a cp.async of thread \(63, 0, 0\)", 0),
    "copy_race": (r"race: reads what thread \(63, 0, 0\) writes", 0),
    "pipeline": (r"race: reads what thread \(63, 0, 0\) writes", 0),
    "endless": (r"more than 20,000 instructions executed: an endless loop, or a long one", 0),
    "assert": (
        r"assertion `a\[threadIdx.x\] != 17 \|\| n == 0` failed at .*faults.cu:\d+ in void assert_bad",
        17,
    ),
    "trap": (r"trap$", 3),
    "dynamic_bounds": (
        r"out-of-bounds shared store of 4 bytes at shared address 0x504: 4 bytes past the end",
        16,
    ),
}
INTEGER = ("local_bounds", "endless", "assert", "trap")


def launch(compiled, name: str, **options):
    kernel = compiled("faults.cu", name)
    dtype = np.int32 if name.rsplit("_", 1)[0] in INTEGER else np.float32
    array = ptxsim.Array(np.arange(64, dtype=dtype), "a")
    options.setdefault("shared_bytes", 256 if name.startswith("dynamic") else 0)
    kernel.launch(1, 64, [array, 64], limits=ptxsim.Limits(steps=20_000), **options)
    return array.numpy()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_reported(compiled, name):
    message, thread = FAULTS[name]
    with pytest.raises(ptxsim.PtxsimError) as caught:
        launch(compiled, f"{name}_bad")
    text = str(caught.value)
    assert "\n" not in text
    assert re.search(message, text), text
    assert re.match(
        rf"{name}_bad: faults\.cu:\d+(, called from faults\.cu:\d+)?: block \(0, 0, 0\), thread \({thread}, 0, 0\): ",
        text,
    ), text


@pytest.mark.parametrize("name", FAULTS)
def test_same_kernel_without_the_fault_runs(compiled, name):
    launch(compiled, f"{name}_good")


@pytest.mark.parametrize("name", ["race_raw", "race_war", "race_waw", "warp_race", "unwritten"])
def test_checks_can_be_switched_off(compiled, name):
    launch(compiled, f"{name}_bad", checks=False)


def test_results_of_clean_kernels(compiled):
    x = np.arange(64, dtype=np.float32)
    assert (launch(compiled, "race_raw_good") == x[::-1]).all()
    assert (launch(compiled, "early_read_good") == x[::-1]).all()
    assert (launch(compiled, "pipeline_good") == 64 * x[::-1]).all()
