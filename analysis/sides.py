"""The two sides of a claim's comparison with their units, as tables print them: "more than 548 GB"
claimed, "6.85 GB" measured.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from analysis.counters import COUNTERS
from analysis.estimates import number

OF_ONE = {"fraction", "fractions", "fraction_per_clock", "fraction_of_cublas", "occupancy"}
UNITS = {
    "speedup": "×",
    "tflops": "TFLOP/s",
    "fp32_fma_tflops": "TFLOP/s",
    "time_us": "µs",
    "sm_clock_mhz": "MHz",
    "sm_clock_max_mhz": "MHz",
    "power_w": "W",
    "power_limit_w": "W",
    "gflop_per_j": "GFLOP/J",
    "flop_per_clock_sm": "FLOP/clock/SM",
    "minimum_cycles": "cycles",
    "degree": "ways",
    "blocks_per_sm": "blocks per SM",
    "stores_need": "wavefronts",
    "sass_total": "instructions",
    "ffma": "FFMA",
}
# The last word of a name that is a unit: shared_load_wavefronts, texture_alignment_bytes
COUNTED = (
    "wavefronts",
    "sectors",
    "requests",
    "instructions",
    "conflicts",
    "bytes",
    "banks",
    "registers",
)
WRITTEN = {"x": "×", "us": "µs", "count": "", "index": "", "mask": ""}  # Units of published.csv.
CLAIMED = {"=": "", ">": "more than ", ">=": "at least ", "<": "less than ", "<=": "at most "}
COMPARED = re.compile(r"(.+?) (=|>=|<=|>|<) (.+?)(?: to the nearest .+)?")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def sides(test: str, words: str, published: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what a claim says and what was found, as texts; None for words that compare nothing.

    :param test: the claim's expression, of which the units follow.
    :param words: its comparisons with their values (`estimates.Truth`).
    :param published: the unit of each number of the claim's worklog, by id.
    """
    if "not (" in words:
        return None
    pieces = re.split(r" and | or ", words)
    units = [*_units(ast.parse(test, mode="eval").body, published)]
    units = units if len(units) == len(pieces) else [""] * len(pieces)
    found = [_sides(piece, unit) for piece, unit in zip(pieces, units, strict=True)]
    pairs = [pair for pair in found if pair]
    if len(pairs) < len(found):
        return None
    claimed, measured = zip(*pairs, strict=True)
    if " or " in words:  # of one value
        return " or ".join(claimed), measured[0]
    return "; ".join(claimed), "; ".join(measured)


def _sides(piece: str, unit: str) -> tuple[str, str] | None:
    if match := COMPARED.fullmatch(piece):
        measured, sign, claimed = match[1], match[2], match[3]
        texts = [_with_unit(text, unit) for text in (measured, claimed)]
        if texts[0] == texts[1] and measured != claimed:  # They differ in later digits.
            texts = [_with_unit(text, unit, whole=True) for text in (measured, claimed)]
        return CLAIMED[sign] + texts[1], texts[0]
    if match := re.fullmatch(r"'(.+)' in (.+)", piece):
        return match[1], match[2]
    if match := re.fullmatch(r"(\w+)(?:, not (\w+))?", piece):  # a word, and the one that it is not
        return match[2] or match[1], match[1]
    return None


def _with_unit(text: str, unit: str, whole: bool = False) -> str:
    """Return a value with its interval, numbers of a million and more in short unless `whole`."""
    if not NUMBER.match(text):
        return text
    fraction = unit == "fraction"

    def written(match: re.Match[str]) -> str:
        value, decimals = float(match[0]), len(match[0].partition(".")[2])
        if fraction:
            return f"{100 * value:.{max(0, decimals - 2)}f}"
        if abs(value) >= 1e6 and not whole:
            scale, prefix = (1e9, "G") if abs(value) >= 1e9 else (1e6, "M")
            return f"{number(value / scale)} {prefix}"
        return f"{value:,.0f}" if abs(value) >= 1e4 else match[0]

    if text == "1":
        unit = re.sub(r"s\b", "", unit, count=1)
    space = "" if unit in ("fraction", "%", "×", "") else " "
    return NUMBER.sub(written, text) + space + ("%" if fraction else unit)


def _units(node: ast.expr, published: Mapping[str, str]) -> Iterator[str]:
    """The unit of each comparison of a test, in order."""
    match node:
        case ast.BoolOp(values=nodes) | ast.Call(func=ast.Name(id="all_of" | "any_of"), args=nodes):
            for part in nodes:
                yield from _units(part, published)
        case ast.Compare(left=left, comparators=others):
            unit = next(filter(None, (_unit(part, published) for part in (left, *others))), "")
            yield from [unit] * len(others)
        case ast.Call(func=ast.Name(id="rounds_to"), args=[ours, theirs, *_]):
            yield _unit(theirs, published) or _unit(ours, published)
        case _:
            yield ""


def _unit(node: ast.expr, published: Mapping[str, str]) -> str:
    """The unit of a value; "fraction" of one, "" where it has none or this cannot tell."""
    match node:
        case ast.Call(func=ast.Name(id="published"), args=[ast.Constant(value=str(name)), *_]):
            unit = published.get(name, "")
            return WRITTEN.get(unit, unit)
        case ast.Call(
            func=ast.Name(id="cell" | "analytic"), args=[_, ast.Constant(value=name), *_]
        ):
            return _unit_of(str(name))
        case ast.Call(func=ast.Name(id="tile"), args=[ast.Constant(value=name), *_]):
            return _unit_of(str(name))
        case ast.Call(func=ast.Name(id=name)) if unit := _unit_of(name):
            return unit
        case ast.Call(args=[part, *_]) | ast.List(elts=[part, *_]):  # min, max, mean, abs
            return _unit(part, published)
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
            return _unit(part, published)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _unit(left, published) or _unit(right, published)
    return ""


def _unit_of(name: str) -> str:
    """The unit of a quantity by its name."""
    if name in OF_ONE:
        return "fraction"
    last = name.rpartition("_")[2]
    counter = COUNTERS[name].unit if name in COUNTERS else ""
    load = "instructions" if re.fullmatch(r"(ld|st)[gs]_\d+", name) else ""
    return UNITS.get(name) or counter or load or (last if last in COUNTED else "")
