"""Markers that leave tests out by themselves, and what many tests read: real builds and the
archived measurements.
"""

from __future__ import annotations

import datetime
import gc
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from helpers import ARCH, ARCHIVE, ROOT, copy_tree, json_dict, snakemake
from trees import OF_SOME

from contracts import write_text
from contracts.rows import Provenance, Variants
from experiments.gpu import discovery
from experiments.stages import build, provenance
from kernels import catalogue
from ptxsim.ptx.compiler import compile_ptx

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the tests on a GPU do without
    pass
else:
    settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any machine")

OF_GPU = ROOT / "tests" / "experiments"  # the folder that `make test-gpu` collects


def pytest_collection_finish() -> None:
    """Python no longer looks for unused memory among all modules and tests: they stay to the
    end.
    """
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--gpu-report FILE`, for `make test-gpu`."""
    help = "write commit, date, GPU, counts and failures"
    parser.addoption("--gpu-report", type=Path, metavar="FILE", help=help)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the report of the tests on a GPU: four lines of what ran where, then a line for each
    failure.
    """
    path, stats = config.getoption("gpu_report"), terminalreporter.stats
    if path is None:
        return
    here = discovery.gpu()
    bad = [*stats.get("failed", ()), *stats.get("error", ())]
    commit = provenance.git("rev-parse", "HEAD") or "unknown"
    passed, skipped = (len(stats.get(name, ())) for name in ("passed", "skipped"))
    lines = [
        f"commit: {commit}{'' if provenance.clean_commit() else ', changed'}",
        f"date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"GPU: {here.name if here else 'none'}",
        f"passed: {passed}, failed: {len(bad)}, skipped: {skipped}",
    ]
    for report in bad:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash else str(report.longrepr)).strip().splitlines() or [""]
        lines.append(f"FAILED {report.nodeid}: {reason[0][:200]}")
    write_text(path, "\n".join(lines) + "\n")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip `gpu` tests where there is none, `card` ones on an emulated one, and `slow` ones unless
    -m speaks of them.

    Whatever needs a card needs a GPU: `-m gpu` chooses it, too.
    """
    no_gpu = pytest.mark.skip(reason="needs a GPU")
    no_card = pytest.mark.skip(reason="needs a real card: this GPU is emulated")
    not_asked = pytest.mark.skip(reason="slow: run with -m slow")
    for item in items:
        if card := item.get_closest_marker("card"):
            item.add_marker("gpu")
        if item.get_closest_marker("gpu"):
            if not item.path.is_relative_to(OF_GPU):
                where = f"`make test-gpu` looks in {OF_GPU} alone"
                raise pytest.UsageError(f"{item.nodeid} needs a GPU; {where}")
            if discovery.gpu() is None:
                item.add_marker(no_gpu)
            elif card and discovery.rehearsing():
                item.add_marker(no_card)
        if item.get_closest_marker("slow") and "slow" not in config.getoption("markexpr"):
            item.add_marker(not_asked)


@pytest.fixture(scope="session")
def archive() -> Path:
    """The archive that stands in; not to be written to."""
    if not ARCHIVE.is_dir():
        pytest.skip(f"no {ARCHIVE.relative_to(ROOT)}: nothing is archived in this checkout")
    return ARCHIVE


@pytest.fixture(scope="session")
def archived_gpu(archive: Path) -> str:
    """The GPU that was archived, as figures and documents name it."""
    gpu: str = json_dict(archive / "provenance.json", Provenance)["gpu"]
    return gpu


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """A function: a name and what fills a folder, to that folder, filled by the first of
    pytest-xdist's processes.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def of(name: str, fill: Callable[[Path], None]) -> Path:
        with FileLock(base / f".{name}.lock"):
            if not (base / f".{name}.filled").exists():
                fill(base / name)
                (base / f".{name}.filled").touch()
        return base / name

    return of


@pytest.fixture(scope="session")
def builds(once: Callable[..., Path]) -> Callable[..., Path]:
    """A function: names in the catalogue to the folder in which they are built for sm_90a; not to
    be written to.
    """
    folder = once("builds", Path.mkdir)

    def of(*names: str) -> Path:
        for name in names:
            with FileLock(folder / f".{name}.lock"):
                if not (folder / f"{name}.json").is_file():
                    build.build_variant(name, ARCH, folder)
        return folder

    return of


@pytest.fixture(scope="session")
def ptx(builds: Callable[..., Path]) -> Callable[[str], Path]:
    """A function: a name in the catalogue to the folder with its PTX, for tests that need no cubin;
    see `builds`.
    """
    folder = builds() / "ptx"
    folder.mkdir(exist_ok=True)

    def of(name: str) -> Path:
        with FileLock(folder / f".{name}.lock"):
            if (builds() / f"{name}.json").is_file():
                return builds()
            if not (folder / f"{name}.ptx").is_file():
                unit = folder / f"{name}.cu"
                unit.write_text(catalogue.load().kernels[name].translation_unit())
                text = compile_ptx(unit, ARCH, [f"-I{catalogue.ROOT}"])
                (folder / f"{name}.ptx").write_text(text)
        return folder

    return of


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, builds: Callable[..., Path]) -> Path:
    """A folder with real builds of sgemm_vectorized and hgemm_naive_bf16 for sm_90a, and nothing
    else.
    """
    folder = tmp_path_factory.mktemp("build")
    for name in ("sgemm_vectorized", "hgemm_naive_bf16"):
        for path in builds(name).glob(f"{name}.*"):
            shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in for NVML, by the name that pynvml loads."""
    folder = tmp_path_factory.mktemp("nvml")
    source, out = ROOT / "tests" / "nvml" / "stand_in.c", folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-Wall", "-shared", "-fPIC", "-o", str(out), str(source)], check=True)
    return folder


@pytest.fixture(scope="session")
def variants_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue of this tree as variants.csv."""
    from contracts import write_rows

    path = tmp_path_factory.mktemp("catalogue") / "variants.csv"
    write_rows(path, Variants, catalogue.load().rows())
    return path


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which `snakemake all` was made of four kernels and an archive; not
    to be written to.
    """
    base = tmp_path_factory.getbasetemp()
    tree = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pipeline"
    with FileLock(f"{tree}.lock"):
        if not (tree / "results" / "no-gpu" / "passed.txt").is_file():
            shutil.rmtree(tree, ignore_errors=True)
            # nobody answers there
            offline = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
            done = snakemake(copy_tree(tree), "all", *OF_SOME, **offline)
            assert done.returncode == 0, done.stdout + done.stderr
    return tree
