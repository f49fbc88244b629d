"""The table of GPUs, and the one reading of an architecture's name."""

import pytest
from running import fails

from ptxsim import gpus
from ptxsim.count import bounds, machines
from ptxsim.count.occupancy import occupancy
from ptxsim.ptx import sizes


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
