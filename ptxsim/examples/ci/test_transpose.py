"""A kernel's results, faults, bank conflicts and sectors, on any machine."""

import pytest

from ptxsim import Array
from ptxsim.testing import Cuda, Result


def run(cuda: Cuda, pad: int) -> tuple[Result, Array, Array]:
    to, source = cuda.zeros((64, 96)), cuda.random((96, 64))
    kernel = cuda.load("transpose.cu", flags=[f"-DPAD={pad}"])
    return cuda.launch(kernel, grid=(2, 3), block=(32, 8), args=[to, source, 96, 64]), to, source


def test_transpose(cuda: Cuda) -> None:
    result, to, source = run(cuda, pad=1)
    result.assert_no_faults()
    result.assert_no_notes()
    result.assert_conflicts(at_most=0)
    result.assert_sectors(at_most=2 * 96 * 64 * 4 // 32)
    assert (to.numpy() == source.numpy().T).all()


def test_without_padding_its_column_conflicts(cuda: Cuda) -> None:
    result, *_ = run(cuda, pad=0)
    with pytest.raises(
        AssertionError, match=r"5,952 bank conflicts, more than 0\n  transpose.cu:10: 5,952"
    ):
        result.assert_conflicts(at_most=0)
