"""Options that commands share, each once."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contracts import UserError, choose, parse_yaml_value, validated
from contracts.declared import Entries
from kernels import catalogue
from kernels.catalogue import Baseline, Catalogue, Entry, Runnable, Variant
from kernels.problem import ProblemSpec
from ptxsim import PtxsimError
from ptxsim.count import machines
from ptxsim.count.machines import Machine
from ptxsim.ptx.templates import Template, kernel_templates

# These options say what the entry of a kernel outside the catalogue would: metavar and help.
ENTRY_OPTIONS = {
    "entry": ("NAME", "its __global__ template; the only one there when left out"),
    "template": ("NAME=VALUE", "values of template parameters"),
    "threads": ("N", "of the one-dimensional block"),
    "shared_bytes": ("N", "dynamic shared memory of a block"),
    "tile": ("AXIS=VALUE", "m, n and k: numbers or parameters"),
    "multiples": ("KEY=VALUE", "what m, n, k must be multiples of"),
}
GPU = "h100"


def add_build_dir(parser: argparse.ArgumentParser) -> None:
    """Add --build-dir, the folder of the cubins; and `catalogue`, which the command goes by."""
    folder = "folder of the cubins and their PTX"
    parser.add_argument("--build-dir", required=True, type=Path, help=folder)
    parser.set_defaults(catalogue=catalogue.load())


def add_variant(parser: argparse.ArgumentParser) -> None:
    """Add the name of one entry of the catalogue."""
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")


def add_variants(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the names of entries of the catalogue."""
    names, count = "names in kernels/catalogue.yaml", "+" if required else "*"
    parser.add_argument("variants", nargs=count, metavar="VARIANT", help=names)


def add_problems(parser: argparse.ArgumentParser, which: str, required: bool = False) -> None:
    """Add --problem, of which there may be several, as `ProblemSpec` reads them."""
    text = f"problems {which}: N (m = n = k) or MxNxK, alpha, beta and B's layout after commas: 64x4096x512,beta=1"
    count: dict[str, Any] = {"nargs": "+" if required else "*", "required": required, "default": []}
    parser.add_argument("--problem", type=ProblemSpec.parse, metavar="PROBLEM", help=text, **count)


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """Add --gpu, whose rates minimum cycles are computed with."""
    text = "minimum cycles are of this GPU: the first name that ptxsim knows, or a .toml file "
    text += f"(default: {GPU})"
    parser.add_argument("--gpu", nargs="+", default=[GPU], metavar="NAME", help=text)


def find_gpu(names: Sequence[str]) -> Machine:
    """Return the rates of the first GPU of `names` that ptxsim knows, or those in a .toml file.

    Raises `UserError` with the names that are accepted.
    """
    known = [name for name in names if name in machines.PRESETS]
    try:
        return machines.find(*known[:1] or names[-1:])
    except PtxsimError as error:
        raise UserError(f"--gpu: {error}") from error


def find_runnable(known: Catalogue, name: str, instead: str) -> Runnable:
    """Return the kernel or dispatcher of this name.

    Raises `UserError` for a library, with what is done `instead`.
    """
    entry = known.find(name)
    if isinstance(entry, Baseline):
        raise UserError(f"{name} is a library baseline: {instead}")
    return entry


def add_store(parser: argparse.ArgumentParser) -> None:
    """--store, the folder of stored measurements."""
    words = "folder of stored measurements: what is there is not measured again"
    parser.add_argument("--store", required=True, type=Path, metavar="DIR", help=words)


def add_manifest(parser: argparse.ArgumentParser) -> None:
    """--store and --out, the job's manifest of its stored measurements."""
    add_store(parser)
    words = "written: which stored measurements these are"
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help=words)


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add an entry of the catalogue by name, or a .cu file that is not in it with its entry."""
    parser.add_argument("variant", help="name in kernels/catalogue.yaml, or a .cu file with --like")
    group = parser.add_argument_group("a .cu file that is not in the catalogue")
    like = "its entry would be this one's, but for the options below"
    group.add_argument("--like", metavar="VARIANT", help=like)
    for key, (metavar, description) in ENTRY_OPTIONS.items():
        kind: dict[str, Any] = {"type": int if metavar == "N" else str}
        if "=" in metavar:
            kind = {"nargs": "+", "default": []}
        group.add_argument(_option(key), metavar=metavar, help=description, **kind)


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of an entry that are not left out; 0 is one of them."""
    values = {key: getattr(options, key) for key in ENTRY_OPTIONS}
    return {key: value for key, value in values.items() if value not in (None, [])}


def find_kernel(options: argparse.Namespace) -> Entry:
    """Return what the options of `add_kernel` name. Raises `UserError` for what is wrong in them."""
    known: Catalogue = options.catalogue
    given = _given(options)
    if Path(options.variant).suffix != ".cu":
        if options.like or given:
            option = "--like" if options.like else _option(next(iter(given)))
            raise UserError(
                f"{option} goes with a .cu file, not with the catalogue's {options.variant!r}"
            )
        return known.find(options.variant)
    if not options.like:
        raise UserError(
            f"{options.variant}: a .cu file goes with --like VARIANT, the entry that it resembles"
        )
    changes = {
        k: _pairs(k, value) if isinstance(value, list) else value for k, value in given.items()
    }
    return own_kernel(known, Path(options.variant), options.like, changes)


def own_kernel(known: Catalogue, source: Path, like: str, changes: Mapping[str, Any]) -> Variant:
    """Return a kernel outside the catalogue, whose entry is that of `like` but for `changes`.

    It builds on `like`, and its name is the file's. Its function, if `changes` has no `entry`, is
    the only `__global__` template there. Raises `UserError` for what is wrong in these.
    """
    there = {template.name: template for template in templates(source)}
    written = catalogue.entries_of(known.file)
    entry = dict(choose(written["variants"], like, "variant", f"kernels/{known.file.name}"))
    usual = f"{entry['source'].split('/')[0]}_{source.stem}"
    function = changes.get("entry", next(iter(there)) if len(there) == 1 else usual)
    if not there:
        raise UserError(
            f"{source}: no __global__ template: what is tried is a GEMM (docs/add-a-kernel.md);"
            " allowed for any other kernel: python -m ptxsim annotate FILE.cu"
        )
    if function not in there:
        names = ", ".join(there)
        raise UserError(
            f"{source}: no __global__ template {function!r}; there: {names}; name one with --entry"
        )
    # The template values are the entry's and the given ones, in the order of the parameters.
    parameters = there[function].parameters
    values = {**entry["template"], **changes.get("template", {})}
    if unknown := [name for name in changes.get("template", {}) if name not in parameters]:
        raise UserError(
            f"{source}: {function} has no template parameter {unknown[0]!r}; "
            f"it has: {', '.join(parameters)}"
        )
    needed = [name for name in parameters if name not in there[function].defaulted]
    if missing := [name for name in needed if name not in values]:
        raise UserError(
            f"{source}: {function} has a template parameter {missing[0]!r}, for which {like} has "
            f"no value; give one with --template {missing[0]}=..."
        )
    entry.pop("origin", None)
    entry |= {**changes, "builds_on": like, "entry": function, "idea": f"like {like}"}
    entry["template"] = {name: values[name] for name in parameters if name in values}
    name = re.sub(r"[^a-z0-9_]+", "_", source.stem.lower())
    name = name if name[0].isalpha() and name not in known else f"own_{name}"
    validated({"variants": {name: entry}, "baselines": written["baselines"]}, Entries, source)
    return replace(known.made_of(name, entry), source=source.resolve())


def templates(source: Path) -> list[Template]:
    """Return the `__global__` templates of a CUDA source, as far as they are written out."""
    if not source.is_file():
        raise UserError(f"cannot read {source}: no such file")
    return kernel_templates(source.read_text())


def kernel_arguments(options: argparse.Namespace) -> list[str]:
    """Return the same options again, to name that kernel to another process."""
    arguments = [options.variant, *(["--like", options.like] if options.like else [])]
    for key, value in _given(options).items():
        arguments += [_option(key), *(value if isinstance(value, list) else [str(value)])]
    return arguments


def _pairs(key: str, given: list[str]) -> dict[str, Any]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--{key}: {text!r} is not NAME=VALUE")
        pairs[name] = parse_yaml_value(value, f"--{key}")
    return pairs


def add_checked(parser: argparse.ArgumentParser) -> None:
    """--checked, the manifests of checks without whose consent nothing is timed or profiled."""
    description = "manifests of these variants' checks; one that failed there is not measured"
    parser.add_argument(
        "--checked", type=Path, nargs="+", default=[], metavar="FILE", help=description
    )
