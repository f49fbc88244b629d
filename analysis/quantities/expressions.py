"""The grammar in which a document, a claim or a finding asks for numbers, and its evaluator.

    sgemm_warptile.share                                  a quantity of a variant, at n = 4096
    hgemm_naive_bf16.tflops[8192, data=zeros]             with selectors: n first, then data, experiment, regime, ...
    cublas_fp32.speedup[over=sgemm_naive]                 of two variants
    sgemm_warptile.share[machine=h100]                    of the archive data/h100; without it, of this run's machine
    min([v.share[n] for v in (sgemm_naive, sgemm_coalesced) for n in v.sizes])
    100 * (published("a-peak-compute") / 30 - 1) < 5      arithmetic, comparisons and functions

Quantities are those of `analysis.quantities.registry`; which functions there are, the caller says. Values are
estimates, and a comparison is true, false, or undecided where intervals overlap.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.quantities import estimates
from analysis.quantities.estimates import Estimate, Truth
from analysis.quantities.registry import SOURCES, Noise, Quantity, quantities
from contracts import UserError
from contracts.errors import LONGEST as LONGEST_SHOWN
from contracts.errors import one_line, quoted, suggest

SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: estimates.add,
    ast.Sub: estimates.subtract,
    ast.Mult: estimates.multiply,
    ast.Div: estimates.divide,
    ast.Pow: estimates.power,
    ast.FloorDiv: estimates.whole(lambda a, b: a // b),
    ast.Mod: estimates.whole(lambda a, b: a % b),
    ast.USub: lambda a: -Estimate.of(a),
    ast.UAdd: Estimate.of,
    ast.Not: estimates.opposite,
}
SELECTED = re.compile(r"(\b[A-Za-z_]\w*\.[A-Za-z_]\w*)\[([^\[\]]*)\]")  # parsed as a call, for the sake of data=zeros
CALLED = re.compile(r"\b[A-Za-z_]\w*\.[A-Za-z_]\w*\s*\(")
LONGEST = 4000  # characters of an expression
DEEPEST = 40  # operations and calls within each other; a sum of more terms than that is a list for sum(...)
STEPS = 200_000  # evaluated parts, those of comprehensions each time
# What a function raises that was given an argument of another kind than it takes
NOT_TAKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

Functions = Mapping[str, Callable[..., Any]]
Lookup = Callable[..., Any]  # (variant, key, **selectors): the value of a quantity


@dataclass(frozen=True)
class Reference:
    """A quantity that an expression names. `name`: a variant, or what a comprehension calls one."""

    name: str
    quantity: Quantity
    selectors: dict[str, ast.expr]
    text: str

    @property
    def source(self) -> str:
        """The table that it reads."""
        changed = {name for name, part in self.selectors.items() if ast.unparse(part) not in ("gpu", "0")}
        return self.quantity.read_from(changed)

    @property
    def noise(self) -> Noise:
        return self.quantity.noise_of(self.source)


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its tree, the quantities that it names, and the functions that it calls."""

    text: str
    tree: ast.expr = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Raises `UserError` for what is no expression, or names a quantity that is none."""
        text = " ".join(text.split())
        if len(text) > LONGEST:
            raise UserError(f"{len(text)} characters are not allowed; allowed: at most {LONGEST}")
        if found := CALLED.search(text):
            raise UserError(f"{found[0]}...) is not allowed; allowed: selectors in square brackets")
        try:
            parsed = ast.parse(SELECTED.sub(r"\1(\2)", text), mode="exec").body
            if len(parsed) != 1 or not isinstance(parsed[0], ast.Expr):
                raise UserError("not an expression")
            _refuse_depth(parsed[0])
        except SyntaxError as error:
            raise UserError(f"not an expression ({one_line(error.msg)})") from error
        except (ValueError, MemoryError, RecursionError) as error:  # of the parser: a NUL, too many digits or brackets
            raise UserError(f"not an expression ({one_line(str(error)) or 'nested too deeply'})") from error
        return cls(text, parsed[0].value)

    @property
    def references(self) -> list[Reference]:
        """The quantities that it names, in order."""
        inner = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        return [
            reference(node)
            for node in ast.walk(self.tree)
            if (isinstance(node, ast.Attribute) and id(node) not in inner) or _selects(node)
        ]

    @property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """The functions that it calls, by name."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        return [(call.func.id, call) for call in calls if isinstance(call.func, ast.Name)]

    def sources(self, of_functions: Mapping[str, str]) -> set[str]:
        """The tables that it reads; `of_functions`: those of functions that read one, by name."""
        return {one.source for one in self.references} | {of_functions[f] for f, _ in self.calls if f in of_functions}

    def noise(self, of_functions: Mapping[str, str]) -> Noise:
        """The noisiest of what it rests on."""
        of = [SOURCES[of_functions[name]].noise for name, _ in self.calls if name in of_functions]
        return max([Noise.PAPER, *of, *(one.noise for one in self.references)])

    def evaluate(self, functions: Functions, lookup: Lookup | None = None) -> Any:
        """The value: an `Estimate`, a `Truth`, a number, a text or sizes.

        Raises `UserError` for what no machine can evaluate; what `lookup` and functions raise passes through.
        """
        try:
            return _Evaluation(functions, lookup).value(self.tree, {})
        except NOT_TAKEN as error:  # a part that its operation does not take
            raise UserError(f"cannot be evaluated ({one_line(str(error))})") from error


def reference(node: ast.AST) -> Reference:
    """The quantity that a part of a tree names."""
    call = node if isinstance(node, ast.Call) else None
    named = call.func if call else node
    shown = shown_text(node)
    if not isinstance(named, ast.Attribute) or not isinstance(named.value, ast.Name):
        raise UserError(f"{shown} is not allowed; allowed: VARIANT.QUANTITY[SELECTORS]")
    if named.attr not in quantities():
        raise UserError(f"unknown quantity {named.attr!r} in {shown}; {suggest(named.attr, quantities())}")
    selectors: dict[str, ast.expr] = {}
    if call:
        if len(call.args) > 1 or any(keyword.arg is None for keyword in call.keywords):
            raise UserError(f"{shown} is not allowed; allowed: n, then selectors such as data=zeros")
        selectors = dict(zip("n", call.args, strict=False)) | {str(one.arg): one.value for one in call.keywords}
    return Reference(named.value.id, quantities()[named.attr], selectors, shown)


def shown_text(node: ast.AST) -> str:
    """A part of an expression as its author writes it."""
    text = ast.unparse(node).replace("'", '"')
    return re.sub(r"(\b[A-Za-z_]\w*\.[A-Za-z_]\w*)\(([^()]*)\)", r"\1[\2]", text)


def _selects(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


class _Evaluation:
    """One evaluation: where the values come from, and how many steps it took."""

    def __init__(self, functions: Functions, lookup: Lookup | None):
        self.functions, self.lookup, self.steps = functions, lookup, 0

    def value(self, node: ast.AST, names: Mapping[str, Any]) -> Any:
        """The value of a part; `names`: those that comprehensions around it bind."""
        self.steps += 1
        if self.steps > STEPS:
            raise UserError(f"takes more than {STEPS} steps")
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.Name(id=name):
                return names.get(name, name)
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](self.value(operand, names))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](self.value(left, names), self.value(right, names))
            case ast.BoolOp(op=sign, values=parts):
                values = [self.value(part, names) for part in parts]
                if odd := [value for value in values if not isinstance(value, Truth)]:
                    raise UserError(f"{odd[0]}: {estimates.JOINED}")
                return estimates.both(values) if isinstance(sign, ast.And) else estimates.either(values)
            case ast.Compare(left=left, ops=signs, comparators=others):
                values = [self.value(part, names) for part in (left, *others)]
                return estimates.both([self._compare(*part) for part in zip(signs, values, values[1:], strict=False)])
            case ast.Attribute() | ast.Call(func=ast.Attribute()):
                return self._quantity(node, names)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node, names)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part, names) for part in parts)
            case ast.ListComp(elt=part, generators=loops) | ast.GeneratorExp(elt=part, generators=loops):
                return tuple(self.value(part, bound) for bound in self._bound(loops, names))
        raise UserError(
            f"{shown_text(node)} is not allowed; allowed: arithmetic, comparisons, quantities and functions"
        )

    def _bound(self, loops: list[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not loops:
            yield names
            return
        first, *rest = loops
        if not isinstance(first.target, ast.Name):
            raise UserError(f"for {ast.unparse(first.target)} is not allowed; allowed: one name")
        values = self.value(first.iter, names)
        if not isinstance(values, tuple):
            raise UserError(f"{shown_text(first.iter)} is not allowed after in; allowed: sizes or a list")
        for value in values:
            bound = {**names, first.target.id: value}
            if all(self.value(condition, bound) for condition in first.ifs):
                yield from self._bound(rest, bound)

    def _compare(self, sign: ast.cmpop, a: Any, b: Any) -> Truth:
        if type(sign) not in SIGNS:
            raise UserError(f"the comparison {type(sign).__name__} is not allowed; allowed: {' '.join(SIGNS.values())}")
        return estimates.compare(SIGNS[type(sign)], a, b)

    def _quantity(self, node: ast.AST, names: Mapping[str, Any]) -> Any:
        asked = reference(node)
        if self.lookup is None:
            raise UserError(f"{asked.text} is not allowed here; allowed: numbers and functions")
        selectors = {name: self.value(part, names) for name, part in asked.selectors.items()}
        return self.lookup(names.get(asked.name, asked.name), asked.quantity.key, **selectors)

    def _call(self, name: str, node: ast.Call, names: Mapping[str, Any]) -> Any:
        if name not in self.functions:
            raise UserError(f"unknown function {name!r}; {suggest(name, self.functions)}")
        function = self.functions[name]
        values = [self.value(value, names) for value in node.args]
        named = {str(keyword.arg): self.value(keyword.value, names) for keyword in node.keywords}
        if getattr(function, "of_names", False):  # which of several variants: their names come with their values
            values = [{reference(part).name: value for part, value in zip(node.args, values, strict=True)}]
        try:
            inspect.signature(function).bind(*values, **named)
        except TypeError as error:
            raise UserError(f"{error}; it is {usage(name, function)}") from error
        try:
            return function(*values, **named)
        except NOT_TAKEN as error:
            given = ", ".join([*map(_shown, values), *(f"{name}={_shown(value)}" for name, value in named.items())])
            raise UserError(f"{name}({given}): arguments that it does not take ({error})") from error


def usage(name: str, function: Callable[..., Any]) -> str:
    """How an expression calls a function: its parameters and their defaults, without types."""
    parameters = [part for part in inspect.signature(function).parameters.values() if part.name != "self"]
    signature = inspect.Signature([part.replace(annotation=part.empty) for part in parameters])
    return f"{name}{signature}".replace("'", '"')


def _shown(value: Any) -> str:
    """An argument in an error."""
    return quoted(value) if isinstance(value, (str, list, tuple)) else one_line(str(value))[:LONGEST_SHOWN]


def _refuse_depth(tree: ast.AST) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST + 2):  # the expression statement and the innermost constants are levels, too
        level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if not level:
            return
    raise UserError(f"more than {DEEPEST} operations within each other; of a long sum, make a list: sum([...])")


def evaluate(text: str, functions: Functions, lookup: Lookup | None = None) -> Any:
    """The value of an expression; see `Expression`."""
    return Expression.parse(text).evaluate(functions, lookup)
