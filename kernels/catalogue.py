"""Loads `catalogue.yaml`: what each variant is made of, what it needs of a problem, and how it is launched.

`python -m kernels.catalogue --out variants.csv` lists it for the rooms that do not import Python from here.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from contracts import UserError, choose, read_json, read_rows, read_yaml, run_command, validate, write_rows
from contracts.dtypes import dtypes
from kernels import cost
from kernels.arguments import (
    SIGNATURE,
    TEXEL_BYTES,
    TEXTURES,
    TILE_COUNTER,
    WORKSPACES,
    Argument,
    TensorMap,
    Workspace,
    declaration,
)
from kernels.occupancy import capability
from kernels.problem import Layout
from kernels.problem import Problem as Problem

ROOT = Path(__file__).resolve().parent
TMA_BYTES = 16  # of which a matrix's beginning and its rows are multiples, where TMA is to move them
CATALOGUE = ROOT / "catalogue.yaml"

# CUDA C++ Programming Guide, technical specifications per compute capability
MAX_GRID = (2**31 - 1, 65535)
MAX_BOX = 256  # rows or columns of a tensor map's box
MAX_CLUSTER = 8  # blocks of a cluster that every GPU with clusters can run
MAX_TEXELS = 2**27  # of a 1-D texture over linear memory
TEXTURE_ALIGNMENT = 512  # CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: where linear memory of a texture must begin


@dataclass(frozen=True)
class Baseline:
    """A library's GEMM, measured by the same harness."""

    name: str
    library: Literal["cublas", "torch", "triton"]
    dtype: str
    baseline: str
    idea: str
    source: str | None = None
    b_layout: Layout = "row"  # by itself; beside a kernel it takes that kernel's problem

    @property
    def label(self) -> str:
        """Short name for figures."""
        library = {"cublas": "cuBLAS", "torch": "torch.matmul", "triton": "Triton"}[self.library]
        return f"{library} {self.dtype}"

    @property
    def tensor_cores(self) -> bool:
        """Whether it does its arithmetic on them."""
        return dtypes()[self.dtype].tensor

    @property
    def source_hash(self) -> str:
        """Of a library without a source here it tells only that the entry changed."""
        parts = [(ROOT.parent / self.source).read_text()] if self.source else []
        return _digest(self.library, self.dtype, *parts)

    def refusal(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> str | None:
        """Why this problem is not taken (see `Variant.refusal`)."""
        reason = problem.refusal() or (
            self._tma_refusal(problem, addresses or {}) if self.library == "triton" else None
        )
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    def _tma_refusal(self, problem: Problem, addresses: Mapping[str, int]) -> str | None:
        if problem.b_layout != "row":
            return f"B is {problem.b_layout}-major, but it must be row-major"
        per_row = TMA_BYTES // dtypes()[self.dtype].bytes
        for name in ("n", "lda", "ldb", "ldc"):  # n: TMA would store beyond the end of a row of C
            if (value := getattr(problem, name)) % per_row:
                return f"{name} = {value}, but it must be a multiple of {per_row}"
        for matrix, address in addresses.items():
            if address % TMA_BYTES:
                return f"{matrix} begins {address % TMA_BYTES} bytes past a multiple of {TMA_BYTES}, but it must not"
        return None


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
    narrowing: Literal["truncate", "nearest"]
    tile: Mapping[str, int]
    grid_axes: str
    multiples: Mapping[str, int]
    align_bytes: int
    arch: int
    builds_on: str | None
    idea: str
    origin: Mapping[str, str] | None
    baseline: str
    b_layout: Layout = "row"  # of B in memory
    arguments: tuple[Argument, ...] = SIGNATURE
    persistent: int = 0  # blocks an SM of a grid that does not follow the tiles; 0: a block a tile
    shares_tiles: bool = False  # several of a persistent kernel's blocks may compute one tile
    cluster: tuple[int, int] = (1, 1)  # blocks in x and y
    cooperative: bool = False  # all blocks run at a time, or the launch fails
    tensor_cores: bool = False  # does its arithmetic on them
    one_arch: bool = False  # needs the features that only `arch` has: sm_90a
    tuned: str | None = None  # the machine whose sweep chose the template; None: the catalogue's own values

    @property
    def textures(self) -> bool:
        """Whether A and B come through texture objects too."""
        return TEXTURES[0] in self.arguments

    @property
    def family(self) -> str:
        """The folder of the source: sgemm, hgemm or tf32gemm."""
        return self.source.parent.name

    @property
    def label(self) -> str:
        """Short name for figures, with the dtype where that is not fp32."""
        short = self.name.removeprefix(f"{self.family}_")
        return short if self.dtype == "fp32" or short.endswith(self.dtype) else f"{short}_{self.dtype}"

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kernels that it may run: itself."""
        return (self,)

    def pick(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> Variant:
        """The kernel that runs `problem`: itself. Raises `UserError` where it is refused (see `refusal`)."""
        if reason := self.refusal(problem, addresses):
            raise UserError(reason)
        return self

    def tiles(self, problem: Problem) -> tuple[int, int]:
        """Tiles of C along the grid's x and y; whole clusters of them."""
        tiles = {axis: -(-getattr(problem, axis) // self.tile[axis]) for axis in "mn"}
        x, y = (-(-tiles[axis] // blocks) * blocks for axis, blocks in zip(self.grid_axes, self.cluster, strict=True))
        return x, y

    def grid(self, problem: Problem, sms: int) -> tuple[int, int, int]:
        """Blocks in x, y and z: one a tile; of a persistent kernel, as many as a GPU with so many SMs holds, or fewer
        where there are fewer tiles and it does not share them."""
        x, y = self.tiles(problem)
        if not self.persistent:
            return x, y, 1
        cluster = math.prod(self.cluster)
        most = max(self.persistent * sms // cluster, 1) * cluster
        return (most if self.shares_tiles else min(x * y, most)), 1, 1

    def refusal(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> str | None:
        """Why this kernel cannot take `problem` with matrices at `addresses` (bytes; keys A, B, C).

        None where it can, else one line that names the requirement and the value.
        """
        reason = problem.refusal()
        if reason is None and problem.b_layout != self.b_layout:
            reason = f"B is {problem.b_layout}-major, but it must be {self.b_layout}-major"
        for name, multiple in self.multiples.items():
            value = getattr(problem, name)
            if reason is None and value % multiple:
                reason = f"{name} = {value}, but {name} must be a multiple of {multiple}"
        for matrix, address in (addresses or {}).items():
            if reason is None and matrix in self.aligned and address % self.align_bytes:
                reason = f"{matrix} starts at byte {address}, but it must be aligned to {self.align_bytes} bytes"
        if reason is None:
            for axis, blocks, most in zip("xy", self.tiles(problem), MAX_GRID, strict=True):
                if blocks > most and not self.persistent:
                    reason = f"the grid has {blocks} blocks in {axis}, but CUDA allows {most}"
        if reason is None and self.textures:
            for matrix, texels in zip("AB", self._texels_of_tiles(problem), strict=True):
                if texels > MAX_TEXELS:
                    reason = f"the tiles of {matrix} span {texels} texels, but a texture has at most {MAX_TEXELS}"
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    def _texels_of_tiles(self, problem: Problem) -> tuple[int, int]:
        """Up to where its whole tiles reach in the textures of A and B; an index beyond must not run over."""
        rows = [-(-getattr(problem, axis) // self.tile[axis]) * self.tile[axis] for axis in "mk"]
        before = TEXTURE_ALIGNMENT // TEXEL_BYTES
        return tuple(before + r * ld * 4 // TEXEL_BYTES for r, ld in zip(rows, (problem.lda, problem.ldb), strict=True))

    @property
    def requires(self) -> str:
        """What it asks of a problem, for people."""
        parts = ["B column-major"] if self.b_layout == "column" else []
        parts += [f"{name} % {multiple} = 0" for name, multiple in self.multiples.items()]
        if self.align_bytes > 4:
            parts.append(f"{self.align_bytes}-byte aligned {'A and B' if self.textures else 'matrices'}")
        return ", ".join(parts) or "nothing"

    def sources(self) -> list[Path]:
        """The .cu file and every file below `kernels/` or beside it that it includes, directly or not."""
        return [self.source, *included(self.source)]

    @property
    def aligned(self) -> str:
        """The matrices that `align_bytes` speaks of: of a kernel with textures, those that they hold."""
        return "AB" if self.textures else "ABC"

    def unfit(self, arch: str) -> str | None:
        """Why it cannot be built for `arch`, as "sm_90a"; None where it can."""
        if self.one_arch and arch != f"sm_{self.arch}a":
            return f"{self.name} needs what sm_{self.arch}a alone has, but arch = {arch}"
        if capability(arch) < self.arch:
            return f"{self.name} needs compute capability {self.arch / 10:.1f}, but arch = {arch}"
        return None

    def translation_unit(self) -> str:
        """CUDA source that instantiates the template once, with the catalogue's values."""
        arguments = ", ".join(
            str(value).lower() if isinstance(value, bool) else str(value) for value in self.template.values()
        )
        element = dtypes()[self.dtype].c_type
        parameters = textwrap.fill(
            ", ".join(declaration(argument, element).replace(" ", "\0") for argument in self.arguments),
            width=112, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False,
        ).replace("\0", " ")  # fmt: skip
        ours = self.source.is_relative_to(ROOT)
        return (
            f'#include "{(self.source.relative_to(ROOT) if ours else self.source).as_posix()}"\n\n'
            f"template __global__ void {self.entry}<{arguments}>(\n"
            f"{parameters});\n"
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
                *(["textures"] if self.textures else []),
                *(["B column-major"] if self.b_layout == "column" else []),
                *([repr(self.arguments)] if set(self.arguments) - {*SIGNATURE, *TEXTURES} else []),
                *(
                    [self.persistent, self.cluster, self.cooperative]
                    if self.persistent or self.cluster != (1, 1) or self.cooperative
                    else []
                ),
                *(["shares tiles"] if self.shares_tiles else []),
            ]
        )
        return _digest(launch, *(_without_comments(path.read_text()) for path in self.sources()))


@dataclass(frozen=True)
class Choice:
    """One of a dispatcher's kernels, and the least m, n, k from which it is taken."""

    variant: Variant
    at_least: Mapping[str, int]

    def suits(self, problem: Problem, addresses: Mapping[str, int] | None) -> bool:
        """Whether the sizes are reached and the kernel takes the problem."""
        reached = all(getattr(problem, axis) >= least for axis, least in self.at_least.items())
        return reached and self.variant.refusal(problem, addresses) is None

    def __str__(self) -> str:
        least = ", ".join(f"{axis} >= {value}" for axis, value in self.at_least.items())
        return self.variant.name + (f" for {least}" if least else "")


@dataclass(frozen=True)
class Dispatcher:
    """Runs each problem with one of several kernels: the first of its choices that suits or, with a model of their times
    (`kernels.cost`), the one of those that suit which the model predicts to be fastest."""

    name: str
    choices: tuple[Choice, ...]
    builds_on: str | None
    idea: str
    origin: Mapping[str, str] | None
    model: cost.Model | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kernels that it may run, each once."""
        return tuple({choice.variant.name: choice.variant for choice in self.choices}.values())

    @property
    def family(self) -> str:
        """That of its kernels."""
        return self.variants[0].family

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.name.removeprefix(f"{self.family}_")

    @property
    def tensor_cores(self) -> bool:
        """Whether its kernels do their arithmetic on them."""
        return any(variant.tensor_cores for variant in self.variants)

    @property
    def dtype(self) -> str:
        """That of its kernels; they have one."""
        return self.variants[0].dtype

    @property
    def narrowing(self) -> str:
        """That of its kernels (see `Variant`)."""
        return self.variants[0].narrowing

    @property
    def b_layout(self) -> Layout:
        """That of its kernels; they have one."""
        return self.variants[0].b_layout

    @property
    def baseline(self) -> str:
        """That of its kernels; they have one."""
        return self.variants[0].baseline

    @property
    def arch(self) -> int:
        """The most that one of its kernels needs."""
        return max(variant.arch for variant in self.variants)

    def unfit(self, arch: str) -> str | None:
        """Why one of its kernels cannot be built for `arch`; None where all can."""
        return next(filter(None, (variant.unfit(arch) for variant in self.variants)), None)

    def pick(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> Variant:
        """The kernel that runs `problem` with matrices at `addresses` (bytes; keys A, B, C).

        Raises `UserError` where none does (see `refusal`).
        """
        if reason := self.refusal(problem, addresses):
            raise UserError(reason)
        suiting = [choice.variant for choice in self.choices if choice.suits(problem, addresses)]
        model = self.model
        return suiting[0] if model is None else min(suiting, key=lambda variant: model.time_us(variant, problem))

    def refusal(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> str | None:
        """Why no choice takes this problem: the last one's reason. None where one does."""
        reason = problem.refusal()
        if reason is None and not any(choice.suits(problem, addresses) for choice in self.choices):
            last = self.choices[-1]
            reason = last.variant.refusal(problem, addresses) or f"its last choice is {last}"
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    @property
    def requires(self) -> str:
        """What it asks of a problem, for people: what the last choice does, which the others fall back to."""
        return self.choices[-1].variant.requires

    @property
    def source_hash(self) -> str:
        """Changes with its choices, with their kernels, and with the model."""
        choices = (f"{choice} {choice.variant.source_hash}" for choice in self.choices)
        return _digest(*choices, *([repr(self.model)] if self.model else []))


Runnable = Variant | Dispatcher
Entry = Variant | Dispatcher | Baseline


def included(source: Path) -> list[Path]:
    """The files below `kernels/`, or beside what includes them, that a CUDA source includes, directly or not."""
    found: list[Path] = []
    queue = [source]
    while queue:
        includer = queue.pop(0)
        changed = includer.stat()
        for name in _includes(includer, changed.st_mtime_ns, changed.st_size):
            path = next((path for path in (includer.parent / name, ROOT / name) if path.is_file()), None)
            if path is not None and (path := path.resolve()) not in found:
                found.append(path)
                queue.append(path)
    return found


@functools.cache
def _includes(source: Path, changed: int, size: int) -> list[str]:
    """What a file includes in quotes, as it was last `changed`."""
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', source.read_text(), re.M)


def templates(source: Path) -> dict[str, dict[str, bool]]:
    """The `__global__` templates of a CUDA source, as far as they are written out: for each its parameters by name, and
    whether one needs a value."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source.read_text(), flags=re.S)
    nested = r"\((?:[^()]|\([^()]*\))*\)"
    text = re.sub(rf"__launch_bounds__\s*{nested}", " ", text)
    found = {}
    for parameters, name in re.findall(r"\btemplate\s*<([^<>]*)>\s*(?=[^;{}]*__global__)[^;{}(]*?(\w+)\s*\(", text):
        parts = [part.partition("=") for part in parameters.split(",") if part.strip()]
        found[name] = {declared.split()[-1]: not default for declared, _, default in parts}
    return found


def own(source: Path, like: str, changes: Mapping[str, Any]) -> Variant:
    """A kernel that is not in the catalogue, with the entry of the variant `like` but for `changes` (keys of an entry);
    it builds on that. Its name is the file's; its entry, if `changes` has none, the only `__global__` template there.

    Raises `UserError` for what is wrong in these.
    """
    if not source.is_file():
        raise UserError(f"cannot read {source}: no such file")
    choose(_shipped(), like, "variant", CATALOGUE.relative_to(ROOT.parent))
    known, there = _shipped()[like], templates(source)
    only = next(iter(there)) if len(there) == 1 else f"{known['source'].split('/')[0]}_{source.stem}"
    function = changes.get("entry", only)
    if function not in there:
        names = ", ".join(there) or "none"
        raise UserError(f"{source}: no __global__ template {function!r}; there: {names}; name one with --entry")
    given = {**known["template"], **changes.get("template", {})}
    if unknown := [name for name in changes.get("template", {}) if name not in there[function]]:
        has = ", ".join(there[function])
        raise UserError(f"{source}: {function} has no template parameter {unknown[0]!r}; it has: {has}")
    entry = {key: value for key, value in known.items() if key not in ("tuned", "origin")}
    entry |= {**changes, "builds_on": like, "entry": function, "idea": f"like {like}"}
    entry["template"] = {name: given[name] for name in there[function] if name in given}
    if missing := [name for name, needed in there[function].items() if needed and name not in given]:
        said = f"{function} has a template parameter {missing[0]!r}, for which {like} has no value"
        raise UserError(f"{source}: {said}; give one with --template {missing[0]}=...")
    name = re.sub(r"[^a-z0-9_]+", "_", source.stem.lower())
    name = name if name[0].isalpha() and name not in load() else f"own_{name}"
    validate(
        {"variants": {name: entry}, "baselines": read_yaml(CATALOGUE, "catalogue")["baselines"]}, "catalogue", source
    )
    return replace(_variant(name, entry, CATALOGUE), source=source.resolve())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def _without_comments(text: str) -> str:
    text = re.sub(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.S)
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    # a preprocessor line ends where it ends; elsewhere a line end is a blank
    return "".join(
        f"\n{line}\n" if line.startswith("#") or line.endswith("\\") else f"{line} " for line in lines if line
    )


@functools.cache
def load(path: Path = CATALOGUE) -> dict[str, Entry]:
    """Every variant, then every dispatcher and every baseline, by name, in the order of the file.

    Raises `UserError` naming the file, the entry and the key for whatever is wrong in it.
    """
    data = read_yaml(path, "catalogue")
    dispatchers = data.get("dispatchers", {})
    kinds = {"variant": data["variants"], "dispatcher": dispatchers, "baseline": data["baselines"]}
    for (one, names), (other, more) in itertools.combinations(kinds.items(), 2):
        if both := sorted(set(names) & set(more)):
            raise UserError(f"{path}: {both[0]!r} is both a {one} and a {other}; names must differ")
    variants = {name: _variant(name, entry, path) for name, entry in data["variants"].items()}
    entries: dict[str, Entry] = dict(variants)
    entries |= {name: _dispatcher(name, entry, variants, path) for name, entry in dispatchers.items()}
    entries |= {name: Baseline(name, **entry) for name, entry in data["baselines"].items()}
    for entry in entries.values():
        choose(data["baselines"], entry.baseline, "baseline", f"{path}: {entry.name}")
        if not isinstance(entry, Baseline) and entry.builds_on is not None:
            choose(data["variants"], entry.builds_on, "variant", f"{path}: {entry.name}.builds_on")
    _refuse_cycles({name: variant.builds_on for name, variant in variants.items()}, path)
    return entries


def _refuse_cycles(before: Mapping[str, str | None], path: Path) -> None:
    """Each chain of `builds_on` ends."""
    ends: set[str] = set()
    for name in before:
        chain: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in ends:
            if at in chain:
                round_ = [*list(chain)[list(chain).index(at) :], at]
                raise UserError(
                    f"{path}: {at}.builds_on = {before[at]!r} is not allowed, for {' builds on '.join(round_)}; "
                    "allowed: a variant that does not build on it"
                )
            chain[at] = None
            at = before[at]
        ends |= set(chain)


def retiled(name: str, called: str, template: Mapping[str, int], threads: int) -> Variant:
    """The kernel of the entry `name` with another template and block, under the name `called`."""
    entry = {key: value for key, value in _shipped()[name].items() if key != "tuned"}
    return _variant(called, entry | {"template": dict(template), "threads": threads}, CATALOGUE)


@functools.cache
def _shipped() -> dict[str, dict[str, Any]]:
    variants: dict[str, dict[str, Any]] = read_yaml(CATALOGUE, "catalogue")["variants"]
    return variants


SWEPT = "dispatch.csv"  # beside tuned.json: the sweep behind dispatchers
_chosen: Path | None = None


def use(record: Path | None) -> None:
    """From now on, in this process, `record` (a tuned.json) stands behind the tuned entries; None: the one they name.

    Raises `UserError` for a record that is none.
    """
    global _chosen
    if record is not None and not record.with_name(SWEPT).is_file():  # that may be there alone
        read_json(record, "tuned")
    if record != _chosen:
        _chosen = record
        load.cache_clear()


def forget() -> None:
    """From now on, in this process, the catalogue is read again: its file may have been edited."""
    load.cache_clear()
    _shipped.cache_clear()


class _Use(argparse.Action):
    """The option --tuned: the catalogue is loaded with that record."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        use(values)
        setattr(namespace, self.dest, values)


def add_tuned_argument(parser: argparse.ArgumentParser) -> None:
    """The option --tuned, of every command that loads the catalogue."""
    told = (
        "record behind the catalogue's tuned entries; default: data/ARCHIVE/tuned.json, of the archive that they name"
    )
    parser.add_argument("--tuned", type=Path, action=_Use, metavar="tuned.json", help=told)


def tuned_option() -> list[str]:
    """The same option, to hand the record in use on to another process."""
    return ["--tuned", str(_chosen)] if _chosen else []


def tuned_record(archive: str) -> Path | None:
    """The tuned.json in use, else that of the archive that an entry names; None where that has none."""
    return _record(archive, "tuned.json")


def _record(archive: str, name: str) -> Path | None:
    shipped = ROOT.parent / "data" / archive / name
    found = [_chosen.with_name(name)] if _chosen else []
    return next((path for path in [*found, shipped] if path.is_file()), None)


def _model(name: str, archive: str, variants: tuple[Variant, ...]) -> cost.Model:
    """The model behind the dispatcher `name`, of the sweep's rows of these kernels as they are now."""
    record = _record(archive, SWEPT)
    rows = [row for row in read_rows(record, "dispatch") if row["dispatcher"] == name] if record else []
    return cost.fitted(rows, variants)


def _with_tuned(name: str, entry: dict[str, Any], path: Path) -> dict[str, Any]:
    """The entry, its template and threads replaced by the recorded winner's; `tuned` becomes that record's machine."""
    record_path = tuned_record(entry["tuned"])
    record = read_json(record_path, "tuned") if record_path else {"kernels": {}}
    if name not in record["kernels"]:
        return entry | {"tuned": None}
    winner = record["kernels"][name]
    if list(winner["template"]) != list(entry["template"]):
        raise UserError(
            f"{record_path}: {name} has template values {', '.join(winner['template'])}, but {path.name} has "
            f"{', '.join(entry['template'])}; tune again (snakemake --cores 1 tile_autotune) or remove that file"
        )
    return entry | {"template": winner["template"], "threads": winner["threads"], "tuned": record["machine"]}


def _variant(name: str, entry: dict[str, Any], path: Path) -> Variant:
    if "tuned" in entry:
        entry = _with_tuned(name, entry, path)

    def number(key: str, value: int | str) -> int:
        value = (
            choose(entry["template"], value, "template parameter", f"{path}: {key}")
            if isinstance(value, str)
            else value
        )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            said = f"{key} = {value!r} is not allowed; allowed: a number of at least 1 or the name of one"
            raise UserError(f"{path}: {said}")
        return value

    source = ROOT / entry["source"]
    if not source.is_file() or not source.resolve().is_relative_to(ROOT):
        raise UserError(f"{path}: {name}.source = {entry['source']!r}: no such file below {ROOT.name}/")
    if entry.get("textures") and "arguments" in entry:
        raise UserError(f"{path}: {name} has both textures and arguments; arguments can name tex_a and tex_b")
    arch, cluster = str(entry.get("arch", 75)), entry.get("cluster", (1, 1))
    variant = Variant(
        name=name,
        source=source,
        entry=entry.get("entry", f"{source.parent.name}_{source.stem}"),
        template=entry["template"],
        threads=entry["threads"],
        shared_bytes=entry.get("shared_bytes", 0),
        dtype=entry["dtype"],
        narrowing=entry.get("narrowing", "truncate"),
        tile={axis: number(f"{name}.tile.{axis}", value) for axis, value in entry["tile"].items()},
        grid_axes=entry["grid"],
        multiples={key: number(f"{name}.multiples.{key}", v) for key, v in entry.get("multiples", {}).items()},
        align_bytes=entry.get("align_bytes", dtypes()[entry["dtype"]].bytes),
        arch=int(arch.removesuffix("a")),
        one_arch=arch.endswith("a"),
        builds_on=entry.get("builds_on"),
        idea=entry["idea"],
        origin=entry.get("origin"),
        baseline=entry["baseline"],
        b_layout=entry.get("b_layout", "row"),
        arguments=_arguments(name, entry, number, path),
        persistent=entry.get("persistent", 0),
        shares_tiles=entry.get("shares_tiles", False),
        cluster=(number(f"{name}.cluster", cluster[0]), number(f"{name}.cluster", cluster[1])),
        cooperative=entry.get("cooperative", False),
        tensor_cores=entry.get("tensor_cores", dtypes()[entry["dtype"]].tensor),
        tuned=entry.get("tuned"),
    )
    return _sound(variant, path)


def _arguments(
    name: str, entry: dict[str, Any], number: Callable[[str, int | str], int], path: Path
) -> tuple[Argument, ...]:
    """An entry's arguments in the kernel's order. Raises `UserError` where a tensor map is none that CUDA takes."""
    if "arguments" not in entry:
        return SIGNATURE + (TEXTURES if entry.get("textures") else ())
    found: list[Argument] = []
    for given in entry["arguments"]:
        if isinstance(given, str):
            found.append(TILE_COUNTER if given == TILE_COUNTER.name else given)
            continue
        ((called, told),) = given.items()
        if called in WORKSPACES:
            sizes = {key: number(f"{name}.{called}.{key}", v) for key, v in told.items() if key != "zeroed"}
            found.append(Workspace(called, zeroed=told.get("zeroed", "never"), **sizes))
        else:
            rows, columns = (number(f"{name}.{called}.box", value) for value in told["box"])
            rest = {key: value for key, value in told.items() if key != "box"}
            found.append(TensorMap(called, (rows, columns), **rest))
    names = [argument if isinstance(argument, str) else argument.name for argument in found]
    if twice := next((one for one in names if names.count(one) > 1), None):
        raise UserError(f"{path}: {name}.arguments has {twice!r} twice")
    return tuple(found)


def _sound(variant: Variant, path: Path) -> Variant:
    """The variant, or a `UserError` for what its keys ask of each other (CUDA driver API, cuTensorMapEncodeTiled)."""
    element = dtypes()[variant.dtype].bytes
    for spec in variant.arguments:
        if not isinstance(spec, TensorMap):
            continue
        said = f"{path}: {variant.name}.{spec.name}.box = {list(spec.box)}"
        row = spec.box[1] * element
        if max(spec.box) > MAX_BOX:
            raise UserError(f"{said}, but at most {MAX_BOX} rows and columns are allowed")
        if row % 16 or (spec.swizzle and row > spec.swizzle):
            allowed = f"a multiple of 16 bytes{f' up to the swizzle, {spec.swizzle}' if spec.swizzle else ''}"
            raise UserError(f"{said}: a row has {row} bytes; allowed: {allowed}")
        ld = f"ld{spec.matrix.lower()}"
        if variant.multiples.get(ld, 1) * element % 16 or variant.align_bytes % 16:
            raise UserError(
                f"{path}: {variant.name}.{spec.name}: a tensor map needs align_bytes of 16 or more, and multiples of "
                f"{16 // element} in {ld}"
            )
    if variant.textures and variant.dtype != "fp32":
        raise UserError(f"{path}: {variant.name}.dtype = {variant.dtype!r}, but textures hold fp32")
    if variant.textures and variant.b_layout != "row":
        raise UserError(f"{path}: {variant.name}.b_layout = {variant.b_layout!r}, but a texture's B is row-major")
    if math.prod(variant.cluster) > MAX_CLUSTER:
        said = f"{path}: {variant.name}.cluster = {list(variant.cluster)}"
        raise UserError(f"{said}, but a cluster has at most {MAX_CLUSTER} blocks")
    return variant


def _dispatcher(name: str, entry: dict[str, Any], variants: dict[str, Variant], path: Path) -> Dispatcher:
    choices = tuple(
        Choice(choose(variants, choice["variant"], "variant", f"{path}: {name}.choices"), choice.get("at_least", {}))
        for choice in entry["choices"]
    )
    for key in ("dtype", "narrowing", "b_layout", "family", "baseline"):
        values = list(dict.fromkeys(getattr(choice.variant, key) for choice in choices))
        if len(values) > 1:
            raise UserError(f"{path}: {name}.choices have {key} {' and '.join(values)}, but it must be one")
    dispatcher = Dispatcher(name, choices, entry.get("builds_on"), entry["idea"], entry.get("origin"))
    if "swept" in entry:
        return replace(dispatcher, model=_model(name, entry["swept"], dispatcher.variants))
    return dispatcher


def find(name: str) -> Entry:
    """The entry called `name`, or a `UserError` with the nearest names."""
    return choose(load(), name, "variant", CATALOGUE.relative_to(ROOT.parent))


def kernels() -> dict[str, Variant]:
    """The entries that are kernels of ours."""
    return {name: entry for name, entry in load().items() if isinstance(entry, Variant)}


def runnable() -> dict[str, Runnable]:
    """The kernels, and the dispatchers over them."""
    return {name: entry for name, entry in load().items() if not isinstance(entry, Baseline)}


def rows() -> list[dict[str, Any]]:
    """The catalogue as rows of variants.csv."""
    table = []
    for entry in load().values():
        row = {key: getattr(entry, key) for key in ("dtype", "label", "idea", "baseline", "source_hash")}
        row |= {"variant": entry.name, "kind": "baseline", "family": "library", "requires": "nothing"}
        row |= {"tensor": entry.tensor_cores}
        if not isinstance(entry, Baseline):
            row |= {
                "kind": "dispatcher",
                "family": entry.family,
                "builds_on": entry.builds_on,
                "origin": f"{entry.origin['seed']}: {entry.origin['section']}" if entry.origin else None,
                "requires": entry.requires,
            }
        if isinstance(entry, Dispatcher):
            row |= {"choices": "; else ".join(map(str, entry.choices))}
        if isinstance(entry, Variant):
            row |= {
                "kind": "kernel",
                "source": f"kernels/{entry.source.relative_to(ROOT).as_posix()}",
                "tile_m": entry.tile["m"],
                "tile_n": entry.tile["n"],
                "template": ", ".join(f"{key}={value}" for key, value in entry.template.items()),
                "tuned": entry.tuned,
            }
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="List the catalogue as a table.")
    parser.add_argument("--out", required=True, type=Path, metavar="variants.csv")
    add_tuned_argument(parser)
    write_rows(parser.parse_args().out, "variants", rows())


if __name__ == "__main__":
    run_command(main)
