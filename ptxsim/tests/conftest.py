"""PTX of the test kernels, compiled once a session."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, settings
from running import KERNELS, execute

from ptxsim.api import Kernel
from ptxsim.compiler import compile_ptx
from ptxsim.errors import PtxError
from ptxsim.parser import parse

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def compiled(ptx):
    """A function: file name and entry to a `Kernel`. Skips where there is no compiler."""

    def kernel(name: str, entry: str) -> Kernel:
        return Kernel(parse(ptx(name)), entry)

    return kernel


@pytest.fixture(scope="session")
def ptx():
    """A function: file name to its PTX. Skips where there is no compiler."""
    texts: dict[str, str] = {}

    def text(name: str) -> str:
        if name not in texts:
            if not shutil.which("g++"):
                pytest.skip("nvcc needs g++")
            try:
                texts[name] = compile_ptx(KERNELS / name)
            except PtxError as error:
                if str(error).startswith("no nvcc"):
                    pytest.skip(str(error))
                raise
        return texts[name]

    return text


@pytest.fixture
def run_lines():
    """A function that runs a few lines of PTX, one thread for each row of the inputs.

    `lines` reads its inputs from the registers %i0, %i1 ... (bits of `width` each) and leaves its results in %o0 ...;
    gives the results as arrays of unsigned integers.
    """
    return execute
