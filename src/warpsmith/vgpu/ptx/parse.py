"""Parse PTX: modules, functions and their bodies, with scopes resolved and source lines kept."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePath

from . import ir
from .lex import Tokens

_SPACES = {".global", ".const", ".shared", ".local", ".param"}
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_PARTS = {"b0", "b1", "b2", "b3", "h0", "h1"}
_OPAQUE = {"texref", "surfref", "samplerref"}
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_NUMBERED = re.compile(r"(.*?)(\d+)$")
_INLINED_AT = re.compile(r"@\[ ([^\n@]+?):(\d+):(\d+)")


# what Python says of a text whose tokens are not what the grammar wants at that place
MALFORMED = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError,
             AssertionError)  # fmt: skip
MAX_VARIABLE_BYTES = 1 << 40


def parse(text: str) -> ir.Module:
    """The module that a PTX text describes; raises PtxSyntaxError with line and column."""
    parser = _Parser(text)
    try:
        return parser.module()
    except MALFORMED as error:
        last = len(parser.tokens.texts) - 1
        at = min(max(parser.tokens.at - 1, 0), last)
        found = parser.tokens.texts[at] or "the end of the text"
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise parser.tokens.error(f"malformed at {found!r}: {why}", at) from error


@lru_cache(4096)
def _split(spelling: str) -> tuple[str, tuple[str, ...]]:
    opcode, *modifiers = spelling.split(".")
    return opcode, tuple(modifiers)


def _number(text: str) -> ir.Immediate:
    prefix = text[:2].lower()
    if prefix == "0f" and len(text) == 10:
        return ir.Immediate(int(text[2:], 16), "f32")
    if prefix == "0d" and len(text) == 18:
        return ir.Immediate(int(text[2:], 16), "f64")
    if prefix in ("0x", "0b"):
        return ir.Immediate(int(text.rstrip("U"), 0) & (1 << 64) - 1)
    if "." in text or "e" in text or "E" in text:
        return ir.Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
    digits = text.rstrip("U")
    octal = len(digits) > 1 and digits[0] == "0"
    return ir.Immediate(int(digits, 8 if octal else 10) & (1 << 64) - 1)


def _negative(value: ir.Immediate) -> ir.Immediate:
    if value.kind == "int":
        return ir.Immediate(-value.value & (1 << 64) - 1)
    return ir.Immediate(value.value ^ 1 << (31 if value.kind == "f32" else 63), value.kind)


class _Scope:
    """Names declared between one pair of braces."""

    def __init__(self, parent: _Scope | None, suffix: str):
        self.parent, self.suffix = parent, suffix
        self.ranges: dict[str, tuple[int, str]] = {}  # "%r" -> (count, type)
        self.names: dict[str, ir.Operand] = {}
        self.labels: dict[str, str] = {}

    def find(self, name: str) -> ir.Operand | None:
        scope: _Scope | None = self
        numbered = _NUMBERED.match(name)
        while scope:
            if found := scope.names.get(name):
                return found
            if (
                numbered
                and (known := scope.ranges.get(numbered[1]))
                and int(numbered[2]) < known[0]
            ):
                found = scope.names[name] = ir.Register(name + scope.suffix, known[1])
                return found
            scope = scope.parent
        return None

    def label(self, name: str) -> str | None:
        scope: _Scope | None = self
        while scope:
            if found := scope.labels.get(name):
                return found
            scope = scope.parent
        return None


class _Parser:
    def __init__(self, text: str):
        self.tokens = Tokens(text)
        # NVRTC writes .file after the functions that refer to it
        files = {int(number): name for number, name in _FILE.findall(text)}
        self.result = ir.Module("", "", 64, {}, {}, files)
        self.source: ir.Source | None = None
        self.scope = _Scope(None, "")
        self.scope_count = 0
        self.main_file = 0  # number of the file that the function's first line is in
        self.callers: dict[tuple[int, int, int], tuple[int, int, int] | None] = {}

    # ------------------------------------------------------------------------- module level

    def module(self) -> ir.Module:
        tokens = self.tokens
        while tokens.peek():
            start = tokens.at
            word = tokens.next()
            if step := _MODULE_LEVEL.get(word):
                step(self)
            elif word in _LINKAGE or word in _SPACES or word in (".entry", ".func"):
                tokens.at = start
                self._declaration()
            else:
                raise tokens.error(f"expected a directive, found {word!r}", start)
        return self.result

    def _version(self) -> None:
        self.result.version = self.tokens.next()

    def _target(self) -> None:
        self.result.target = self.tokens.next()
        while self.tokens.accept(","):
            self.tokens.next()

    def _address_size(self) -> None:
        self.result.address_size = int(self.tokens.next())
        if self.result.address_size != 64:
            raise self.tokens.error("only .address_size 64 is known", self.tokens.at - 1)

    def _file(self) -> None:
        self.tokens.next()
        self.tokens.next()
        while self.tokens.accept(","):
            self.tokens.next()

    def _section(self) -> None:
        self.tokens.next()
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            self.tokens.next()

    def _until_semicolon(self) -> None:
        while not self.tokens.accept(";"):
            self.tokens.next()

    def _alias(self) -> None:
        name, _, target = (self.tokens.next() for _ in range(3))
        self.result.aliases[name] = target
        self.tokens.expect(";")

    def _declaration(self) -> None:
        linkage = set()
        while self.tokens.peek() in _LINKAGE:
            linkage.add(self.tokens.next())
        word = self.tokens.peek()
        if word in (".entry", ".func"):
            self._function(self.tokens.next() == ".entry")
            self._linkage(self.function.name, linkage)
            return
        if word not in _SPACES:
            raise self.tokens.error(f"expected a variable or a function, found {word!r}")
        for variable in self._variables():
            variable.external = ".extern" in linkage
            self._linkage(variable.name, linkage)
            known = self.result.variables.get(variable.name)
            if known is None or known.external:
                self.result.variables[variable.name] = variable
        self.tokens.expect(";")

    def _linkage(self, name: str, linkage: set[str]) -> None:
        if not linkage:
            self.result.local.add(name)
        if linkage & {".weak", ".common"}:
            self.result.weak.add(name)

    # --------------------------------------------------------------------------- variables

    def _variables(self) -> list[ir.Variable]:
        """`.shared .align 16 .b8 a[64], b[4]` up to, but without, what ends it."""
        space = self.tokens.next()[1:]
        align, kind, vector, pointer = 0, "", 1, False
        while self.tokens.peek().startswith("."):
            word = self.tokens.next()[1:]
            if word == "align":
                value = int(self.tokens.next())
                if value < 1 or value & value - 1 or value > 1 << 20:
                    raise self.tokens.error(f"alignment {value} is no power of two up to 2**20",
                                            self.tokens.at - 1)  # fmt: skip
                align = align if pointer else value
            elif word in ir.TYPE_BITS:
                kind = word
            elif word in ("v2", "v4"):
                vector = int(word[1])
            elif word == "ptr":
                pointer = True
            elif word not in ("global", "shared", "const", "local", "attribute", "managed"):
                raise self.tokens.error(f"unknown type '.{word}'", self.tokens.at - 1)
            if word == "attribute":
                self._parenthesis()
        result = [self._declarator(space, kind, align, vector, pointer)]
        while self.tokens.peek() == "," and space != "param":
            self.tokens.next()
            result.append(self._declarator(space, kind, align, vector, pointer))
        return result

    def _parenthesis(self) -> None:
        self.tokens.expect("(")
        while not self.tokens.accept(")"):
            self.tokens.next()

    def _declarator(
        self, space: str, kind: str, align: int, vector: int, pointer: bool
    ) -> ir.Variable:
        name, count = self.tokens.next(), vector
        while self.tokens.accept("["):
            if self.tokens.accept("]"):
                count = 0
                continue
            count *= _number(self.tokens.next()).value
            self.tokens.expect("]")
        if not kind:
            raise self.tokens.error(f"variable {name!r} has no type")
        align = align or (vector * ir.TYPE_BITS[kind] // 8 if vector > 1 else 0)
        if count * ir.TYPE_BITS[kind] > 8 * MAX_VARIABLE_BYTES:
            raise self.tokens.error(f"variable {name!r} is too large", self.tokens.at - 1)
        variable = ir.Variable(name, space, kind, count, align, pointer=pointer)
        if kind in _OPAQUE and self.tokens.accept("="):
            self._opaque()
        elif self.tokens.accept("="):
            variable.initializer = self._initializer()
            variable.count = variable.count or len(variable.initializer)
        return variable

    def _opaque(self) -> None:
        """`{ filter_mode = nearest, … }` of a texture reference: what is bound to it says all that."""
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            self.tokens.next()

    def _initializer(self) -> list:
        if self.tokens.accept("{"):
            items = []
            while not self.tokens.accept("}"):
                items += self._initializer()
                self.tokens.accept(",")
            return items
        word = self.tokens.peek()
        if word == "-" or word[0].isdigit():
            negative = self.tokens.accept("-")
            value = _number(self.tokens.next())
            if self.tokens.accept("("):  # 0xFF(symbol): one byte of an address
                symbol = self._initializer()[0]
                self.tokens.expect(")")
                return [("byte", value.value, symbol)]
            return [_negative(value) if negative else value]
        self.tokens.next()
        if word == "generic":
            self.tokens.expect("(")
            word = self.tokens.next()
            self.tokens.expect(")")
        return [ir.Symbol(word, self._offset())]

    def _offset(self) -> int:
        total = 0
        while self.tokens.peek() in ("+", "-"):
            sign = -1 if self.tokens.next() == "-" else 1
            if self.tokens.accept("-"):
                sign = -sign
            text = self.tokens.next()
            if not text[0].isdigit():
                raise self.tokens.error(f"expected a number, found {text!r}", self.tokens.at - 1)
            value = _number(text).value
            total += sign * (value - (1 << 64) if value >> 63 else value)
        return total

    # --------------------------------------------------------------------------- functions

    def _function(self, entry: bool) -> None:
        tokens = self.tokens
        line = tokens.line(tokens.at)
        while tokens.peek() == ".attribute":
            tokens.next()
            self._parenthesis()
        outer = self.scope
        self.scope = _Scope(outer, "")
        self.labels: list[tuple[ir.Instruction, _Scope, int]] = []
        results = self._parameters() if tokens.peek() == "(" else []
        name = tokens.next()
        parameters = self._parameters() if tokens.peek() == "(" else []
        self.function = ir.Function(name, entry, parameters, results, [], {}, line=line)
        for variable in (*parameters, *results):
            self._declare(variable)
        while tokens.peek().startswith("."):
            self._function_directive()
        if tokens.accept(";"):
            self.function.defined = False
        else:
            tokens.expect("{")
            self.source = None
            self.main_file, self.callers = 0, {}
            self._body()
            self._resolve_labels()
        known = self.result.functions.get(name)
        if known is None or self.function.defined:
            self.result.functions[name] = self.function
        self.scope = outer

    def _parameters(self) -> list[ir.Variable]:
        self.tokens.expect("(")
        found: list[ir.Variable] = []
        while not self.tokens.accept(")"):
            if self.tokens.peek() == ".reg":
                raise self.tokens.error(".reg parameters are not known; use .param")
            found += self._variables()
            self.tokens.accept(",")
        return found

    def _function_directive(self) -> None:
        word = self.tokens.next()[1:]
        values = []
        while self.tokens.peek()[:1].isdigit():
            values.append(int(self.tokens.next(), 0))
            self.tokens.accept(",")
        if word == "pragma":
            self._until_semicolon()
        self.function.directives[word] = tuple(values)

    def _declare(self, variable: ir.Variable) -> None:
        """Enter a function-scope variable under a name that is unique in the function."""
        written = variable.name
        variables = self.function.variables
        if written in variables:
            variable.name = f"{written}@{len(variables)}"
        variables[variable.name] = variable
        self.scope.names[written] = ir.Symbol(variable.name)

    def _body(self) -> None:
        tokens, depth = self.tokens, 1
        while depth:
            word = tokens.texts[tokens.at]
            if word == "{":
                tokens.at += 1
                depth += 1
                self.scope_count += 1
                self.scope = _Scope(self.scope, f"@{self.scope_count}")
            elif word == "}":
                tokens.at += 1
                depth -= 1
                self.scope = self.scope.parent or self.scope
            elif word == "":
                raise tokens.error("the text ends in the middle of a function")
            elif word[:1] == "." or tokens.texts[tokens.at + 1] == ":":
                self._body_directive()
            elif word == ";":
                tokens.at += 1
            else:
                self.function.body.append(self._instruction())

    def _body_directive(self) -> None:
        tokens = self.tokens
        word = tokens.next()
        if word == ".loc":
            self._loc()
        elif word == ".reg":
            self._registers()
        elif word in _SPACES:
            tokens.at -= 1
            for variable in self._variables():
                self._declare(variable)
            tokens.expect(";")
        elif word == ".pragma":
            self._until_semicolon()
        elif word == ".file":
            self._file()
        elif word[0] == ".":
            raise tokens.error(f"unknown directive {word!r}", tokens.at - 1)
        else:
            tokens.expect(":")
            self._label(word)

    def _label(self, name: str) -> None:
        if self.tokens.peek() == ".branchtargets":
            self.tokens.next()
            self.function.branch_targets[name] = self._names()
        elif self.tokens.peek() == ".callprototype":
            self.tokens.next()
            results = self._parameters() if self.tokens.peek() == "(" else []
            self.tokens.next()
            parameters = self._parameters() if self.tokens.peek() == "(" else []
            self._until_semicolon()
            self.function.prototypes[name] = (parameters, results)
        elif self.tokens.accept(".calltargets"):
            self._names()  # any function with a fitting signature is a target
        else:
            unique = name + self.scope.suffix
            self.scope.labels[name] = unique
            self.function.body.append(ir.Label(unique))

    def _names(self) -> list[str]:
        names = [self.tokens.next()]
        while self.tokens.accept(","):
            names.append(self.tokens.next())
        self.tokens.expect(";")
        return names

    def _loc(self) -> None:
        place = self._place()
        self.main_file = self.main_file or place[0]
        self.callers[place] = None
        while self.tokens.accept(","):
            if self.tokens.next() == "inlined_at":
                self.callers[place] = self._place()
            else:
                self.tokens.next()
                self._offset()
        number, line, column = self._own(place)
        if number != self.main_file:
            number, line, column = self._commented((number, line, column))
        file = self.result.files.get(number, "")
        self.source = ir.Source(file, line, column, self._chain(place)) if line else None

    def _place(self) -> tuple[int, int, int]:
        number, line, column = (int(self.tokens.next()) for _ in range(3))
        return number, line, column

    def _chain(self, place: tuple[int, int, int]) -> tuple[str, ...]:
        """ "file:line" of a place and of those that it was inlined into; empty when it was not."""
        chain: list[str] = []
        at: tuple[int, int, int] | None = place
        while at is not None and len(chain) < 64:
            chain.append(f"{PurePath(self.result.files.get(at[0], '')).name}:{at[1]}")
            at = self.callers.get(at)
        return tuple(chain) if len(chain) > 1 else ()

    def _own(self, place: tuple[int, int, int]) -> tuple[int, int, int]:
        """The innermost place of an inlining chain that is in the kernel's own file: a fault inside a
        library function is told at the user's line."""
        at: tuple[int, int, int] | None = place
        for _ in range(64):
            if at is None:
                return place
            if at[0] == self.main_file:
                return at
            at = self.callers.get(at)
        return place

    def _commented(self, place: tuple[int, int, int]) -> tuple[int, int, int]:
        """LLVM writes the inlining chain of a `.loc` as a comment only: its innermost place in the
        kernel's own file, or `place`."""
        text, start = self.tokens.source, self.tokens.places[self.tokens.at - 1]
        end = text.find("\n", start)
        own = PurePath(self.result.files.get(self.main_file, "")).name
        for file, line, column in _INLINED_AT.findall(text, start, end if end > 0 else len(text)):
            if own and PurePath(file).name == own:
                return self.main_file, int(line), int(column)
        return place

    def _registers(self) -> None:
        kind = self.tokens.next()[1:]
        if kind not in ir.TYPE_BITS:
            raise self.tokens.error(f"unknown register type '.{kind}'", self.tokens.at - 1)
        while True:
            name = self.tokens.next()
            if self.tokens.accept("<"):
                count = int(self.tokens.next())
                self.function.register_count += count - 1
                self.scope.ranges[name] = (count, kind)
                self.tokens.expect(">")
            else:
                self.function.register_count += 1
                self.scope.names[name] = ir.Register(name + self.scope.suffix, kind)
            if self.tokens.accept(";"):
                return
            self.tokens.expect(",")

    # ------------------------------------------------------------------------ instructions

    def _instruction(self) -> ir.Instruction:
        tokens = self.tokens
        first = tokens.at
        guard = self._guard() if tokens.texts[first] == "@" else None
        opcode, modifiers = _split(tokens.next())
        if not (opcode[:1].isalpha()):
            raise tokens.error(f"expected an instruction, found {tokens.texts[first]!r}", first)
        operands = []
        if not tokens.accept(";"):
            while True:
                operands.append(self._operand())
                if tokens.accept(";"):
                    break
                tokens.expect(",")
        ins = ir.Instruction(
            opcode, modifiers, tuple(operands), guard, tokens.line(first), self.source
        )
        if opcode in ("bra", "brx"):
            self.labels.append((ins, self.scope, first))
        return ins

    def _guard(self) -> ir.Guard:
        self.tokens.expect("@")
        negated = self.tokens.accept("!")
        name = self.tokens.next()
        register = self.scope.find(name)
        if not isinstance(register, ir.Register):
            raise self.tokens.error(f"guard {name!r} is not a register", self.tokens.at - 1)
        return ir.Guard(register, negated)

    def _operand(self) -> ir.Operand:
        first = self._simple()
        if self.tokens.texts[self.tokens.at] == "|":
            self.tokens.at += 1
            return ir.Pair(first, self._simple())
        return first

    def _simple(self) -> ir.Operand:
        tokens = self.tokens
        word = tokens.next()
        head = word[0]
        if head == "%" or head.isalpha() or head == "$" or (head == "_" and len(word) > 1):
            return self._name(word)
        if head.isdigit():
            return _number(word)
        if inner := _BRACKETED.get(word):
            return inner(self)
        raise tokens.error(f"expected an operand, found {word!r}", tokens.at - 1)

    def _minus(self) -> ir.Operand:
        if self.tokens.peek()[:1].isdigit():
            return _negative(_number(self.tokens.next()))
        item = self._simple()
        if isinstance(item, ir.Part):
            return ir.Part(item.register, item.selector, not item.negative)
        if not isinstance(item, ir.Register):
            raise self.tokens.error(
                "only numbers and registers can be negative", self.tokens.at - 1
            )
        return ir.Part(item, "", True)

    def _name(self, word: str) -> ir.Operand:
        found = self.scope.find(word)
        if found is None:
            base, _, selector = word.rpartition(".")
            if selector in _PARTS and isinstance(register := self.scope.find(base), ir.Register):
                return ir.Part(register, selector)
            if word == "WARP_SZ":
                return ir.Immediate(32)
            if word[0] == "%":
                if not _is_special(word):
                    raise self.tokens.error(
                        f"register {word!r} is not declared", self.tokens.at - 1
                    )
                return ir.Special(word)
            found = ir.Symbol(word)
        if isinstance(found, ir.Symbol) and self.tokens.peek() in ("+", "-"):
            return ir.Symbol(found.name, self._offset())
        return found

    def _list(self, end: str) -> tuple[ir.Operand, ...]:
        items = []
        while not self.tokens.accept(end):
            items.append(self._operand())
            if self.tokens.peek() != end:
                self.tokens.expect(",")
        return tuple(items)

    def _address(self) -> ir.Operand:
        base = self._simple()
        offset = self._offset()
        if isinstance(base, ir.Symbol):
            base, offset = ir.Symbol(base.name), offset + base.offset
        if not isinstance(base, ir.Register | ir.Symbol | ir.Immediate):
            raise self.tokens.error("an address must start with a register, symbol or number")
        address = ir.Address(base, offset)
        extra = []
        while self.tokens.accept(","):
            extra.append(self._operand())
        self.tokens.expect("]")
        return ir.Tuple((address, *extra)) if extra else address

    def _resolve_labels(self) -> None:
        for ins, scope, first in self.labels:
            position = 0 if ins.opcode == "bra" else len(ins.operands) - 1
            if not ins.operands:
                raise self.tokens.error(f"{ins.name!r} without a label", first)
            target = ins.operands[position]
            if ins.opcode == "brx" or not isinstance(target, ir.Symbol):
                continue
            unique = scope.label(target.name)
            if unique is None:
                raise self.tokens.error(f"no label {target.name!r}", first)
            ins.operands = (*ins.operands[:position], ir.Symbol(unique))


_MODULE_LEVEL: dict[str, Callable[[_Parser], None]] = {
    ".version": _Parser._version,
    ".target": _Parser._target,
    ".address_size": _Parser._address_size,
    ".file": _Parser._file,
    ".section": _Parser._section,
    ".pragma": _Parser._until_semicolon,
    ".alias": _Parser._alias,
    ";": lambda parser: None,
}

_BRACKETED: dict[str, Callable[[_Parser], ir.Operand]] = {
    "_": lambda p: ir.Sink(),
    "-": _Parser._minus,
    "!": lambda p: ir.Negated(p._simple()),
    "{": lambda p: ir.Vector(p._list("}")),
    "(": lambda p: ir.Tuple(p._list(")")),
    "[": _Parser._address,
}

_SPECIALS = re.compile(
    r"%(n?tid|n?ctaid|clusterid|nclusterid|cluster_n?ctaid)\.[xyz]$"
    r"|%(n?warpid|laneid|n?smid|gridid|is_explicit_cluster|cluster_n?ctarank|lanemask_\w\w"
    r"|clock|clock_hi|clock64|pm\d+(_64)?|envreg\d+|globaltimer(_lo|_hi)?"
    r"|reserved_smem_offset_\w+|(total|dynamic|aggr)_smem_size|current_graph_exec)$"
)


def _is_special(word: str) -> bool:
    return _SPECIALS.match(word) is not None
