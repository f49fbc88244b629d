"""Loads `catalogue.yaml` as a value that is passed on.

`python -m kernels.catalogue --out variants.csv` lists it for the packages that do not import Python
from here.
"""

from __future__ import annotations

import argparse
import functools
import graphlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import (
    UserError,
    choose,
    read_yaml,
    run_command,
    validated,
    write_rows,
)
from contracts.declared import CatalogueFile, Entries
from contracts.dtypes import SUMS, Types, dtypes
from contracts.rows import Variants
from kernels import expand, tiles
from kernels.arguments import (
    SIGNATURE,
    TEXTURES,
    TILE_COUNTER,
    WORKSPACES,
    Argument,
    TensorMap,
    Workspace,
)
from kernels.dispatchers import Choice
from kernels.dispatchers import Dispatcher as Dispatcher
from kernels.dispatchers import Entry as Entry
from kernels.dispatchers import Runnable as Runnable
from kernels.entries import TEXTURE_ALIGNMENT as TEXTURE_ALIGNMENT
from kernels.entries import Baseline as Baseline
from kernels.entries import Variant as Variant
from kernels.problem import Problem as Problem
from kernels.sources import ROOT as ROOT
from kernels.sources import included as included

CATALOGUE = ROOT / "catalogue.yaml"
# The entry that kernels of tiles are made of, without its dtype.
TILE = "hgemm_wgmma_tile"

# Of CUtensorMapL2promotion, in bytes
PROMOTIONS = (0, 64, 128, 256)
# A box of cuTensorMapEncodeTiled has at most so many rows and columns.
MAX_BOX = 256
WARP_THREADS, MAX_BLOCK_THREADS = 32, 1024
# No GPU has more shared memory for a block.
MAX_SHARED_BYTES = 232_448


@dataclass(frozen=True, eq=False)
class Catalogue(Mapping[str, Entry]):
    """Every variant, then every dispatcher and every baseline, by name, in the order of the file.

    The kernel of any tile of `kernels.tiles` is made when its name is asked for. file: the YAML
    file.
    """

    file: Path
    entries: Mapping[str, Entry]

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries and (tile := tiles.named(name)):
            return self._of_tile(tile)
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, name: str) -> Entry:
        """Return the entry `name`; raise `UserError` with the nearest names where there is none."""
        if name not in self.entries and (tile := tiles.named(name)):
            return self._of_tile(tile)
        return choose(self.entries, name, "variant", f"{ROOT.name}/{self.file.name}")

    def _of_tile(self, tile: tiles.Tile) -> Variant:
        """Return the kernel of a tile; raise `UserError` where there is none."""
        if reason := tile.unsupported_reason():
            raise UserError(f"{tile.name} is no kernel: {reason}")
        like = f"{TILE}_{tile.dtype}"
        entry = entries_of(self.file)["variants"][like]
        changes = {"b_layout": tile.b_layout, "builds_on": like, "idea": "made of its name"}
        return self.made_of(
            tile.name, entry | changes | {"template": entry["template"] | tile.template}
        )

    @functools.cached_property
    def kernels(self) -> Mapping[str, Variant]:
        """The entries that are kernels of ours."""
        return {name: entry for name, entry in self.items() if isinstance(entry, Variant)}

    @functools.cached_property
    def runnable(self) -> Mapping[str, Runnable]:
        """The kernels, and the dispatchers over them."""
        return {name: entry for name, entry in self.items() if not isinstance(entry, Baseline)}

    def made_of(self, name: str, entry: Mapping[str, Any]) -> Variant:
        """Return a kernel that is not in the catalogue, made of an entry as catalogue.yaml has
        them.
        """
        return _launchable(_variant(name, dict(entry), self.file), self.file)

    def retiled(
        self, name: str, new_name: str, template: Mapping[str, int], threads: int
    ) -> Variant:
        """Return the kernel of the entry `name` with another template and block, under the name
        `new_name`.
        """
        entry = entries_of(self.file)["variants"][name]
        changes = {"template": dict(template), "threads": threads}
        return _variant(new_name, entry | changes, self.file)

    def rows(self) -> list[dict[str, Any]]:
        """Return the catalogue as rows of variants.csv."""
        table = []
        for entry in self.values():
            row: dict[str, Any] = {
                key: getattr(entry, key)
                for key in ("dtype", "label", "idea", "baseline", "source_hash")
            }
            row |= {
                "variant": entry.name,
                "kind": "baseline",
                "family": "library",
                "requires": "nothing",
            }
            row |= {"tensor": entry.tensor_cores}
            if not isinstance(entry, Baseline):
                row |= {
                    "kind": "dispatcher",
                    "family": entry.family,
                    "builds_on": entry.builds_on,
                    "origin": f"{entry.origin['worklog']}: {entry.origin['section']}"
                    if entry.origin
                    else None,
                    "requires": entry.requires,
                }
            if isinstance(entry, Dispatcher):
                row |= {"choices": "; else ".join(map(str, entry.choices))}
                row |= {"kernels": " ".join(variant.name for variant in entry.variants)}
            if isinstance(entry, Variant):
                row |= {
                    "kind": "kernel",
                    "source": f"kernels/{entry.source.relative_to(ROOT).as_posix()}",
                    "tile_m": entry.tile["m"],
                    "tile_n": entry.tile["n"],
                    "tile_k": entry.tile["k"],
                    "threads": entry.threads,
                    "stages": entry.stages,
                    "cluster": entry.blocks_of_cluster,
                    "sums": entry.divided_sums(),
                    "template": ", ".join(
                        f"{key}={value}" for key, value in entry.template.items()
                    ),
                }
            table.append(row)
        return table


def entries_of(path: Path) -> dict[str, Any]:
    """Return the file's complete entries (kernels/expand.py).

    Raises `UserError` for one that its model does not allow.
    """
    changed = path.stat()
    return _entries_of(path, changed.st_mtime_ns, changed.st_size)


@functools.lru_cache(maxsize=8)
def _entries_of(path: Path, changed: int, size: int) -> dict[str, Any]:
    data = expand.expand(read_yaml(path, CatalogueFile).model_dump(exclude_unset=True), path)
    validated(data, Entries, path)
    return data


def load(path: Path = CATALOGUE) -> Catalogue:
    """Load the catalogue in `path`.

    Raises `UserError` naming the file, the entry and the key for whatever is wrong in it.
    """
    data = entries_of(path)
    dispatchers = data.get("dispatchers", {})
    kinds = {"variant": data["variants"], "dispatcher": dispatchers, "baseline": data["baselines"]}
    for (kind, names), (other, more) in itertools.combinations(kinds.items(), 2):
        if both := sorted(set(names) & set(more)):
            raise UserError(
                f"{path}: {both[0]!r} is both a {kind} and a {other}; names must differ"
            )
    variants = {
        name: _launchable(_variant(name, entry, path), path)
        for name, entry in data["variants"].items()
    }
    entries: dict[str, Entry] = dict(variants)
    entries |= {
        name: _dispatcher(name, entry, variants, path) for name, entry in dispatchers.items()
    }
    entries |= {name: _baseline(name, entry, path) for name, entry in data["baselines"].items()}
    for entry in entries.values():
        choose(data["baselines"], entry.baseline, "baseline", f"{path}: {entry.name}")
        if (types := entries[entry.baseline].types) != entry.types:
            raise UserError(
                f"{path}: {entry.name} has types {entry.dtype}, but its baseline, {types.name}"
            )
        if not isinstance(entry, Baseline) and entry.builds_on is not None:
            choose(data["variants"], entry.builds_on, "variant", f"{path}: {entry.name}.builds_on")
    _refuse_cycles({name: variant.builds_on for name, variant in variants.items()}, path)
    return Catalogue(path, entries)


def _refuse_cycles(builds_on: Mapping[str, str | None], path: Path) -> None:
    """Raise `UserError` where a chain of `builds_on` does not end."""
    try:
        graphlib.TopologicalSorter(
            {name: [rung] for name, rung in builds_on.items() if rung is not None}
        ).prepare()
    except graphlib.CycleError as error:
        # Each name of the chain is what the next one builds on.
        *_, rung, last = chain = error.args[1]
        raise UserError(
            f"{path}: {last}.builds_on = {rung!r} is not allowed, for {' builds on '.join(reversed(chain))}; "
            "allowed: a variant that does not build on it"
        ) from error


def _types(name: str, entry: Mapping[str, Any], path: Path) -> Types:
    """Return the types of an entry: its `types`, or the short form `dtype`, which is the type of A,
    B and C with fp32 sums.
    """
    if ("dtype" in entry) == ("types" in entry):
        raise UserError(f"{path}: {name} must have either dtype or types")
    if "dtype" in entry:
        return Types.named(entry["dtype"])
    for key in ("accumulate", "c"):
        given = entry["types"][key]
        if (stored := dtypes()[given].stored_as) != given:
            raise UserError(
                f"{path}: {name}.types.{key} = {given!r} is not allowed; {given} is stored as {stored}"
            )
    return Types(**{key: dtypes()[given] for key, given in entry["types"].items()})


def _baseline(name: str, entry: Mapping[str, Any], path: Path) -> Baseline:
    types, library = _types(name, entry, path), entry["library"]
    one_dtype = types == Types.named(types.ab.name) and types.ab.bytes > 1
    if types.accumulate.name != SUMS or (library != "cublaslt" and not one_dtype):
        allowed = (
            "fp32 sums"
            if library == "cublaslt"
            else "one dtype of 16 bits or more for A, B and C, and fp32 sums"
        )
        raise UserError(
            f"{path}: {name} has types {types.name}, but {library} is called with {allowed}"
        )
    rest = {key: value for key, value in entry.items() if key not in ("dtype", "types")}
    return Baseline(name, types=types, **rest)


def _variant(name: str, entry: dict[str, Any], path: Path) -> Variant:
    def number(key: str, value: int | str, minimum: int = 1) -> int:
        return expand.number(value, entry["template"], f"{path}: {name}.{key}", minimum)

    source = ROOT / entry["source"]
    if not source.is_file() or not source.resolve().is_relative_to(ROOT):
        raise UserError(
            f"{path}: {name}.source = {entry['source']!r}: no such file below {ROOT.name}/"
        )
    if entry.get("textures") and "arguments" in entry:
        raise UserError(
            f"{path}: {name} has both textures and arguments; arguments can name tex_a and tex_b"
        )
    arch, cluster = str(entry.get("arch", 75)), entry.get("cluster", (1, 1))
    types = _types(name, entry, path)
    variant = Variant(
        name=name,
        source=source,
        entry=entry.get("entry", f"{source.parent.name}_{source.stem}"),
        template=entry["template"],
        threads=number("threads", entry["threads"]),
        shared_bytes=number("shared_bytes", entry.get("shared_bytes", 0), minimum=0),
        types=types,
        narrowing=entry.get("narrowing", "truncate"),
        tile={axis: number(f"tile.{axis}", value) for axis, value in entry["tile"].items()},
        raster=entry["raster"],
        multiples={
            key: number(f"multiples.{key}", v) for key, v in entry.get("multiples", {}).items()
        },
        align_bytes=entry.get("align_bytes", max(types.ab.bytes, types.c.bytes)),
        arch=int(arch.removesuffix("a")),
        one_arch=arch.endswith("a"),
        builds_on=entry.get("builds_on"),
        idea=entry["idea"],
        origin=entry.get("origin"),
        baseline=entry["baseline"],
        b_layout=entry.get("b_layout", "row"),
        arguments=_arguments(name, entry, number, path),
        blocks_per_sm=number("blocks_per_sm", entry.get("blocks_per_sm", 0), minimum=0),
        stream_k=entry.get("stream_k", False),
        cluster=(number("cluster", cluster[0]), number("cluster", cluster[1])),
        splits=number("splits", entry.get("splits", 1)),
        cooperative=entry.get("cooperative", False),
        stages=number("stages", entry.get("stages", entry["template"].get("STAGES", 1)), minimum=0),
        sums=entry.get("sums") or {},
        tensor_cores=entry.get("tensor_cores", types.ab.tensor),
    )
    return _checked(variant, path)


def _arguments(
    name: str, entry: dict[str, Any], number: Callable[..., int], path: Path
) -> tuple[Argument, ...]:
    """Return an entry's arguments in the kernel's order.

    Raises `UserError` where a tensor map is none that CUDA takes.
    """
    if "arguments" not in entry:
        return SIGNATURE + (TEXTURES if entry.get("textures") else ())
    arguments: list[Argument] = []
    for given in entry["arguments"]:
        if isinstance(given, str):
            arguments.append(TILE_COUNTER if given == TILE_COUNTER.name else given)
            continue
        ((parameter, fields),) = given.items()
        if parameter in WORKSPACES:
            sizes = {
                key: number(f"{parameter}.{key}", v) for key, v in fields.items() if key != "zeroed"
            }
            arguments.append(Workspace(parameter, zeroed=fields.get("zeroed", "never"), **sizes))
        else:
            rows, columns = (number(f"{parameter}.box", value) for value in fields["box"])
            promotion = number(
                f"{parameter}.l2_promotion", fields.get("l2_promotion", 0), minimum=0
            )
            if promotion not in PROMOTIONS:
                allowed = ", ".join(map(str, PROMOTIONS))
                raise UserError(
                    f"{path}: {name}.{parameter}.l2_promotion = {promotion}; allowed: {allowed}"
                )
            swizzle = fields.get("swizzle", 0)
            arguments.append(TensorMap(parameter, (rows, columns), swizzle, promotion))
    names = [argument if isinstance(argument, str) else argument.name for argument in arguments]
    if twice := next((argument for argument in names if names.count(argument) > 1), None):
        raise UserError(f"{path}: {name}.arguments has {twice!r} twice")
    return tuple(arguments)


def _checked(variant: Variant, path: Path) -> Variant:
    """Return the variant; raise `UserError` for what its keys ask of each other (CUDA driver API,
    cuTensorMapEncodeTiled).
    """
    for spec in variant.arguments:
        if not isinstance(spec, TensorMap):
            continue
        element = variant.types.of(spec.matrix).bytes
        value = f"{path}: {variant.name}.{spec.name}.box = {list(spec.box)}"
        row = spec.box[1] * element
        if max(spec.box) > MAX_BOX:
            raise UserError(f"{value}, but at most {MAX_BOX} rows and columns are allowed")
        if row % 16 or (spec.swizzle and row > spec.swizzle):
            allowed = f"a multiple of 16 bytes{f' up to the swizzle, {spec.swizzle}' if spec.swizzle else ''}"
            raise UserError(f"{value}: a row has {row} bytes; allowed: {allowed}")
        ld = f"ld{spec.matrix.lower()}"
        if variant.multiples.get(ld, 1) * element % 16 or variant.align_bytes % 16:
            raise UserError(
                f"{path}: {variant.name}.{spec.name}: a tensor map needs align_bytes of 16 or more, and multiples of "
                f"{16 // element} in {ld}"
            )
    if variant.textures and variant.dtype != "fp32":
        raise UserError(f"{path}: {variant.name}.dtype = {variant.dtype!r}, but textures hold fp32")
    if variant.textures and variant.b_layout != "row":
        raise UserError(
            f"{path}: {variant.name}.b_layout = {variant.b_layout!r}, but a texture's B is row-major"
        )
    if variant.cluster_blocks > tiles.MAX_CLUSTER_BLOCKS:
        value = f"{path}: {variant.name}.cluster = {list(variant.cluster)}"
        value += f" and splits = {variant.splits}" if variant.splits > 1 else ""
        raise UserError(f"{value}, but a cluster has at most {tiles.MAX_CLUSTER_BLOCKS} blocks")
    return variant


def _launchable(variant: Variant, path: Path) -> Variant:
    """Return the variant; raise `UserError` for a block that no GPU takes.

    A sweep tries such blocks and says why they fail.
    """
    if variant.threads % WARP_THREADS or variant.threads > MAX_BLOCK_THREADS:
        value = f"{path}: {variant.name}.threads = {variant.threads}"
        raise UserError(
            f"{value} is not allowed; allowed: a multiple of {WARP_THREADS} up to {MAX_BLOCK_THREADS}"
        )
    if variant.shared_bytes > MAX_SHARED_BYTES:
        value = f"{path}: {variant.name}.shared_bytes = {variant.shared_bytes}"
        raise UserError(f"{value} is not allowed; allowed: at most {MAX_SHARED_BYTES}")
    return variant


def _dispatcher(
    name: str, entry: dict[str, Any], variants: dict[str, Variant], path: Path
) -> Dispatcher:
    choices = tuple(
        Choice(
            choose(variants, choice["variant"], "variant", f"{path}: {name}.choices"),
            choice.get("at_least", {}),
        )
        for choice in entry["choices"]
    )
    for key in ("dtype", "narrowing", "b_layout", "family", "baseline"):
        values = list(dict.fromkeys(getattr(choice.variant, key) for choice in choices))
        if len(values) > 1:
            raise UserError(
                f"{path}: {name}.choices have {key} {' and '.join(values)}, but it must be one"
            )
    flags = {key: entry.get(key, False) for key in ("predicted", "any_tile")}
    return Dispatcher(
        name, choices, entry.get("builds_on"), entry["idea"], entry.get("origin"), **flags
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="List the catalogue as a table.")
    parser.add_argument("--out", required=True, type=Path, metavar="variants.csv")
    options = parser.parse_args()
    write_rows(options.out, Variants, load().rows())


if __name__ == "__main__":
    run_command(main)
