"""Expressions over the values of a point, and texts with such expressions in braces.

Expressions are arithmetic, comparisons and `and`, `or`, `not`, `in`, `if ... else`, with a few functions; nothing
else of Python can be reached by them.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Union

from .._nagori import Error

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "int": int,
    "len": len,
    "log": math.log,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
    "str": str,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
#: Greatest exponent: larger ones only take time and memory.
_POWER = 1024
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def _dotted(node: ast.expr) -> str:
    """The name of a value, such as `seed` or `set.memory.size`; empty if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return ""


class Expression:
    """An expression that has been read."""

    def __init__(self, text: str) -> None:
        """Reads it.

        Raises:
            Error: it is no expression, or has something in it that is not allowed.
        """
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError) as e:
            raise Error(f"`{text}` is no expression: {e.args[0]}") from None
        self.names: set[str] = set()
        """Names of the values that it uses."""
        self._look(self._tree)

    def _look(self, node: ast.expr) -> None:
        name = _dotted(node)
        if name:
            self.names.add(name)
            return
        if isinstance(node, ast.Call):
            function = _dotted(node.func)
            if function not in _FUNCTIONS or node.keywords:
                known = ", ".join(_FUNCTIONS)
                raise Error(f"`{self.text}`: there is no function `{ast.unparse(node.func)}`; there are {known}")
            parts: list[ast.expr] = list(node.args)
        elif isinstance(node, ast.Constant):
            parts = []
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            parts = [node.operand]
        elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.IfExp):
            parts = [node.test, node.body, node.orelse]
        elif isinstance(node, (ast.List, ast.Tuple)):
            parts = node.elts
        else:
            raise Error(f"`{self.text}`: `{ast.unparse(node)}` is not possible in an expression")
        for part in parts:
            self._look(part)

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value.

        Raises:
            Error: a name is not there, or the operation is not possible with these values.
        """
        try:
            return self._of(self._tree, values)
        except (TypeError, ValueError, ArithmeticError) as e:
            known = {name: values[name] for name in sorted(self.names) if name in values}
            raise Error(f"`{self.text}` has no value with {known}: {e}") from None

    def _of(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        name = _dotted(node)
        if name:
            if name not in values:
                raise Error(f"`{self.text}`: there is no value `{name}`; there are {', '.join(sorted(values))}")
            return values[name]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Call):
            return _FUNCTIONS[_dotted(node.func)](*(self._of(a, values) for a in node.args))
        if isinstance(node, ast.BinOp):
            a, b = self._of(node.left, values), self._of(node.right, values)
            if isinstance(node.op, ast.Pow) and abs(b) > _POWER:
                raise ValueError(f"the exponent {b} is beyond {_POWER}")
            return _BINARY[type(node.op)](a, b)
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self._of(node.operand, values))
        if isinstance(node, ast.Compare):
            left = self._of(node.left, values)
            for op, right_node in zip(node.ops, node.comparators):
                right = self._of(right_node, values)
                if not _COMPARE[type(op)](left, right):
                    return False
                left = right
            return True
        if isinstance(node, ast.BoolOp):
            decides = isinstance(node.op, ast.Or)
            result: Any = None
            for part in node.values:
                result = self._of(part, values)
                if bool(result) == decides:
                    break
            return result
        if isinstance(node, ast.IfExp):
            return self._of(node.body if self._of(node.test, values) else node.orelse, values)
        assert isinstance(node, (ast.List, ast.Tuple))
        return [self._of(e, values) for e in node.elts]


class Template:
    """A text with expressions in braces; `{{` and `}}` are braces."""

    def __init__(self, text: str) -> None:
        """Reads it."""
        self.text = text
        self._parts: list[Union[str, Expression]] = []
        at = 0
        for found in _BRACES.finditer(text):
            self._add(text[at : found.start()])
            at = found.end()
            self._parts.append(found[0][0] if found[1] is None else Expression(found[1]))
        self._add(text[at:])
        self.names: set[str] = set().union(*(p.names for p in self._parts if isinstance(p, Expression)))
        """Names of the values that it uses."""

    def _add(self, text: str) -> None:
        for brace in "{}":
            if brace in text:
                raise Error(f"`{self.text}`: `{brace}` has no partner; `{brace}{brace}` is a single one")
        if text:
            self._parts.append(text)

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text with values in it."""
        return "".join(p if isinstance(p, str) else plain(p.value(values)) for p in self._parts)

    def value(self, values: Mapping[str, Any]) -> Any:
        """The text with values in it; the value itself where the text is nothing but one expression in braces."""
        if len(self._parts) == 1 and isinstance(self._parts[0], Expression):
            return self._parts[0].value(values)
        return self.fill(values)


def plain(value: Any) -> str:
    """A value as the command line has it: whole numbers without a point, switches as `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
