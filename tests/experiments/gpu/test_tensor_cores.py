"""The emulator's tensor cores give a GPU's bits: mma.sync and wgmma on random and awkward inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import ROOT

import ptxsim
from experiments.gpu.session import session
from experiments.stages import build, toolchain
from ptxsim.machine import tensor_cores
from ptxsim.ptx.compiler import compile_ptx
from ptxsim.ptx.parser import parse

KERNELS = ROOT / "ptxsim" / "tests" / "kernels"
SOURCES = [KERNELS / "wgmma.cu", Path(__file__).with_name("mma.cu")]
DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
Array = np.ndarray


def cancelling(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Neighbours along the last axis that nearly cancel: what alignment cut off is what is left."""
    x = rng.normal(size=shape)
    x[..., 1::2] = -x[..., ::2] * (1 + 2.0 ** rng.integers(-10, -3, x[..., ::2].shape))
    return x


INPUTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    # Exponents lie far apart, so that much is cut off when terms are aligned.
    "wide": lambda rng, shape: rng.normal(size=shape) * 2.0 ** rng.integers(-10, 5, shape),
    "cancelling": cancelling,
    # Each has few bits, so that sums lie on and next to the values where rounding changes.
    "ties": lambda rng, shape: rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.integers(-7, 4, shape),
    # Some are subnormal in the 16-bit formats.
    "tiny": lambda rng, shape: (
        rng.normal(size=shape) * 2.0 ** rng.choice([-133.0, -127, -60, -20, -15, 0], shape)
    ),
}


def bits(rng: np.random.Generator, kind: str, name: str, shape: tuple[int, ...]) -> Array:
    """Elements of a format, as whole numbers; of kind "any", whatever bits: infinities and NaN,
    too.
    """
    dtype = DTYPES[name]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if kind == "any":
        return rng.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)
    with np.errstate(all="ignore"):
        return INPUTS[kind](rng, shape).astype(np.float32).astype(dtype).view(unsigned)


@pytest.mark.parametrize("kind", ["normal", "wide", "cancelling", "ties"])
def test_the_inputs_tell_these_sums_from_others(kind: str) -> None:
    """From the exact sum rounded once to nearest, and from alignment with a bit more."""
    rng = np.random.default_rng(1)
    a, b = (bits(rng, kind, "f16", (40, 16, 16)).view(np.float16).astype(float) for _ in range(2))
    c = rng.normal(size=(40, 16, 16)).astype(np.float32).astype(float)
    emulated = tensor_cores.multiply(a, b, c, ("f16", "f16"), "f32")
    nearest = (a @ b.transpose(0, 2, 1) + c).astype(np.float32)
    finer = tensor_cores.multiply(a, b, c, ("f16", "f16"), "f32", tensor_cores.Rule(fraction=26))
    assert (emulated != nearest).mean() > 0.02 and (emulated != finer).mean() > 1e-4


# ---- on a card -----------------------------------------------------------------------------------


class Both:
    """Runs a kernel of one block on the card and on the emulator; `out` and the inputs are arrays
    of whole numbers.
    """

    def __init__(self, folder: Path) -> None:
        from experiments.gpu import device

        self.device, self.gpu = device, device.Gpu(folder)
        self.modules = {
            path.stem: device.load_cubin(folder / f"{path.stem}.cubin") for path in SOURCES
        }
        self.parsed = {name: parse((folder / f"{name}.ptx").read_text()) for name in self.modules}

    def differing(
        self, module: str, entry: str, block: int, out: Array, inputs: list[Array]
    ) -> float:
        """The share of elements on which they differ."""
        from cuda.core import LaunchConfig, launch

        kernel = ptxsim.Kernel(self.parsed[module], entry)
        buffers = [self.gpu.upload(x) for x in (out, *inputs)]
        there, config = (
            self.modules[module].get_kernel(kernel.name),
            LaunchConfig(grid=1, block=block),
        )
        launch(self.gpu.stream, config, there, *(buffer.address for buffer in buffers))
        measured = self.gpu.download(buffers[0], out.dtype, out.size).reshape(out.shape)
        emulated = ptxsim.Array(out)
        kernel.launch(1, block, [emulated, *map(ptxsim.Array, inputs)], checks=False)
        return float((measured != emulated.numpy()).mean())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The test kernels, compiled, and the card, held."""
    folder, nvcc = tmp_path_factory.mktemp("tensor"), toolchain.nvcc()
    for path in (ROOT / "experiments" / "gpu" / "harness.cu", *SOURCES):
        build.compile_source(path, folder / path.stem, "sm_90a", nvcc)
    with session(wait_s=600):
        yield Both(folder)


WGMMA = {"f16": "__half", "bf16": "__nv_bfloat16", "tf32": "float", "e4m3": "unsigned char"}
MMA = ["mma_f16_k16", "mma_f16_k8", "mma_f16_f16", "mma_bf16_k16", "mma_bf16_k8"]
MMA += ["mma_tf32_k8", "mma_tf32_k4"]
FP8 = "mma_fp8_k32"


def entry_of(name: str, swizzle: int) -> str:
    """The kernel of wgmma.cu for a format, with operands in a swizzle of shared memory."""
    return f"gemm<{WGMMA[name]}, {swizzle}, false, false, 0>"


def test_what_is_compared_with_a_card_is_there_and_the_emulator_runs_it(tmp_path: Path) -> None:
    """A card is needed only to compare: a kernel that moves is missed without one, too."""
    for path in SOURCES:
        unit = tmp_path / f"{path.stem}.ptx"
        unit.write_text(compile_ptx(path, "sm_90a"))
        module = parse(unit.read_text())
        for entry in [*MMA, FP8] if path.stem == "mma" else [entry_of(name, 0) for name in WGMMA]:
            kernel, out = ptxsim.Kernel(module, entry), ptxsim.Array(np.full(4096, 7, np.uint32))
            words = [
                ptxsim.Array(np.zeros(2048, np.uint32))
                for _ in range(1 if path.stem == "mma" else 2)
            ]
            kernel.launch(1, 32 if path.stem == "mma" else 128, [out, *words], checks=False)
            assert (out.numpy() == 0).any(), entry


@pytest.mark.card
@pytest.mark.parametrize("kind", [*INPUTS, "any"])
@pytest.mark.parametrize("name", WGMMA)
def test_wgmma_gives_the_bits_of_the_card(both: Both, name: str, kind: str) -> None:
    """Four steps one after the other, so that accumulators of all sizes are met; every swizzle."""
    rng = np.random.default_rng(7)
    for turn in range(8):
        a, b = (bits(rng, kind, name, (64, 128 // DTYPES[name].itemsize)) for _ in range(2))
        assert (
            both.differing(
                "wgmma", entry_of(name, turn % 4), 128, np.zeros((64, 64), np.uint32), [a, b]
            )
            == 0
        ), turn


@pytest.mark.card
@pytest.mark.parametrize("kind", [*INPUTS, "any"])
@pytest.mark.parametrize("entry", MMA)
def test_mma_gives_the_bits_of_the_card(both: Both, entry: str, kind: str) -> None:
    rng = np.random.default_rng(8)
    name, out = entry.split("_")[1], np.zeros((32, 4), np.uint32)
    kind_of_c = "any" if kind == "any" else "normal"
    dtype_of_c = "f16" if "f16_f16" in entry else "tf32"
    for turn in range(50):
        words = bits(rng, kind, name, (32, 6 * 4 // DTYPES[name].itemsize)).view(np.uint32)
        c = np.ascontiguousarray(bits(rng, kind_of_c, dtype_of_c, (32, 8))).view(np.uint32)[:, :4]
        words = np.concatenate([words, c], axis=1)
        assert both.differing("mma", entry, 32, out, [words]) == 0, turn


@pytest.mark.card
@pytest.mark.parametrize("kind", [*INPUTS, "any"])
def test_mma_of_8_bit_floats_gives_the_bits_of_the_card(both: Both, kind: str) -> None:
    rng, out = np.random.default_rng(9), np.zeros((32, 4), np.uint32)
    for turn in range(50):
        a, b = bits(rng, kind, "e4m3", (32, 16)), bits(rng, kind, "e5m2", (32, 8))
        c = np.ones((32, 4), np.float32).view(np.uint8)
        words = np.concatenate([a, b, c], axis=1).view(np.uint32)
        assert both.differing("mma", FP8, 32, out, [words]) == 0, turn
