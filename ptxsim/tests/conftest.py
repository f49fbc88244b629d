"""PTX of the test kernels, compiled once a session."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from exec_programs import Programs
from hypothesis import HealthCheck, settings
from running import KERNELS, execute

from ptxsim.errors import PtxError
from ptxsim.interface import Kernel
from ptxsim.ptx.compiler import compile_ptx
from ptxsim.ptx.parser import parse

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def compile_or_skip(path: Path, arch: str = "sm_90a", flags: Sequence[str] = ()) -> str:
    if not shutil.which("g++"):
        pytest.skip("nvcc needs g++")
    try:
        return compile_ptx(path, arch, flags)
    except PtxError as error:
        if str(error).startswith("no nvcc"):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A function: CUDA source, and headers by name, to the path of its PTX, k.ptx, next to k.cu and
    the headers.

    Skips where there is no compiler.
    """

    def build(
        source: str, headers: dict[str, str] | None = None, flags: Sequence[str] = ()
    ) -> Path:
        folder = tmp_path_factory.mktemp("built")
        for name, text in {"k.cu": source, **(headers or {})}.items():
            (folder / name).write_text(text)
        (folder / "k.ptx").write_text(compile_or_skip(folder / "k.cu", flags=flags))
        return folder / "k.ptx"

    return build


@pytest.fixture(scope="session")
def compiled(module):
    """A function: file name, entry and architecture to a `Kernel`.

    Skips where there is no compiler.
    """

    def kernel(name: str, entry: str, arch: str = "sm_90a") -> Kernel:
        return Kernel(module(name, arch), entry)

    return kernel


@pytest.fixture(scope="session")
def module(ptx):
    """A function: file name and architecture to its PTX as it is parsed, once.

    Skips where there is no compiler.
    """
    return functools.cache(lambda name, arch="sm_90a": parse(ptx(name, arch)))


@pytest.fixture(scope="session")
def ptx(tmp_path_factory):
    """A function: file name and architecture to its PTX. Skips where there is no compiler.

    Each is compiled once for all tests, also where pytest-xdist runs them in several processes.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "ptx"
    folder.mkdir(exist_ok=True)

    @functools.cache
    def text(name: str, arch: str = "sm_90a") -> str:
        made = folder / f"{name}.{arch}.ptx"
        if not made.is_file():
            found = compile_or_skip(KERNELS / name, arch)
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
                file.write(found)
            Path(file.name).replace(made)  # whole or not there: another process may look for it now
        return made.read_text()

    return text


@pytest.fixture
def run_lines():
    """A function that runs a few lines of PTX, one thread for each row of the inputs.

    `lines` reads its inputs from the registers %i0, %i1 ... (bits of `width` each) and leaves its
    results in %o0 ...; gives the results as arrays of unsigned integers.
    """
    return execute


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The programs of `programs/`, built once for all tests. Skips where there is no compiler."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exec"
    folder.mkdir(exist_ok=True)
    return Programs(folder)
