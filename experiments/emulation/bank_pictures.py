"""Chooses accesses to shared memory, with and without what mends their bank conflicts, for pictures
of their banks.

    python -m experiments.emulation.bank_pictures ldmatrix --arch sm_90a --out-dir .

The pictures are listed in workflow/bank_pictures.yaml. `experiments.emulation` records the accesses
that they show, for `--emulated FILES`; with `--arch` the kernels are built and emulated here, one
tile of C each. What is written, banks_NAME.json (contracts/rows.py, `BankPicture`), is drawn by
`analysis banks`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts import (
    UserError,
    choose,
    read_json,
    read_yaml,
    run_command,
    scratch,
    write_json,
    write_text,
)
from contracts.declared import BankPictures, DrawnAccess
from contracts.rows import BankAccesses, BankPicture, RecordedAccess, ShownAccess
from kernels import catalogue
from kernels.catalogue import Catalogue, Problem, Variant

# Snakemake reads the list by this module: what draws is imported where it is needed
if TYPE_CHECKING:
    import ptxsim
    from ptxsim import banks

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "workflow" / "bank_pictures.yaml"
STEPS = 4  # over k that a launch makes; the first look like the others


@dataclass(frozen=True)
class Picture:
    """One entry of the list."""

    name: str
    title: str
    text: str
    accesses: tuple[DrawnAccess, ...]
    kernels: Mapping[str, Variant]  # those that it shows, by name

    @property
    def variants(self) -> list[str]:
        return list(self.kernels)


def load(
    known: Catalogue, path: Path = PICTURES, chosen: list[str] | None = None
) -> dict[str, Picture]:
    """Every picture by name; with `chosen`, those that need no other variants.

    Raises `UserError` naming the file, the key and what is accepted.
    """
    found = {}
    for name, entry in read_yaml(path, BankPictures).root.items():
        accesses = tuple(entry.accesses)
        for wanted in accesses:
            choose(known.kernels, wanted.variant, "variant", f"{path.name}: {name}")
            try:
                re.compile(wanted.line)
            except re.error as error:
                raise UserError(
                    f"{path.name}: {name}: line {wanted.line!r} is no regular expression: {error}"
                ) from error
        kernels = {wanted.variant: known.kernels[wanted.variant] for wanted in accesses}
        picture = Picture(name, entry.title, entry.text, accesses, kernels)
        if chosen is None or set(picture.variants) <= set(chosen):
            found[name] = picture
    return found


def source_line(variant: Variant, expression: str) -> int:
    """Number of the one line of the variant's source that matches.

    Raises `UserError` where that is none or several.
    """
    lines = variant.source.read_text().splitlines()
    found = [number for number, text in enumerate(lines, start=1) if re.search(expression, text)]
    if len(found) != 1:
        where = f"lines {', '.join(map(str, found))} of" if found else "no line of"
        raise UserError(
            f"{expression!r} matches {where} {variant.source.relative_to(ROOT)}; it must match one"
        )
    return found[0]


def small_launch(variant: Variant) -> dict[str, Any]:
    """Arguments of `banks.accesses` or `Kernel.launch` for one tile of C and a few steps; all
    matrices are zero.
    """
    from experiments.emulation import launching

    m, n, k = variant.tile["m"], variant.tile["n"], STEPS * max(variant.tile["k"], 8)
    problem = Problem(
        m, n, k, k, n if variant.b_layout == "row" else k, n, b_layout=variant.b_layout
    )
    if reason := variant.refusal(problem):
        raise UserError(reason)
    return launching.to_count(variant, problem)


def access(variant: Variant, wanted: DrawnAccess, kernel: ptxsim.Kernel) -> banks.Access:
    """Run the variant on one tile of C, and take the access that its first warp makes at the
    line.
    """
    from experiments.emulation import launching
    from ptxsim import banks

    line = source_line(variant, wanted.line)
    file = variant.source.relative_to(catalogue.ROOT)
    with launching.refusals():
        found = banks.accesses(
            kernel, line=line, file=file, source=variant.source, **small_launch(variant)
        )
    if wanted.number > len(found):
        raise UserError(
            f"{variant.name}: number = {wanted.number}, but line {line} has {len(found)} accesses"
        )
    return found[wanted.number - 1]


def recorded(
    variant: Variant, kernel: ptxsim.Kernel, pictures: Iterable[Picture]
) -> list[dict[str, Any]]:
    """What bank_accesses.json holds: the accesses of a variant that pictures show."""
    return [
        {
            "picture": picture.name,
            "place": place,
            "access": access(variant, wanted, kernel).as_dict(),
        }
        for picture in pictures
        for place, wanted in enumerate(picture.accesses)
        if wanted.variant == variant.name
    ]


def record(pictures: Iterable[Picture], arch: str, nvcc: str | None, folder: Path) -> Path:
    """Build the variants of some pictures in `folder`, and write its bank_accesses.json; return the
    path of that.

    Raises `UserError` with the compiler's first error.
    """
    from experiments.emulation import launching
    from experiments.stages import build, toolchain

    compiler = toolchain.nvcc(nvcc)
    shown, accesses = list(pictures), []
    for name, variant in {
        name: kernel for picture in shown for name, kernel in picture.kernels.items()
    }.items():
        unit = folder / f"{name}.cu"
        write_text(unit, variant.translation_unit())
        build.compile_source(unit, folder / name, arch, compiler)
        accesses += recorded(variant, launching.load(variant, folder), shown)
    write_json(folder / "bank_accesses.json", BankAccesses, accesses)
    return folder / "bank_accesses.json"


def find(picture: Picture, emulated: Iterable[Path]) -> list[RecordedAccess]:
    """Its accesses, out of files bank_accesses.json that `experiments.emulation` left."""
    found: dict[int, RecordedAccess] = {}
    for path in emulated:
        for entry in read_json(path, BankAccesses).root:
            if entry.picture == picture.name:
                found[entry.place] = entry.access
    missing = [
        wanted.variant for place, wanted in enumerate(picture.accesses) if place not in found
    ]
    if missing:
        raise UserError(
            f"no access of picture {picture.name} was recorded; emulate {missing[0]} again"
        )
    return [found[place] for place in range(len(picture.accesses))]


def facts(picture: Picture, found: list[RecordedAccess]) -> BankPicture:
    """What banks_NAME.json holds."""
    rows = []
    for wanted, access in zip(picture.accesses, found, strict=True):
        variant = picture.kernels[wanted.variant]
        file = variant.source.relative_to(catalogue.ROOT).as_posix()
        recorded = access.model_dump() | {"file": file}
        names = {"variant": variant.name, "label": variant.label, "says": wanted.says}
        rows.append(ShownAccess.model_validate(names | recorded))
    return BankPicture(title=picture.title, text=picture.text, accesses=rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Choose accesses to shared memory that are drawn on their banks."
    )
    parser.add_argument(
        "pictures", nargs="*", help="names in workflow/bank_pictures.yaml; all, if none is given"
    )
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument(
        "--emulated",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="bank_accesses.json of its variants",
    )
    origin.add_argument(
        "--arch", help="build the kernels for it, for instance sm_90a, and emulate them"
    )
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    known = load(catalogue.load())
    chosen = [
        choose(known, name, "picture", PICTURES.relative_to(ROOT))
        for name in options.pictures or known
    ]
    with scratch() as folder:
        emulated = options.emulated or [record(chosen, options.arch, options.nvcc, folder)]
        for picture in chosen:
            shown = facts(picture, find(picture, emulated))
            write_json(options.out_dir / f"banks_{picture.name}.json", BankPicture, shown)


if __name__ == "__main__":
    run_command(main)
