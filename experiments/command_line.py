"""Options that commands share, each once."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernels import catalogue


def add_build_dir(parser: argparse.ArgumentParser) -> None:
    """--build-dir, the folder of the cubins, and --tuned, which says which templates the tuned ones among them have."""
    parser.add_argument("--build-dir", required=True, type=Path, help="folder of the cubins and their PTX")
    catalogue.add_tuned_argument(parser)


def add_variant(parser: argparse.ArgumentParser) -> None:
    """The name of one entry of the catalogue."""
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")


def add_checked(parser: argparse.ArgumentParser) -> None:
    """--checked, the correctness table without whose consent nothing is timed or profiled."""
    parser.add_argument("--checked", type=Path, help="its checks.csv; a variant that failed there is not measured")
