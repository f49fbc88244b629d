"""What studies share whose launches ncu counts."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts import UserError
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages.profile import under_ncu

if TYPE_CHECKING:
    from experiments.gpu.device import Gpu


def built(build_dir: Path, name: str) -> Path:
    """Return the path of a file that was built of a study's source."""
    path = build_dir / name
    if not path.is_file():
        source = f"experiments/studies/{path.stem}.cu"
        raise UserError(f"{path}: not built; python -m experiments.stages.build --source {source}")
    return path


def add_counted(parser: argparse.ArgumentParser) -> None:
    """Add the options of a study whose launches ncu counts."""
    add_build_dir(parser)
    parser.add_argument("--out", type=Path, help="the table that is written")
    parser.add_argument("--launch", action="store_true", help="only launch them: what ncu runs")


def counted(
    options: argparse.Namespace,
    study: str,
    metrics: Sequence[str],
    launch_all: Callable[[Path], None],
) -> list[dict[str, Any]] | None:
    """Return the launches of a study as ncu counts them; with --launch, make them and return None."""
    with session():
        if options.launch:
            launch_all(options.build_dir)
            return None
        command = ["-m", "experiments.studies", study, "--launch"]
        return under_ncu([*command, "--build-dir", str(options.build_dir)], metrics)


@contextlib.contextmanager
def profiled(gpu: Gpu) -> Iterator[None]:
    """Mark the launches of the block for the profiler."""
    from cuda.bindings import driver

    from experiments.gpu.device import cuda

    gpu.sync()
    cuda(driver.cuProfilerStart())
    yield
    gpu.sync()
    cuda(driver.cuProfilerStop())
