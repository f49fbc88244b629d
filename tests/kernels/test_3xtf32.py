"""What fp32 numbers at the ends of their range become in the kernels that split them, on the
emulator: as fp32 gives them, or as docs/kernels/sgemm_cu.md says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import guarded, inside
from kernels import catalogue
from kernels.catalogue import Problem

SPLITS = [f"sgemm_3xtf32_{kind}" for kind in ("mma", "mma_outside", "wgmma", "wgmma_outside")]
M = N = 128
K = 64
Run = Callable[[np.ndarray, np.ndarray], np.ndarray]


@pytest.fixture(scope="module", params=SPLITS[1::2])
def run(request: pytest.FixtureRequest, ptx) -> Run:
    """C = A B of a kernel; its name is `run.name`."""

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        device, kernel = EmulatedDevice(ptx(request.param)), catalogue.load().find(request.param)
        matrices = (a, b, np.full((M, N), np.nan))
        buffers = [guarded(x.astype(np.float32), x.shape[1]) for x in matrices]
        after = device.run(kernel, Problem(M, N, K, K, N, N), buffers, 0)
        return inside(after[2], M, N, N)

    product.name = request.param
    return product


def matrices() -> tuple[np.ndarray, np.ndarray]:
    """A and B with magnitudes from 0.5 to 1, of either sign, in float64."""
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape) for shape in ((M, K), (K, N)))
    return a, b


def worst(run: Run, of_a: list[float], of_b: list[float]) -> dict[tuple[float, float], float]:
    """The largest error, in units of 2^-24 |A||B|, for each scale of A with each of B: in one
    product, of which each scale has a band of A's rows or of B's columns."""
    rows, columns = (np.repeat(scales, M // len(scales)) for scales in (of_a, of_b))
    a, b = matrices()
    a, b = (x.astype(np.float32).astype(np.float64) for x in (a * rows[:, None], b * columns))
    error = np.abs(run(a, b) - a @ b) / (2.0**-24 * (np.abs(a) @ np.abs(b)))
    return {(x, y): float(error[np.ix_(rows == x, columns == y)].max()) for x in of_a for y in of_b}


def test_scaled_numbers_keep_their_accuracy(run: Run) -> None:
    found = worst(run, [1, 1e-20, 1e-34, 1e37], [1, 1e-34, 1e20, 1e20])
    for pair in ((1e-20, 1), (1, 1e20), (1e-20, 1e20), (1e-34, 1), (1, 1e-34), (1e37, 1)):
        assert found[pair] < 8, pair


def test_products_that_overflow_are_inf_or_nan_in_every_element(run: Run) -> None:
    a, b = matrices()
    assert not np.isfinite(run(1e20 * a, 1e20 * b)).any()


@pytest.mark.parametrize("matrix", ["A", "B"])
def test_inf_and_nan_reach_their_row_or_column_and_no_further(run: Run, matrix: str) -> None:
    a, b = matrices()
    values = {3: np.inf, 40: -np.inf, 77: np.nan}  # by row of A or column of B
    lines, factors = (a[:, 5], b[5]) if matrix == "A" else (b[5], a[:, 5])
    lines[list(values)] = list(values.values())
    c = run(a, b) if matrix == "A" else run(a, b).T
    assert np.isfinite(np.delete(c, list(values), 0)).all()
    assert not np.isfinite(c[list(values)]).any()
    for index, value in values.items():
        reached = c[index]
        if np.isnan(value):
            assert np.isnan(reached).all()
            continue
        signs = np.sign(reached) == np.sign(value * factors)  # of NaN, too, this is not so
        infinite = np.isinf(reached)
        assert signs[infinite].all()
        # else NaN, where fp32 has Inf
        assert infinite.any() == ("wgmma" in run.name and matrix == "A")


def test_nothing_picks_them_but_their_names() -> None:
    picked = {
        variant.name
        for entry in catalogue.load().values()
        if isinstance(entry, catalogue.Dispatcher) and entry.name != "sgemm_3xtf32_best"
        for variant in entry.variants
    }
    assert picked and not picked & set(SPLITS)
