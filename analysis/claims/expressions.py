"""Evaluates a claim's expression: arithmetic and comparisons over the functions that it is given, and nothing else."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from simpleeval import EvalWithCompoundTypes, FunctionNotDefined, InvalidExpression, NameNotDefined

from analysis.claims import estimates
from analysis.claims.estimates import Truth
from contracts import UserError
from contracts.errors import LONGEST as LONGEST_SHOWN
from contracts.errors import one_line, quoted, suggest

SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
OPERATORS = {
    ast.Add: estimates.add,
    ast.Sub: estimates.subtract,
    ast.Mult: estimates.multiply,
    ast.Div: estimates.divide,
    ast.Pow: estimates.power,
    ast.FloorDiv: estimates.whole(lambda a, b: a // b),
    ast.Mod: estimates.whole(lambda a, b: a % b),
    ast.USub: lambda a: -estimates.Estimate.of(a),
    ast.UAdd: estimates.Estimate.of,
    ast.Not: estimates.opposite,
}
ALLOWED = (
    *(ast.Expr, ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Constant),
    *(ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp, ast.Lambda),
)
LONGEST = 4000  # characters of an expression
DEEPEST = 40  # operations and calls within each other; a sum of more terms than that is a list for sum(...)
STEPS = 200_000  # evaluated parts, those of comprehensions and lambdas each time
# What a function raises that was given an argument of another kind than it takes
NOT_TAKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def called(name: str, function: Callable[..., Any]) -> str:
    """How an expression calls a function: its parameters and their defaults, without types."""
    parameters = [part for part in inspect.signature(function).parameters.values() if part.name != "self"]
    return f"{name}{inspect.Signature([part.replace(annotation=part.empty) for part in parameters])}"


class Evaluator(EvalWithCompoundTypes):  # type: ignore[misc]  # simpleeval has no types
    """Estimates in place of numbers, three-valued comparisons, and `lambda n: ...` for functions of a size."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]):
        super().__init__(operators=OPERATORS, functions={}, names={})
        self.functions = dict(functions)
        self.names: dict[str, Any]
        self.nodes: dict[type[ast.AST], Callable[..., Any]]
        self.nodes |= {
            ast.Compare: self._compare,
            ast.BoolOp: self._boolean,
            ast.Call: self._call,
            ast.Lambda: self._lambda,
        }
        self.nodes = {node: handler for node, handler in self.nodes.items() if node in ALLOWED}
        self.steps = 0

    def _eval(self, node: ast.AST) -> Any:
        self.steps += 1
        if self.steps > STEPS:
            raise UserError(f"takes more than {STEPS} steps")
        return super()._eval(node)

    def _compare(self, node: ast.Compare) -> Truth:
        values = [self._eval(part) for part in (node.left, *node.comparators)]
        parts = []
        for sign, a, b in zip(node.ops, values, values[1:], strict=False):
            if type(sign) not in SIGNS:
                raise UserError(
                    f"the comparison {type(sign).__name__} is not allowed; allowed: {' '.join(SIGNS.values())}"
                )
            parts.append(estimates.compare(SIGNS[type(sign)], a, b))
        return estimates.both(parts)

    def _boolean(self, node: ast.BoolOp) -> Truth:
        parts = [self._eval(part) for part in node.values]
        for part in parts:
            if not isinstance(part, Truth):
                raise UserError(f"{part}: {estimates.JOINED}")
        return estimates.both(parts) if isinstance(node.op, ast.And) else estimates.either(parts)

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            raise UserError("only functions of the vocabulary are called, by their name")
        if node.func.id not in self.functions:
            raise FunctionNotDefined(node.func.id, self.expr)
        function = self.functions[node.func.id]
        values = [self._eval(value) for value in node.args]
        named = dict(self._eval(keyword) for keyword in node.keywords)
        try:
            inspect.signature(function).bind(*values, **named)
        except TypeError as error:
            usage = called(node.func.id, function).replace("'", "")
            raise UserError(f"{error}; it is {usage}") from error
        try:
            return function(*values, **named)
        except NOT_TAKEN as error:
            given = ", ".join([*map(_shown, values), *(f"{name}={_shown(value)}" for name, value in named.items())])
            raise UserError(f"{node.func.id}({given}): arguments that it does not take ({error})") from error

    def _lambda(self, node: ast.Lambda) -> Callable[[Any], Any]:
        names = [argument.arg for argument in node.args.args]
        if len(names) != 1:
            raise UserError("a lambda here has one argument, the size")

        def call(value: Any) -> Any:
            before = self.names
            self.names = {**before, names[0]: value}
            try:
                return self._eval(node.body)
            finally:
                self.names = before

        return call


def _shown(value: Any) -> str:
    """An argument in an error."""
    if isinstance(value, (str, list, tuple)):
        return quoted(value)
    return "a lambda" if callable(value) else one_line(str(value))[:LONGEST_SHOWN]


def _refuse_depth(tree: ast.AST) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST + 2):  # the expression statement and the innermost constants are levels, too
        level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if not level:
            return
    raise UserError(f"more than {DEEPEST} operations within each other; of a long sum, make a list: sum([...])")


def evaluate(expression: str, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of an expression: an `Estimate`, a `Truth`, a number or a name.

    Raises `UserError` for what cannot be evaluated on any machine; what the functions raise passes through.
    """
    if len(expression) > LONGEST:
        raise UserError(f"{len(expression)} characters are not allowed; allowed: at most {LONGEST}")
    try:
        parsed = ast.parse(expression.strip(), mode="exec").body
        if len(parsed) != 1 or not isinstance(parsed[0], ast.Expr):
            raise UserError("not an expression")
        _refuse_depth(parsed[0])
        return Evaluator(functions).eval(expression, previously_parsed=parsed[0])
    except SyntaxError as error:
        raise UserError(f"not an expression ({one_line(error.msg)})") from error
    except (ValueError, MemoryError, RecursionError) as error:  # of the parser: a NUL, too many digits or brackets
        raise UserError(f"not an expression ({one_line(str(error)) or 'nested too deeply'})") from error
    except FunctionNotDefined as error:
        raise UserError(f"unknown function {error.func_name!r}; {suggest(error.func_name, functions)}") from error
    except NameNotDefined as error:
        raise UserError(f"unknown name {error.name!r}; names of variants stand in quotes") from error
    except InvalidExpression as error:
        raise UserError(one_line(str(error))) from error
    except NOT_TAKEN as error:  # of the evaluator: a part that its operation does not take
        raise UserError(f"cannot be evaluated ({one_line(str(error))})") from error
