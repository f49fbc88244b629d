"""Tries whether the clocks can be locked, at the start of a run that was asked to, or says why they
are not.

python -m experiments.stages.try_lock --lock --out manifest.json
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from contracts import run_command
from experiments.gpu import clocks, discovery
from experiments.gpu.session import session
from experiments.stages import store

logger = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Try whether the clocks can be locked, or say why they are not."
    )
    parser.add_argument(
        "--lock", action="store_true", help="lock them for a moment; an error where that is refused"
    )
    clocks.lock_arguments(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="written: a manifest, with why they are not locked"
    )
    options = parser.parse_args()
    reasons = [clocks.NOT_ASKED]
    if options.lock:
        with (
            session(),
            discovery.nvml() as handle,
            clocks.locked(handle, options.sm_mhz, options.memory_mhz) as target,
        ):
            logger.info(f"clocks can be locked: {target.clock_source}")
        reasons = []
    store.write_manifest(options.out, [], left_out={"locked": reasons})


if __name__ == "__main__":
    run_command(main)
