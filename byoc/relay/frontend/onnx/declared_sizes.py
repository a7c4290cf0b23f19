"""Sizes inside a graph that its exporter says: ``value_info`` with dimensions like ``2*((samples - 3)//2) + 1``.

PyTorch's exporter knows how each size follows from those of the inputs, also where the graph computes it in a way that
does not say (a slice from ``5000 - T``, as many positions as a ``Range`` of floats has). Where a value's own size has
no name, what is declared gives it one by ``match_shape``, which is checked when the model runs. Only expressions of the
inputs' dimensions are taken: numbers are not, for they are what some exporters saw when they traced.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping

from onnx import ValueInfoProto

from byoc import relay
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import greater, lesser, parted, plus, times
from byoc.ir.types import Any, Dim, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Var

MOST_LETTERS = 1000  # of an expression
MOST_POWER = 4


class _NoSizeError(Exception):
    """An expression that is no size of the inputs."""


class DeclaredSizes:
    """What the ``value_info`` of a graph says of sizes, over the named dimensions of its inputs."""

    def __init__(self, values: Iterable[ValueInfoProto], params: Iterable[Var]):
        self._values = {value.name: value for value in values}
        self._sizes = _plain_sizes(params)

    def named(self, name: str, value: RelayExpr) -> RelayExpr:
        """*value*, called *name* in the graph, with names for those of its sizes that have none and are declared."""
        ty = infer_expr(value) if name in self._values else None
        if not isinstance(ty, TensorType) or ty.is_symbolic:
            return value
        declared = self._values[name].type.tensor_type.shape.dim
        if len(declared) != ty.ndim:
            return value
        dims = [
            self._size(d.dim_param) if isinstance(own, Any) and not own.name else own
            for d, own in zip(declared, ty.shape, strict=True)
        ]
        if all(a == b for a, b in zip(dims, ty.shape, strict=True)):
            return value
        made = relay.match_shape(value, dims)
        made.span = value.span
        infer_expr(made)
        return made

    def _size(self, text: str) -> Dim:
        """The size that *text* computes; unknown where it is none of the inputs' sizes."""
        if not text or len(text) > MOST_LETTERS:
            return Any()
        try:
            found = _computed(ast.parse(text, mode="eval").body, self._sizes)
        except (_NoSizeError, SyntaxError, ValueError, RecursionError, MemoryError, UserError):
            return Any()
        return found if isinstance(found, Any) else Any()


def _plain_sizes(params: Iterable[Var]) -> dict[str, Dim]:
    """The sizes that names may stand for: the inputs' named dimensions."""
    types = [p.checked_type for p in params]
    dims = (d for ty in types if isinstance(ty, TensorType) for d in ty.shape)
    return {d.name: d for d in dims if isinstance(d, Any) and d.name.isidentifier()}


def _modulo(a: Dim, b: Dim) -> Dim:
    """The remainder with the sign of *b*, a positive number."""
    return plus(a, times(_floor(a, b), times(b, -1)))


def _floor(a: Dim, b: Dim) -> Dim:
    if not isinstance(b, int) or b < 1:
        raise _NoSizeError
    return parted(a, b)


def _power(a: Dim, b: Dim) -> Dim:
    if not isinstance(b, int) or not 1 <= b <= MOST_POWER:
        raise _NoSizeError
    result = a
    for _ in range(b - 1):
        result = times(result, a)
    return result


_OPERATORS: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: plus,
    ast.Sub: lambda a, b: plus(a, times(b, -1)),
    ast.Mult: times,
    ast.FloorDiv: _floor,
    ast.Mod: _modulo,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "Min": lesser,
    "Max": greater,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "FloorDiv": _floor,
}


def _computed(node: ast.expr, sizes: Mapping[str, Dim]) -> Dim:
    """The size of an expression as SymPy prints it. Raises _NoSizeError for what it may not hold."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return times(_computed(node.operand, sizes), -1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_computed(node.left, sizes), _computed(node.right, sizes))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and node.args:
        first, *others = (_computed(a, sizes) for a in node.args)
        for other in others:
            first = _FUNCTIONS[node.func.id](first, other)
        return first
    raise _NoSizeError
