"""Tests of CUDA kernels with pytest, without a GPU: no faults, at most so many bank conflicts and
sectors.

    # conftest.py
    pytest_plugins = ["ptxsim.testing"]

    # test_transpose.py
    def test_transpose(cuda):
        kernel = cuda.load("transpose.cu", flags=["-DPAD=1"])
        to, source = cuda.zeros((64, 64)), cuda.random((64, 64))
        result = cuda.launch(kernel, grid=(2, 2), block=(32, 8), args=[to, source, 64, 64])
        result.assert_no_faults()
        result.assert_conflicts(at_most=0)
        result.assert_sectors(at_most=1024)
        assert (to.numpy() == source.numpy().T).all()

`examples/ci` has such a test and a workflow that runs it. Without pytest, `launch` gives the same
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .count.counters import Counters, Stats
from .engine.kernel import Launch
from .errors import PtxsimError
from .interface import Kernel, load
from .machine.arrays import Array
from .machine.faults import Accepted
from .machine.launch import Checks, Limits

if TYPE_CHECKING:
    import pytest


def _require(holds: bool, message: str) -> None:
    """Assert a condition, with only the message shown where pytest rewrites assertions."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(message)


@dataclass(frozen=True)
class Result:
    """The result of a launch, whose assertions fail with the lines of the source that are to
    blame.
    """

    kernel: Kernel
    launch: Launch
    counters: Counters

    def assert_no_faults(self) -> None:
        """Assert that there were no faults, except accepted ones."""
        faults = [str(fault) for fault in self.launch.faults if fault.accepted is None]
        _require(not faults, f"{len(faults)} faults:\n" + "\n".join(faults))

    def assert_no_notes(self) -> None:
        """Assert that there were no notes."""
        _require(not self.launch.notes, "\n".join(self.launch.notes))

    def assert_conflicts(
        self, at_most: int, line: int | None = None, file: str | None = None
    ) -> None:
        """Assert a maximum of bank conflicts of shared memory: wavefronts beyond those that would do.
        `line`: of that line of the source alone (of the kernel's own file, or `file`)."""
        self._assert(
            "bank conflicts",
            at_most,
            line,
            file,
            lambda s: s.conflicts if s.space == "shared" else 0,
        )

    def assert_sectors(
        self, at_most: int, line: int | None = None, file: str | None = None
    ) -> None:
        """Assert a maximum of sectors of 32 bytes that accesses of global memory move, cp.async and
        bulk copies among them."""
        self._assert("sectors", at_most, line, file, lambda s: s.sectors)

    def assert_excess_sectors(
        self, at_most: int, line: int | None = None, file: str | None = None
    ) -> None:
        """Assert a maximum of sectors beyond those that would do for the bytes that are wanted."""
        self._assert("sectors too many", at_most, line, file, lambda s: s.excess_sectors)

    def assert_total(self, counter: str, at_most: float) -> None:
        """Assert a maximum of a counter by Nsight Compute's name."""
        totals = self.counters.totals()
        _require(counter in totals, f"no counter {counter!r}; there are: {', '.join(totals)}")
        message = f"{counter} is {totals[counter]:,.10g}, more than {at_most:,.10g}"
        _require(totals[counter] <= at_most, message)

    def _assert(
        self,
        what: str,
        at_most: int,
        line: int | None,
        file: str | None,
        cost: Callable[[Stats], float],
    ) -> None:
        by_line = {
            (name, number): sum(cost(s) for s in stats)
            for (name, number), stats in self.counters.by_line().items()
            if line in (None, number) and (file is None or Path(name).name == Path(file).name)
        }
        if line is not None and not by_line:
            raise PtxsimError(
                f"{self.kernel.title}: line {line} of {file or 'its source'} accesses no memory"
            )
        total = sum(by_line.values())
        if line is None and file is None:
            # Code without a line of the source counts, too.
            total = sum(cost(s) for s in self.counters.by_instruction())
        rows = sorted(((n, key) for key, n in by_line.items() if n), reverse=True)
        blamed = "".join(f"\n  {Path(name).name}:{number}: {n:,.10g}" for n, (name, number) in rows)
        message = f"{self.kernel.title}: {total:,.10g} {what}, more than {at_most:,}{blamed}"
        _require(total <= at_most, message)


def launch(
    kernel: Kernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    *,
    accept: Iterable[Accepted] = (),
    constants: Mapping[str, Any] | None = None,
    cluster: int | Sequence[int] | None = None,
    checks: Checks | bool = True,
    limits: Limits | None = None,
) -> Result:
    """Run a kernel to its end (`Kernel.launch`), whatever faults it has, and count. Raises
    `PtxsimError` for what cannot be run."""
    counters = Counters()
    done = kernel.launch(
        grid,
        block,
        args,
        shared_bytes,
        observers=[counters],
        checks=checks,
        limits=limits,
        constants=constants,
        cluster=cluster,
        stop_at_first=False,
        accept=tuple(accept),
    )
    return Result(kernel, done, counters)


class Cuda:
    """The fixture `cuda`."""

    def __init__(self, folder: Path, loaded: dict[tuple[Any, ...], Kernel]) -> None:
        self.folder, self._loaded = folder, loaded
        self.launch = launch

    def load(
        self,
        source: str | Path,
        entry: str | None = None,
        arch: str = "sm_90a",
        flags: Sequence[str] = (),
    ) -> Kernel:
        """Return a kernel (`ptxsim.load`), compiled once a session.

        A relative path is one from the test's own folder.
        """
        path = self.folder / source
        key = (path, entry, arch, tuple(flags))
        if key not in self._loaded:
            self._loaded[key] = load(path, entry, arch=arch, flags=(*flags, f"-I{path.parent}"))
        return self._loaded[key]

    def zeros(
        self, shape: int | Sequence[int], dtype: Any = np.float32, name: str = "zeros"
    ) -> Array:
        """Return an array of zeros on the device."""
        return Array(np.zeros(shape, dtype), name)

    def random(
        self,
        shape: int | Sequence[int],
        dtype: Any = np.float32,
        seed: int = 0,
        name: str = "random",
    ) -> Array:
        """Return an array uniform in [-1, 1); of whole numbers in [0, 100)."""
        generator = np.random.default_rng(seed)
        whole = np.dtype(dtype).kind in "iu"
        values = generator.integers(0, 100, shape) if whole else generator.uniform(-1, 1, shape)
        return Array(values.astype(dtype), name)


try:
    import pytest
except ImportError:
    # `launch` needs no pytest.
    pass
else:

    @pytest.fixture(scope="session")
    def _cuda_kernels() -> dict[tuple[Any, ...], Kernel]:
        return {}

    @pytest.fixture
    def cuda(request: pytest.FixtureRequest, _cuda_kernels: dict[tuple[Any, ...], Kernel]) -> Cuda:
        """Loads and launches CUDA kernels on the emulator."""
        return Cuda(request.path.parent, _cuda_kernels)
