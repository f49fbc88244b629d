"""PTX text to a `Module`: a tokenizer and a recursive-descent parser (PTX ISA 4, 5, 10 and 11).

Names are resolved while parsing: every `Register` is an object of its own, so that registers of the
nested `{ }` scopes that inline assembly makes do not mix with those around them; labels are
resolved within their scope.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import PtxError
from .debug_info import DebugInfo
from .syntax import (
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)
from .types import TYPES, Type

MAX_ALIGN = 1 << 20
# Major versions 6 to 9 are those of CUDA 9 to CUDA 13.
KNOWN_VERSIONS = range(6, 10)
LINKING = (".visible", ".extern", ".weak", ".common")
SPACES = (".global", ".const", ".shared", ".local", ".param", ".tex")
# These attributes of declarations have no effect here.
ATTRIBUTES = {"ptr", "managed", "unified", *(space[1:] for space in SPACES)}

TOKEN = re.compile(
    r"""
    [ \t\r\f\v]*+ (?:
      (?P<name>[a-zA-Z$_%][\w$]*+(?:\.[a-zA-Z_0-9:]+)*+ )
    | (?P<sign>[-+!@|,;:{}()\[\]<>=*~?&^] | /(?![/*]))
    | (?P<newline>\n)
    | (?P<hexfloat>0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<number>0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U?)
    | (?P<directive>\.[a-zA-Z_]\w*(?:::\w+)*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<space>//[^\n]* | /\*.*?\*/ | (?<=[ \t\r\f\v])(?=\Z) )
    )
    """,
    re.X | re.S,
)

SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock_hi|clock64|globaltimer|globaltimer_lo"
    r"|globaltimer_hi|lanemask_(?:eq|le|lt|ge|gt)|total_smem_size|dynamic_smem_size|aggr_smem_size"
    r"|reserved_smem_offset_(?:begin|end|cap|0|1)|envreg\d+|pm\d+"
    r"|clusterid|nclusterid|cluster_ctaid|cluster_nctaid|cluster_ctarank|cluster_nctarank|is_explicit_cluster)"
    r"(?:\.[xyzw])?$"
)


class _Token:
    __slots__ = ("kind", "line", "text")

    def __init__(self, kind: str, text: str, line: int) -> None:
        self.kind, self.text, self.line = kind, text, line


def _tokens(text: str) -> list[_Token]:
    tokens, line, at = [], 1, 0
    for match in TOKEN.finditer(text):
        if match.start() != at:
            break
        at = match.end()
        kind = str(match.lastgroup)
        if kind == "newline":
            line += 1
        elif kind == "space":
            line += match.group().count("\n")
        else:
            tokens.append(_Token(kind, match[kind], line))
    if at < len(text):
        rest = text[at:].lstrip(" \t\r\f\v")
        raise PtxError(f"PTX line {line}: unexpected character {rest[:1]!r}")
    tokens.append(_Token("end", "", line))
    return tokens


class _Scope:
    """Names of one `{ }`: registers, variables and labels; looked up outwards."""

    def __init__(self, parent: _Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Register | Variable | Label] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}


T = TypeVar("T")
# A location is a file, a line, and the location of the call where it is inlined, or None.
_Line = tuple[int, int, Any]
# `_Parser.operand` makes one of the classes of `syntax`.
_Operand = Any
# A declaration has a type, alignment, vector length, and the opaque type's name.
_Declared = tuple[Type, int, int, str | None]


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.version: tuple[int, ...] | None = None
        self.target: str | None = None
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.files: dict[int, str] = {}
        self.sections: dict[str, list[str]] = {}
        self.locations: dict[_Line, Location] = {}
        # The code that follows has this location.
        self.location: _Line | None = None
        self.located: list[tuple[Instruction, _Line]] = []
        # `inlined` names the function that was inlined, by file and line in it.
        self.inlined: dict[tuple[int, int], str] = {}
        # `caller` says where the latest code of an inlined function stands.
        self.caller: dict[str, _Line] = {}
        self.function: Function | None = None
        self.scope = _Scope()
        # `ends_with_label` is true while no instruction follows the function's last label.
        self.ends_with_label = False

    # tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def error(self, message: str) -> PtxError:
        return PtxError(f"PTX line {self.token.line}: {message}")

    def refused(self, message: str) -> PtxError:
        """Return an error at the token that was just taken."""
        self.at -= 1
        return self.error(message)

    def next(self) -> _Token:
        token = self.tokens[self.at]
        if token.kind == "end":
            raise self.error("the text ends in the middle of a statement or function (truncated?)")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.at].text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        token = self.next()
        if token.text != text:
            raise self.refused(f"expected {text!r}, found {token.text!r}")

    def expect_kind(self, *kinds: str) -> str:
        token = self.next()
        if token.kind not in kinds:
            raise self.refused(f"expected a {kinds[0]}, found {token.text!r}")
        return token.text

    def name(self) -> str:
        return self.expect_kind("name")

    def separated(self, item: Callable[[], T]) -> list[T]:
        """Parse one item or more, with commas between."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def enclosed(self, item: Callable[[], T], closing: str) -> list[T]:
        """Parse items up to a bracket, which has been opened."""
        items = []
        while not self.accept(closing):
            items.append(item())
            self.accept(",")
        return items

    def skip_past(self, text: str) -> None:
        while self.next().text != text:
            pass

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * self.number(self.expect_kind("number"))

    def number(self, text: str) -> int:
        """Return the value of the number token that was just taken."""
        digits = text.rstrip("U")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            value: int | None = int(digits, 8 if octal else 0)
        except ValueError:
            value = None
        if value is None or value >= 1 << 64:
            short = text if len(text) <= 40 else text[:37] + "..."
            why = " (a leading 0: octal)" if octal else ""
            raise self.refused(f"{short} is no number of at most 64 bits{why}")
        return value

    # module

    def module(self) -> Module:
        while self.token.kind != "end":
            token = self.next()
            match token.text:
                case ".version":
                    self.require_known(self.expect_kind("float", "number"), token)
                case ".target":
                    self.target = self.separated(self.name)[0]
                case ".address_size":
                    self.integer()
                case ".section":
                    self.section()
                case ".alias":
                    self.skip_past(";")
                case text if text in (*LINKING, *SPACES, ".entry", ".func"):
                    self.require_header(token)
                    extern = text == ".extern"
                    self.declaration(self.next().text if text in LINKING else text, extern)
                # Labels may stand between sections.
                case text if not self.directive(text) and not self.accept(":"):
                    raise self.refused(f"unexpected {text!r} at module level")
        if self.version is None or self.target is None:
            raise PtxError(f"not PTX: no {'.target' if self.version else '.version'} directive")
        self.resolve_files()
        if ".debug_info" in self.sections:
            debug = DebugInfo(self.sections)
            for function in self.functions.values():
                function.debug = debug
        return Module(self.version, self.target, self.variables, self.functions)

    def section(self) -> None:
        """Parse a section of DWARF, `.name { .b8 1,2 … }`."""
        tokens = self.sections[self.next().text] = []
        self.expect("{")
        while (text := self.next().text) != "}":
            tokens.append(text)

    def require_known(self, text: str, token: _Token) -> None:
        """Note the version of PTX, which must be a known one."""
        self.version = tuple(map(int, re.findall(r"\d+", text))) if len(text) < 8 else (0,)
        if self.version[0] not in KNOWN_VERSIONS:
            known = f"{KNOWN_VERSIONS.start}.x to {KNOWN_VERSIONS.stop - 1}.x"
            what = f"PTX version {text} is not known (known: {known})"
            raise PtxError(f"PTX line {token.line}: {what}")

    def require_header(self, token: _Token) -> None:
        if self.version is None or self.target is None:
            missing = ".version" if self.version is None else ".target"
            raise PtxError(f"PTX line {token.line}: no {missing} directive before {token.text}")

    def declaration(self, keyword: str, extern: bool) -> None:
        """A function or a variable of the module."""
        if keyword in (".entry", ".func"):
            self.define(keyword == ".entry")
        elif keyword in SPACES:
            self.variable(keyword[1:], extern)
        else:
            raise self.refused(f"unexpected {keyword!r} after a linking directive")

    def directive(self, text: str) -> bool:
        """Parse a directive that may stand in functions, too; return whether it was one."""
        match text:
            case ".file":
                number = self.integer()
                self.files[number] = self.expect_kind("string")[1:-1]
                while self.accept(","):
                    self.integer()
            case ".pragma":
                self.separated(lambda: self.expect_kind("string"))
                self.expect(";")
            case ".loc":
                self.loc()
            case _:
                return text == ";"
        return True

    def loc(self) -> None:
        """Parse `.loc file line column [, function_name label [+ n], inlined_at file line column]`
        (PTX ISA 11.5.4).

        Where the calling line is itself in an inlined function, that function's latest `.loc` says
        where it is called.
        """
        file, line, _ = self.integer(), self.integer(), self.integer()
        name = inlined = None
        while self.accept(","):
            word = self.name()
            if word == "function_name":
                name = self.name()
                if self.accept("+"):
                    name += f"+{self.integer()}"
            elif word == "inlined_at":
                call = (self.integer(), self.integer())
                self.integer()
                outer = self.caller.get(self.inlined.get(call, ""))
                if _is_within((file, line), outer) or _is_within(call, outer):
                    # Inlined recursion has no outer call.
                    outer = None
                inlined = (*call, outer)
            else:
                raise self.error(f"unknown attribute {word!r} of .loc")
        # Line 0 marks what the compiler made up. It stays with the line before.
        if line:
            self.location = (file, line, inlined)
        if name is not None and inlined is not None:
            self.inlined[file, line], self.caller[name] = name, inlined

    # declarations

    def declared_type(self) -> _Declared:
        """Parse `[.align n] [.vN] .type`: the type, alignment, vector length, and the opaque type's
        name.
        """
        align, vector = 0, 1
        opaque: str | None = None
        declared: Type | None = None
        while self.token.kind == "directive":
            text = self.next().text[1:]
            if text == "align":
                align = self.integer()
                if align < 1 or align & (align - 1) or align > MAX_ALIGN:
                    what = f"an alignment is a power of two of at most {MAX_ALIGN}"
                    raise self.error(f".align {align}: {what}")
            elif text in ("v2", "v4"):
                vector = int(text[1])
            elif text in ("texref", "samplerref", "surfref"):
                opaque, declared = text, TYPES["b64"]
            elif text == "attribute":
                self.skip_past(")")
            elif text in TYPES:
                declared = TYPES[text]
            elif text == "b128":
                declared, vector = TYPES["b64"], 2
            elif text not in ATTRIBUTES:
                raise self.error(f"unknown type or attribute .{text}")
        if declared is None:
            raise self.error(f"expected a type, found {self.token.text!r}")
        return declared, align, vector, opaque

    def variable(self, space: str, extern: bool = False) -> None:
        """A declaration up to its semicolon; registers its variables in the present scope."""
        declared = self.declared_type()
        for variable in self.separated(lambda: self.declarator(space, declared, extern)):
            if self.function is None:
                self.variables.setdefault(variable.name, variable)
            else:
                self.scope.names[variable.name] = variable
                self.function.variables.append(variable)
        self.expect(";")

    def declarator(self, space: str, declared: _Declared, extern: bool = False) -> Variable:
        type_, align, vector, opaque = declared
        name = self.name()
        count, unsized = 1, False
        while self.accept("["):
            if self.accept("]"):
                unsized = True
                continue
            length = self.integer()
            if length < 0:
                raise self.error(f"{name} has a length of {length}")
            count *= length
            self.expect("]")
        element = type_.bytes * vector
        initial = self.initialiser() if self.accept("=") else None
        if unsized:
            count = len(initial) if initial else 0
        size = count * element
        if initial and len(initial) * type_.bytes > size:
            held = f"{name} holds {count * vector} elements"
            raise self.error(f"{held}, but is initialised with {len(initial)}")
        return Variable(name, space, type_, align or element, size, initial, extern, opaque)

    def initialiser(self) -> list[Symbol | Immediate]:
        if not self.accept("{"):
            return [self.initial_value()]
        return [value for values in self.enclosed(self.initialiser, "}") for value in values]

    def initial_value(self) -> Symbol | Immediate:
        if self.token.kind != "name":
            return self.constant()
        name, offset = self.name(), 0
        if self.accept("("):
            # `generic(symbol)` has a generic address.
            if name != "generic":
                raise self.error(f"initialiser {name}(...) is not supported")
            name, offset = self.name(), self.offset()
            self.expect(")")
        return Symbol(name, offset + self.offset())

    def offset(self) -> int:
        total = 0
        while self.token.text in ("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            total += sign * self.integer()
        return total

    def constant(self) -> Immediate:
        negative = self.accept("-")
        token = self.next()
        sign = -1 if negative else 1
        if token.kind == "number":
            return Immediate(sign * self.number(token.text))
        if token.kind == "float":
            return Immediate(sign * float(token.text))
        if token.kind == "hexfloat":
            return _hex_float(token.text, negative)
        raise self.refused(f"expected a constant, found {token.text!r}")

    # functions

    def define(self, is_entry: bool) -> None:
        """Parse `.entry name (params) attributes { body }`, `.func (return) name (params) ...`, or
        only declared: `;`.
        """
        function = Function("", is_entry)
        while self.token.text in (".noreturn", ".attribute"):
            if self.next().text == ".attribute":
                self.skip_past(")")
        outer, self.scope, self.function = self.scope, _Scope(self.scope), function
        if not is_entry and self.token.text == "(":
            function.returns = self.parameters()
        function.name = self.name()
        if self.token.text == "(":
            function.params = self.parameters()
        while self.token.kind == "directive":
            name = self.next().text
            if not self.directive(name):
                values = self.separated(self.integer) if self.token.kind == "number" else []
                function.attributes[name[1:]] = tuple(values)
        if self.accept("{"):
            function.code = []
            # A function may be called from its own body.
            self.functions[function.name] = function
            self.location = None
            self.inlined, self.caller = {}, {}
            self.body(function)
        else:
            self.expect(";")
            self.functions.setdefault(function.name, function)
        self.scope, self.function = outer, None

    def parameters(self) -> list[Variable | Register]:
        self.expect("(")
        return self.enclosed(self.parameter, ")")

    def parameter(self) -> Variable | Register:
        space = self.next().text
        if space not in (".param", ".reg"):
            raise self.refused(f"expected a parameter, found {space!r}")
        declared = self.declared_type()
        if space == ".reg":
            return self.register(self.name(), declared[0], self.scope)
        variable = self.declarator("param", declared)
        self.scope.names[variable.name] = variable
        return variable

    def register(self, name: str, type_: Type, scope: _Scope) -> Register:
        """Parse a register of the present function."""
        assert self.function is not None
        made = scope.names[name] = Register(name, type_, -1)
        self.function.registers.append(made)
        return made

    def body(self, function: Function) -> None:
        depth = 1
        fixes: list[tuple[Instruction, _Scope]] = []
        while depth:
            token = self.next()
            text = token.text
            if token.kind == "name" or text == "@":
                if token.kind == "name" and self.token.text == ":":
                    self.at += 1
                    self.label(text, function)
                    self.ends_with_label = True
                    continue
                self.at -= 1
                instruction = self.instruction()
                self.ends_with_label = False
                function.body.append(instruction)
                if instruction.opcode in ("bra", "brx"):
                    fixes.append((instruction, self.scope))
            elif text == "{":
                depth += 1
                self.scope = _Scope(self.scope)
            elif text == "}":
                depth -= 1
                if depth:
                    self.scope = self.scope.parent or self.scope
            elif text == ".reg":
                self.registers()
            elif text in SPACES:
                self.variable(text[1:])
            elif not self.directive(text):
                raise self.refused(f"unexpected {text!r} in {function.name}")
        last = function.code[-1] if function.code and not self.ends_with_label else None
        if last is None or last.predicate or last.opcode not in ("ret", "exit", "trap", "bra"):
            # As in ptxas, the end of a function returns.
            end = Instruction("ret", (), (), None, False, None, self.tokens[self.at - 1].line)
            function.body.append(self.located_here(end))
        for instruction, scope in fixes:
            self.resolve_labels(instruction, scope)

    def label(self, name: str, function: Function) -> None:
        made = Label(name, len(function.body))
        self.scope.names[name] = made
        if self.token.text == ".branchtargets":
            self.next()
            made.targets = self.separated(self.name)
            self.expect(";")
        elif self.token.text in (".callprototype", ".calltargets"):
            self.skip_past(";")

    def resolve_labels(self, instruction: Instruction, scope: _Scope) -> None:
        """Put `Label` objects in place of the names that a branch names."""

        def label(name: str) -> Label:
            declared = self.find(name, scope)
            if not isinstance(declared, Label):
                raise PtxError(f"PTX line {instruction.ptx_line}: no label {name}")
            return declared

        *before, last = instruction.operands or (None,)
        if not isinstance(last, Symbol):
            # Linking refuses it.
            return
        target = label(last.name)
        several = tuple(label(name) for name in target.targets or ())
        instruction.operands = (*before, several if instruction.opcode == "brx" else target)

    def registers(self) -> None:
        type_, _, vector, _ = self.declared_type()
        if vector != 1:
            raise self.error("vector registers are not supported")

        def declare() -> None:
            name = self.name()
            if self.accept("<"):
                self.scope.ranges[name] = self.integer(), type_
                self.expect(">")
            else:
                self.register(name, type_, self.scope)

        self.separated(declare)
        self.expect(";")

    def find(self, name: str, scope: _Scope | None) -> Register | Variable | Label | None:
        """Return a declared name; `%r7` is made when first used, out of the range `%r<n>`."""
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.ranges:
                stem = name.rstrip("0123456789")
                if stem in scope.ranges and stem != name:
                    count, type_ = scope.ranges[stem]
                    if int(name[len(stem) :]) < count:
                        return self.register(name, type_, scope)
            scope = scope.parent
        return None

    def predicate(self, message: str) -> Register:
        """Parse a predicate register; `message`: what to say of a name that is none."""
        name = self.name()
        declared = self.find(name, self.scope)
        if not isinstance(declared, Register) or declared.type.name != "pred":
            raise self.error(message.format(name))
        return declared

    # instructions

    def instruction(self) -> Instruction:
        line = self.token.line
        predicate: Register | None = None
        negated = False
        if self.accept("@"):
            negated = self.accept("!")
            predicate = self.predicate("{} is not a predicate register")
        opcode, *modifiers = self.name().split(".")
        operands: list[_Operand] = []
        if opcode == "call":
            operands = self.call_operands()
        elif self.token.text != ";":
            operands = self.separated(self.operand)
        self.expect(";")
        parts = opcode, tuple(modifiers), tuple(operands), predicate, negated
        return self.located_here(Instruction(*parts, None, line))

    def located_here(self, instruction: Instruction) -> Instruction:
        """Attach the latest `.loc` to an instruction; `resolve_files` converts it to a
        `Location`.
        """
        if self.location is not None:
            self.located.append((instruction, self.location))
        return instruction

    def call_operands(self) -> list[_Operand]:
        """`call (ret), name, (args), prototype;` and the forms that leave out parts (PTX ISA
        9.7.12.5).
        """
        returns: tuple[_Operand, ...] = ()
        if self.token.text == "(":
            returns = self.arguments()
            self.expect(",")
        target = self.operand()
        arguments: tuple[_Operand, ...] = ()
        if self.accept(","):
            if self.token.text == "(":
                arguments = self.arguments()
            else:
                self.operand()
        if self.accept(","):
            self.operand()
        return [Arguments(returns), target, Arguments(arguments)]

    def arguments(self) -> tuple[_Operand, ...]:
        self.expect("(")
        return tuple(self.enclosed(self.operand, ")"))

    def operand(self) -> _Operand:
        if self.token.kind == "name":
            first = self.named(self.name())
            return Pair(first, self.operand()) if self.accept("|") else first
        if self.accept("{"):
            return Vector(tuple(self.enclosed(self.operand, "}")))
        if self.accept("["):
            return self.address()
        if self.accept("!"):
            return Negated(self.predicate("! stands before what is no predicate register"))
        return self.constant()

    def named(self, text: str) -> Register | Special | Immediate | Symbol | None:
        if text == "_":
            return None
        declared = self.find(text, self.scope)
        if isinstance(declared, Register):
            return declared
        if text.startswith("%") and declared is None:
            if SPECIAL.match(text):
                return Special(text)
            raise self.refused(f"register {text} is not declared")
        if text == "WARP_SZ":
            return Immediate(32)
        return Symbol(text, self.offset(), declared if isinstance(declared, Variable) else None)

    def address(self) -> Address:
        """Parse an address, whose bracket has been opened."""
        begin = self.named(self.name()) if self.token.kind == "name" else self.constant()
        base: Register | Symbol | None = None
        offset = 0
        if isinstance(begin, Symbol):
            base, offset = Symbol(begin.name, 0, begin.variable), begin.offset
        elif isinstance(begin, Immediate):
            if not isinstance(begin.value, int):
                raise self.error(f"{begin.value} is no address")
            offset = begin.value
        elif isinstance(begin, Register) and begin.type.bits >= 32:
            base = begin
        else:
            what = "a register of 32 or 64 bits, a name or a number"
            raise self.error(f"an address begins with {what}")
        index = None
        while not self.accept("]"):
            if self.token.text in ("+", "-"):
                offset += self.offset()
            elif self.accept(","):
                index = self.operand()
            else:
                raise self.error(f"expected ']', found {self.token.text!r}")
        if not -(1 << 62) < offset < 1 << 62:
            raise self.error(f"an offset of {offset} is too large")
        return Address(base, offset, index)

    def resolve_files(self) -> None:
        """File numbers of `.loc` to names; the `.file` table stands at the end of the text."""

        def location(key: _Line | None) -> Location | None:
            if key is None or key[0] not in self.files:
                return None
            if key not in self.locations:
                self.locations[key] = Location(self.files[key[0]], key[1], location(key[2]))
            return self.locations[key]

        for instruction, line in self.located:
            instruction.location = location(line)


def _is_within(line: tuple[int, int], location: _Line | None) -> bool:
    """Return whether a file and line is among a location's and those of the calls around it."""
    return location is not None and (location[:2] == line or _is_within(line, location[2]))


def _hex_float(text: str, negative: bool) -> Immediate:
    """0f and 0d literals: the bits of a float32 or float64 (PTX ISA 4.5.2)."""
    width = 32 if text[1] in "fF" else 64
    bits = int(text[2:], 16) ^ ((1 << (width - 1)) if negative else 0)
    code = ("<I", "<f") if width == 32 else ("<Q", "<d")
    return Immediate(struct.unpack(code[1], struct.pack(code[0], bits))[0], bits, width)


def parse(text: str) -> Module:
    """Parse PTX. Raises `PtxError`, one line, where it is malformed."""
    if not text.strip():
        raise PtxError("not PTX: the text is empty")
    try:
        return _Parser(text).module()
    except RecursionError:
        what = "vectors, initialisers or inlined calls are nested too deeply"
        raise PtxError(f"not PTX: {what}") from None
