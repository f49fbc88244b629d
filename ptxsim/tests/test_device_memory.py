"""Device memory that outlives launches: what is written in it, freed, and out of bounds."""

from __future__ import annotations

import numpy as np
import pytest
from running import fails

from ptxsim.engine.device_memory import MAX_SPANS, OF_LAUNCH, DeviceMemory
from ptxsim.interface import Kernel
from ptxsim.machine.memory import GLOBAL_BASE
from ptxsim.ptx.parser import parse

PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 added = 5;
.global .align 8 .u64 there = added;
.visible .entry copy(.param .u64 to, .param .u64 from, .param .u32 n) {
    .reg .b32 %r<4>; .reg .b64 %d<5>; .reg .pred %p;
    ld.param.u64 %d1, [to]; ld.param.u64 %d2, [from]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra end;
    mul.wide.u32 %d3, %r2, 4;
    add.s64 %d1, %d1, %d3;
    add.s64 %d2, %d2, %d3;
    ld.global.u32 %r3, [%d2];
    ld.global.u64 %d4, [there];
    ld.global.u32 %r1, [%d4];
    add.u32 %r3, %r3, %r1;
    st.global.u32 [%d1], %r3;
end:
    ret;
}
"""
START = GLOBAL_BASE + OF_LAUNCH


@pytest.fixture
def memory():
    return DeviceMemory(np.zeros(OF_LAUNCH + (1 << 20), np.uint8))


@pytest.fixture
def copy(memory):
    """A function: to, from and count to a launch."""
    module = parse(PTX)
    kernel = Kernel(module, "copy", memory=memory)
    addresses = {"added": START, "there": START + 4096}
    for name, address in addresses.items():
        memory.allocated(address, module.variables[name].size, name)
    memory.place(module, module.variables.values(), addresses)

    def launch(to: int, source: int, n: int = 32) -> None:
        memory.finish()
        args = [to.to_bytes(8, "little"), source.to_bytes(8, "little"), n.to_bytes(4, "little")]
        kernel.launch(1, 32, args)

    return launch


def test_launches_see_what_earlier_ones_wrote(memory, copy):
    a, b, c = (START + 4096 * n for n in (2, 3, 4))
    for address in (a, b, c):
        memory.allocated(address, 128, "buffer")
    memory.write(a, np.arange(32, dtype=np.uint32))
    memory.written(a, 128)
    copy(b, a)
    copy(c, b)
    assert (memory.read(c, 128).view(np.uint32) == np.arange(32) + 10).all()
    memory.write(START, np.array([100], np.uint32))  # a variable is where its initialiser put it
    copy(c, a, 1)
    assert memory.read(c, 4).view(np.uint32)[0] == 100


def test_what_nobody_wrote(memory, copy):
    a, b = START + 8192, START + 12288
    memory.allocated(a, 128, "source")
    memory.allocated(b, 128, "target")
    with fails(r"read of global memory that nobody wrote .* 0 bytes into source"):
        copy(b, a)
    memory.written(a, 64)
    with fails(r"nobody wrote .* 64 bytes into source"):
        copy(b, a)
    copy(b, a, 16)
    with fails(r"nobody wrote .* 64 bytes into target"):
        copy(a, b)  # the launch before wrote half of it
    memory.written(b, 4, pitch=8, rows=16)
    assert memory._unwritten[b] == [(b + at, b + at + 4) for at in range(68, 128, 8)]
    memory.written(b, 1, pitch=1, rows=128)
    copy(a, b)
    memory.allocated(START + 16384, 65536 * 4, "large")
    memory.written(START + 16384, 1, pitch=2, rows=MAX_SPANS + 1)
    assert START + 16384 not in memory._unwritten  # too many pieces to keep


def test_memory_is_named_by_who_has_it_now(memory):
    at = START + (16 << 10) - GLOBAL_BASE
    memory.allocated(GLOBAL_BASE + at, 512, "first")
    memory.release(GLOBAL_BASE + at)
    memory.allocated(GLOBAL_BASE + at, 256, "second")
    memory.finish()
    assert memory.nearest(at + 4) == "4 bytes into second"
    assert memory.nearest(at + 260) == "260 bytes into first, which was freed"


def test_memory_of_a_launch(memory):
    memory.allocated(START, 128, "buffer")
    address = memory.allocate(100, "its own")
    memory.finish()
    assert GLOBAL_BASE < address < START and [a.name for a in memory.allocations] == [
        "its own",
        "buffer",
    ]
    with fails("no room for"):
        memory.allocate(OF_LAUNCH, "too much")
