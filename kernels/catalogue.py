"""Loads `catalogue.yaml`: what each variant is made of, what it needs of a problem, and how it is launched.

`python -m kernels.catalogue --out variants.csv` lists it for the rooms that do not import Python from here.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contracts import UserError, choose, read_yaml, run_command, write_rows

ROOT = Path(__file__).resolve().parent
CATALOGUE = ROOT / "catalogue.yaml"

CTYPES = {"fp32": "float", "tf32": "float", "bf16": "__nv_bfloat16", "fp16": "__half"}
MAX_ELEMENTS = 2**31 - 1  # kernels index with 32-bit integers
MAX_GRID = (2**31 - 1, 65535)  # CUDA C++ Programming Guide, technical specifications per compute capability


@dataclass(frozen=True)
class Problem:
    """C = alpha*A*B + beta*C, row-major: A is m x k, B is k x n, C is m x n; leading dimensions in elements."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0

    @classmethod
    def square(cls, n: int) -> Problem:
        """m = n = k, packed, alpha = 1, beta = 0."""
        return cls(n, n, n, n, n, n)

    @property
    def flop(self) -> int:
        """Floating-point operations, 2mnk."""
        return 2 * self.m * self.n * self.k

    def refusal(self) -> str | None:
        """Why no kernel takes this problem; None where it is well formed."""
        for name in ("m", "n", "k"):
            if getattr(self, name) < 1:
                return f"{name} = {getattr(self, name)}, but {name} must be at least 1"
        for name, row in (("lda", self.k), ("ldb", self.n), ("ldc", self.n)):
            if getattr(self, name) < row:
                return f"{name} = {getattr(self, name)}, but a row has {row} elements"
        for matrix, rows, ld in (("A", self.m, self.lda), ("B", self.k, self.ldb), ("C", self.m, self.ldc)):
            if rows * ld > MAX_ELEMENTS:
                return f"{matrix} spans {rows * ld} elements, but at most {MAX_ELEMENTS} can be indexed"
        return None


@dataclass(frozen=True)
class Baseline:
    """A library's GEMM, measured by the same harness."""

    name: str
    library: Literal["cublas", "torch"]
    dtype: str
    baseline: str
    idea: str

    @property
    def label(self) -> str:
        """Short name for figures."""
        library = {"cublas": "cuBLAS", "torch": "torch.matmul"}[self.library]
        return f"{library} {self.dtype}"

    @property
    def source_hash(self) -> str:
        """A library has no source here; the hash tells only that the entry changed."""
        return _digest(self.library, self.dtype)

    def refusal(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> str | None:
        """Why this problem is not taken (see `Variant.refusal`)."""
        reason = problem.refusal()
        return f"{self.name} cannot take this problem: {reason}" if reason else None


@dataclass(frozen=True)
class Variant:
    """A kernel source with its template values: one row of every table."""

    name: str
    source: Path
    entry: str
    template: Mapping[str, int | str | bool]
    threads: int
    shared_bytes: int
    dtype: str
    tile: Mapping[str, int]
    grid_axes: str
    multiples: Mapping[str, int]
    align_bytes: int
    arch: int
    builds_on: str | None
    idea: str
    origin: Mapping[str, str] | None
    baseline: str

    @property
    def family(self) -> str:
        """The folder of the source: sgemm or hgemm."""
        return self.source.parent.name

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.name.removeprefix(f"{self.family}_")

    def grid(self, problem: Problem) -> tuple[int, int, int]:
        """Blocks in x and y that cover C."""
        blocks = {axis: -(-getattr(problem, axis) // self.tile[axis]) for axis in "mn"}
        return blocks[self.grid_axes[0]], blocks[self.grid_axes[1]], 1

    def refusal(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> str | None:
        """Why this kernel cannot take `problem` with matrices at `addresses` (bytes; keys A, B, C).

        None where it can, else one line that names the requirement and the value.
        """
        reason = problem.refusal()
        for name, multiple in self.multiples.items():
            value = getattr(problem, name)
            if reason is None and value % multiple:
                reason = f"{name} = {value}, but {name} must be a multiple of {multiple}"
        for matrix, address in (addresses or {}).items():
            if reason is None and address % self.align_bytes:
                reason = f"{matrix} starts at byte {address}, but it must be aligned to {self.align_bytes} bytes"
        if reason is None:
            for axis, blocks, most in zip("xy", self.grid(problem), MAX_GRID, strict=False):
                if blocks > most:
                    reason = f"the grid has {blocks} blocks in {axis}, but CUDA allows {most}"
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    @property
    def requires(self) -> str:
        """What it asks of a problem, for people."""
        parts = [f"{name} % {multiple} = 0" for name, multiple in self.multiples.items()]
        if self.align_bytes > 4:
            parts.append(f"{self.align_bytes}-byte aligned matrices")
        return ", ".join(parts) or "nothing"

    def sources(self) -> list[Path]:
        """The .cu file and every file below `kernels/` that it includes, directly or not."""
        found: list[Path] = []
        queue = [self.source]
        while queue:
            path = queue.pop(0)
            if path not in found and path.is_file():
                found.append(path)
                queue += [ROOT / name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.M)]
        return found

    def translation_unit(self) -> str:
        """CUDA source that instantiates the template once, with the catalogue's values."""
        arguments = ", ".join(
            str(value).lower() if isinstance(value, bool) else str(value) for value in self.template.values()
        )
        element = CTYPES[self.dtype]
        return (
            f'#include "{self.source.relative_to(ROOT).as_posix()}"\n\n'
            f"template __global__ void {self.entry}<{arguments}>(\n"
            f"    int m, int n, int k, float alpha, const {element}* A, int lda, const {element}* B, int ldb,\n"
            f"    float beta, {element}* C, int ldc);\n"
        )

    @property
    def source_hash(self) -> str:
        """Changes with the sources, template values or launch; not with comments or white space."""
        launch = json.dumps(
            [
                self.entry,
                self.dtype,
                dict(self.template),
                self.threads,
                self.shared_bytes,
                dict(self.tile),
                self.grid_axes,
            ]
        )
        return _digest(launch, *(_without_comments(path.read_text()) for path in self.sources()))


Entry = Variant | Baseline


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _without_comments(text: str) -> str:
    text = re.sub(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.S)
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    # a preprocessor line ends where it ends; elsewhere a line end is a blank
    return "".join(
        f"\n{line}\n" if line.startswith("#") or line.endswith("\\") else f"{line} " for line in lines if line
    )


@functools.cache
def load(path: Path = CATALOGUE) -> dict[str, Entry]:
    """Every variant, then every baseline, by name, in the order of the file.

    Raises `UserError` naming the file, the entry and the key for whatever is wrong in it.
    """
    data = read_yaml(path, "catalogue")
    both = set(data["variants"]) & set(data["baselines"])
    if both:
        raise UserError(f"{path}: {sorted(both)[0]!r} is both a variant and a baseline; names must differ")
    entries: dict[str, Entry] = {name: _variant(name, entry, path) for name, entry in data["variants"].items()}
    entries |= {name: Baseline(name, **entry) for name, entry in data["baselines"].items()}
    for entry in entries.values():
        choose(data["baselines"], entry.baseline, "baseline", f"{path}: {entry.name}")
        if isinstance(entry, Variant) and entry.builds_on is not None:
            choose(data["variants"], entry.builds_on, "variant", f"{path}: {entry.name}.builds_on")
    return entries


def _variant(name: str, entry: dict[str, Any], path: Path) -> Variant:
    def number(key: str, value: int | str) -> int:
        value = (
            choose(entry["template"], value, "template parameter", f"{path}: {key}")
            if isinstance(value, str)
            else value
        )
        if not isinstance(value, int):
            raise UserError(f"{path}: {key} = {value!r} is not allowed; allowed: a number or the name of one")
        return value

    source = ROOT / entry["source"]
    if not source.is_file():
        raise UserError(f"{path}: {name}.source = {entry['source']!r}: no such file below {ROOT.name}/")
    return Variant(
        name=name,
        source=source,
        entry=entry.get("entry", f"{source.parent.name}_{source.stem}"),
        template=entry["template"],
        threads=entry["threads"],
        shared_bytes=entry.get("shared_bytes", 0),
        dtype=entry["dtype"],
        tile={axis: number(f"{name}.tile.{axis}", value) for axis, value in entry["tile"].items()},
        grid_axes=entry["grid"],
        multiples={key: number(f"{name}.multiples.{key}", v) for key, v in entry.get("multiples", {}).items()},
        align_bytes=entry.get("align_bytes", {"fp32": 4}.get(entry["dtype"], 2)),
        arch=entry.get("arch", 75),
        builds_on=entry.get("builds_on"),
        idea=entry["idea"],
        origin=entry.get("origin"),
        baseline=entry["baseline"],
    )


def find(name: str) -> Entry:
    """The entry called `name`, or a `UserError` with the nearest names."""
    return choose(load(), name, "variant", CATALOGUE.relative_to(ROOT.parent))


def kernels() -> dict[str, Variant]:
    """The entries that are kernels of ours."""
    return {name: entry for name, entry in load().items() if isinstance(entry, Variant)}


def rows() -> list[dict[str, Any]]:
    """The catalogue as rows of variants.csv."""
    table = []
    for entry in load().values():
        row = {key: getattr(entry, key) for key in ("dtype", "label", "idea", "baseline", "source_hash")}
        row |= {"variant": entry.name, "kind": "baseline", "family": "library", "requires": "nothing"}
        if isinstance(entry, Variant):
            row |= {
                "kind": "kernel",
                "family": entry.family,
                "builds_on": entry.builds_on,
                "source": f"kernels/{entry.source.relative_to(ROOT).as_posix()}",
                "origin": f"{entry.origin['seed']}: {entry.origin['section']}" if entry.origin else None,
                "requires": entry.requires,
            }
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="List the catalogue as a table.")
    parser.add_argument("--out", required=True, type=Path, metavar="variants.csv")
    write_rows(parser.parse_args().out, "variants", rows())


if __name__ == "__main__":
    run_command(main)
