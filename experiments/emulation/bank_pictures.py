"""Draws accesses to shared memory, with and without what mends their bank conflicts, on ptxsim: no GPU is needed.

    python -m experiments.bank_pictures ldmatrix --build-dir results/build/sm_90a --out banks_ldmatrix.svg

The pictures are listed in workflow/bank_pictures.yaml. Beside FILE.svg it writes FILE.pdf, the same picture for the
paper, and FILE.json, what the picture shows (workflow/schemas/bank_picture.schema.yaml).
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contracts import UserError, choose, read_yaml, replacing, run_command, write_json, write_text
from kernels import catalogue
from kernels.catalogue import Problem, Variant

if TYPE_CHECKING:  # Snakemake reads the list by this module: what draws is imported where it is needed
    from ptxsim import banks

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "workflow" / "bank_pictures.yaml"
STEPS = 4  # over k that a launch makes; the first look like the others


@dataclass(frozen=True)
class Wanted:
    """One access of a picture. `line`: regular expression that one line of the variant's source matches."""

    variant: str
    says: str
    line: str
    number: int = 1


@dataclass(frozen=True)
class Picture:
    """One entry of the list."""

    name: str
    title: str
    text: str
    accesses: tuple[Wanted, ...]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(wanted.variant for wanted in self.accesses))


def load(path: Path = PICTURES, chosen: list[str] | None = None) -> dict[str, Picture]:
    """Every picture by name; with `chosen`, those that need no other variants.

    Raises `UserError` naming the file, the key and what is accepted.
    """
    found = {}
    for name, entry in read_yaml(path, "bank_pictures").items():
        accesses = tuple(Wanted(**wanted) for wanted in entry.pop("accesses"))
        for wanted in accesses:
            choose(catalogue.kernels(), wanted.variant, "variant", f"{path.name}: {name}")
            try:
                re.compile(wanted.line)
            except re.error as error:
                raise UserError(
                    f"{path.name}: {name}: line {wanted.line!r} is no regular expression: {error}"
                ) from error
        picture = Picture(name=name, accesses=accesses, **entry)
        if chosen is None or set(picture.variants) <= set(chosen):
            found[name] = picture
    return found


def source_line(variant: Variant, expression: str) -> int:
    """Number of the one line of the variant's source that matches. Raises `UserError` where that is none or several."""
    lines = variant.source.read_text().splitlines()
    found = [number for number, text in enumerate(lines, start=1) if re.search(expression, text)]
    if len(found) != 1:
        where = f"lines {', '.join(map(str, found))} of" if found else "no line of"
        raise UserError(f"{expression!r} matches {where} {variant.source.relative_to(ROOT)}; it must match one")
    return found[0]


def small_launch(variant: Variant) -> dict[str, Any]:
    """Arguments of `banks.accesses` or `Kernel.launch` for one tile of C and a few steps; all matrices are zero."""
    import ptxsim
    from experiments import arguments
    from experiments.emulation.launching import texture as emulated_texture

    m, n, k = variant.tile["m"], variant.tile["n"], STEPS * max(variant.tile["k"], 8)
    problem = Problem(m, n, k, k, n, n)
    if reason := variant.refusal(problem):
        raise UserError(reason)
    element = np.dtype(f"u{4 if variant.dtype in ('fp32', 'tf32') else 2}")
    a, b, c = (ptxsim.Array(np.zeros(size, element), name) for size, name in ((m * k, "A"), (k * n, "B"), (m * n, "C")))
    return {
        "grid": variant.grid(problem),
        "block": variant.threads,
        "args": arguments.pack(variant, problem, a, b, c, emulated_texture),
        "shared_bytes": variant.shared_bytes,
    }


def access(wanted: Wanted, build_dir: Path) -> banks.Access:
    """Run the variant on one tile of C, and take the access that its first warp makes at the line."""
    import ptxsim
    from ptxsim import banks

    variant = catalogue.kernels()[wanted.variant]
    line = source_line(variant, wanted.line)
    path = build_dir / f"{variant.name}.ptx"
    if not path.is_file():
        raise UserError(f"{path}: not built; run the build first (snakemake --cores 1 build)")
    file = variant.source.relative_to(catalogue.ROOT)
    try:
        found = banks.accesses(ptxsim.load(path), line=line, file=file, source=variant.source, **small_launch(variant))
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error
    if wanted.number > len(found):
        raise UserError(f"{variant.name}: number = {wanted.number}, but line {line} has {len(found)} accesses")
    return found[wanted.number - 1]


def facts(picture: Picture, found: list[banks.Access]) -> dict[str, Any]:
    """What FILE.json holds."""
    from ptxsim import banks

    rows = []
    for wanted, one in zip(picture.accesses, found, strict=True):
        variant = catalogue.kernels()[wanted.variant]
        rows.append(
            {
                "variant": variant.name,
                "label": variant.label,
                "says": wanted.says,
                "file": variant.source.relative_to(catalogue.ROOT).as_posix(),
                "line": one.line,
                "source": one.text,
                "instruction": banks.ptx_text(one.instruction),
                "kind": one.kind,
                "bits": 8 * one.width,
                "wavefronts": one.wavefronts,
                "ideal": one.ideal,
                "summary": one.summary,
            }
        )
    return {"title": picture.title, "text": picture.text, "accesses": rows}


def to_pdf(svg: Path, pdf: Path) -> None:
    """The same picture as PDF, on a page of its size, in the font of the other figures."""
    import matplotlib
    import typst

    page = f'#set page(width: auto, height: auto, margin: 0pt)\n#image("/{svg.name}")\n'
    with replacing(pdf) as temporary:
        typst.compile(
            page.encode(),
            output=temporary,
            root=svg.parent.resolve(),
            font_paths=[Path(matplotlib.get_data_path()) / "fonts" / "ttf"],
            ignore_system_fonts=True,
            format="pdf",
            timestamp=0,
        )


def main() -> None:
    from ptxsim import banks

    parser = argparse.ArgumentParser(description="Draw accesses to shared memory on their banks.")
    parser.add_argument("picture", help="name in workflow/bank_pictures.yaml")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    picture = choose(load(), options.picture, "picture", PICTURES.relative_to(ROOT))
    found = [access(wanted, options.build_dir) for wanted in picture.accesses]
    headings = [f"{catalogue.kernels()[w.variant].label}: {w.says}" for w in picture.accesses]
    write_text(options.out, banks.draw(found, headings, picture.title))
    to_pdf(options.out, options.out.with_suffix(".pdf"))
    write_json(options.out.with_suffix(".json"), "bank_picture", facts(picture, found))


if __name__ == "__main__":
    run_command(main)
