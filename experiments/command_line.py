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

# Options of a kernel that is not in the catalogue: keys of an entry, and how each is read
OWN = ("entry", "threads", "shared_bytes", "template", "tile", "multiples")
PAIRS = ("template", "tile", "multiples")
GPU = "h100"


def add_build_dir(parser: argparse.ArgumentParser) -> None:
    """--build-dir, the folder of the cubins; and `catalogue`, which the command goes by."""
    parser.add_argument(
        "--build-dir", required=True, type=Path, help="folder of the cubins and their PTX"
    )
    parser.set_defaults(catalogue=catalogue.load())


def add_variant(parser: argparse.ArgumentParser) -> None:
    """The name of one entry of the catalogue."""
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")


def add_variants(parser: argparse.ArgumentParser) -> None:
    """The names of entries of the catalogue."""
    parser.add_argument(
        "variants", nargs="+", metavar="VARIANT", help="names in kernels/catalogue.yaml"
    )


def add_problems(parser: argparse.ArgumentParser, which: str, required: bool = False) -> None:
    """--problem, of which there may be several, as `ProblemSpec` reads them."""
    words = f"problems {which}: N (m = n = k) or MxNxK, alpha, beta and B's layout after commas: 64x4096x512,beta=1"
    parser.add_argument(
        "--problem",
        type=ProblemSpec.parse,
        nargs="+" if required else "*",
        default=[],
        required=required,
        metavar="PROBLEM",
        help=words,
    )


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """--gpu, whose rates minimum cycles are computed with."""
    parser.add_argument(
        "--gpu",
        nargs="+",
        default=[GPU],
        metavar="NAME",
        help="minimum cycles are of this GPU: the first name that ptxsim knows, or a .toml file "
        f"(default: {GPU})",
    )


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
    """The kernel or dispatcher of this name.

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
    """One entry of the catalogue by name, or a .cu file that is not in it, with what an entry would
    say.
    """
    parser.add_argument("variant", help="name in kernels/catalogue.yaml, or a .cu file with --like")
    own = parser.add_argument_group("a .cu file that is not in the catalogue")
    own.add_argument(
        "--like", metavar="VARIANT", help="its entry would be this one's, but for the options below"
    )
    own.add_argument(
        "--entry", metavar="NAME", help="its __global__ template; the only one there when left out"
    )
    own.add_argument(
        "--template",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="values of template parameters",
    )
    own.add_argument("--threads", type=int, help="of the one-dimensional block")
    own.add_argument("--shared-bytes", type=int, help="dynamic shared memory of a block")
    own.add_argument(
        "--tile",
        nargs="+",
        default=[],
        metavar="AXIS=VALUE",
        help="m, n and k: numbers or parameters",
    )
    own.add_argument(
        "--multiples",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="what m, n, k must be multiples of",
    )


def find_kernel(options: argparse.Namespace) -> Entry:
    """What the options of `add_kernel` name. Raises `UserError` for what is wrong in them."""
    given = {key: getattr(options, key) for key in OWN if getattr(options, key) not in (None, [])}
    if Path(options.variant).suffix != ".cu":
        if options.like or given:
            option = "like" if options.like else next(iter(given)).replace("_", "-")
            raise UserError(
                f"--{option} goes with a .cu file, not with the catalogue's {options.variant!r}"
            )
        known: Catalogue = options.catalogue
        return known.find(options.variant)
    if not options.like:
        raise UserError(
            f"{options.variant}: a .cu file goes with --like VARIANT, the entry that it resembles"
        )
    changes = {key: _pairs(key, value) if key in PAIRS else value for key, value in given.items()}
    return own_kernel(options.catalogue, Path(options.variant), options.like, changes)


def own_kernel(known: Catalogue, source: Path, like: str, changes: Mapping[str, Any]) -> Variant:
    """A kernel that is not in the catalogue, with the entry of the variant `like` but for `changes`
    (keys of an entry); it builds on that. Its name is the file's; its entry, if `changes` has none,
    the only `__global__` template there.

    Raises `UserError` for what is wrong in these.
    """
    there = {template.name: template for template in templates(source)}
    written = catalogue.entries_of(known.file)
    entry = dict(choose(written["variants"], like, "variant", f"kernels/{known.file.name}"))
    only = (
        next(iter(there)) if len(there) == 1 else f"{entry['source'].split('/')[0]}_{source.stem}"
    )
    function = changes.get("entry", only)
    if function not in there:
        names = ", ".join(there) or "none"
        raise UserError(
            f"{source}: no __global__ template {function!r}; there: {names}; name one with --entry"
        )
    parameters = there[function].parameters
    given = {**entry["template"], **changes.get("template", {})}
    if unknown := [name for name in changes.get("template", {}) if name not in parameters]:
        has = ", ".join(parameters)
        raise UserError(
            f"{source}: {function} has no template parameter {unknown[0]!r}; it has: {has}"
        )
    entry = {key: value for key, value in entry.items() if key != "origin"}
    entry |= {**changes, "builds_on": like, "entry": function, "idea": f"like {like}"}
    entry["template"] = {name: given[name] for name in parameters if name in given}
    if missing := [name for name in parameters if name not in (*there[function].defaulted, *given)]:
        said = f"{function} has a template parameter {missing[0]!r}, for which {like} has no value"
        raise UserError(f"{source}: {said}; give one with --template {missing[0]}=...")
    name = re.sub(r"[^a-z0-9_]+", "_", source.stem.lower())
    name = name if name[0].isalpha() and name not in known else f"own_{name}"
    validated({"variants": {name: entry}, "baselines": written["baselines"]}, Entries, source)
    return replace(known.made_of(name, entry), source=source.resolve())


def templates(source: Path) -> list[Template]:
    """The `__global__` templates of a CUDA source, as far as they are written out."""
    if not source.is_file():
        raise UserError(f"cannot read {source}: no such file")
    return kernel_templates(source.read_text())


def kernel_arguments(options: argparse.Namespace) -> list[str]:
    """The same options again, to name that kernel to another process."""
    arguments = [options.variant, *(["--like", options.like] if options.like else [])]
    for key in OWN:
        if (value := getattr(options, key)) not in (None, []):
            arguments += [
                f"--{key.replace('_', '-')}",
                *(value if isinstance(value, list) else [str(value)]),
            ]
    return arguments


def _pairs(key: str, given: list[str]) -> dict[str, Any]:
    wrong = next((text for text in given if not text.partition("=")[2]), None)
    if wrong is not None:
        raise UserError(f"--{key}: {wrong!r} is not NAME=VALUE")
    return {
        name: parse_yaml_value(value, f"--{key}")
        for name, _, value in (text.partition("=") for text in given)
    }


def add_checked(parser: argparse.ArgumentParser) -> None:
    """--checked, the manifests of checks without whose consent nothing is timed or profiled."""
    description = "manifests of these variants' checks; one that failed there is not measured"
    parser.add_argument(
        "--checked", type=Path, nargs="+", default=[], metavar="FILE", help=description
    )
