"""Graphs inside nodes as functions of their own: what If, Loop and Scan are made of.

Such a graph becomes a global function of straight code, over what the operator hands to it and what it reads from
around it; the operator becomes a small global function that decides which one is called, and how often. Ensures: every
dimension of a function's parameter has a number or a name, so that code can be generated for its body; names that are
made here stay inside of the function (outside, such a size is known only when the model runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.span import Span
from byoc.ir.types import Any, FuncType, TensorType, TupleType, Type, TypeCall
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, If, Tuple, TupleGetItem, Var
from byoc.relay.frontend.onnx.names import SizeNames
from byoc.relay.traverse import post_order

INNER = "inner size"


@dataclass(frozen=True)
class TakenDecision:
    """Whether a *condition* of the run holds: that of a node, or of one inside of it, to which *path* leads by the
    positions of nodes in their bodies.
    """

    path: tuple[int, ...]
    condition: bool


@dataclass(frozen=True)
class InnerGraph:
    """A converted graph: its *outputs* over *params*, and what it reads from outside, by the parameter for it."""

    params: Sequence[Var]
    captured: Sequence[tuple[Var, RelayExpr]]
    outputs: Sequence[RelayExpr]

    @property
    def types(self) -> list[Type]:
        """The types of the outputs, with the names of sizes that hold inside."""
        return [infer_expr(output) for output in self.outputs]


class InnerSizes:
    """Names for sizes inside of functions, none of which the model's inputs have."""

    def __init__(self) -> None:
        self.names = SizeNames()
        self._made: set[str] = set()

    def named(self, ty: Type) -> Type:
        """*ty* with a new name for each dimension that has none."""
        if isinstance(ty, TensorType):
            return TensorType([self._dim(d) if isinstance(d, Any) and not d.name else d for d in ty.shape], ty.dtype)
        return TupleType([self.named(f) for f in ty.fields]) if isinstance(ty, TupleType) else ty  # elements differ

    def outside(self, ty: Type) -> Type:
        """*ty* as it is known outside of the function: sizes that were named here have no name."""
        from byoc.relay.op.sequence import element_of

        if isinstance(ty, TensorType):
            made = [Any() if isinstance(d, Any) and d.name in self._made else d for d in ty.shape]
            return TensorType(made, ty.dtype)
        element = element_of(ty)
        if element is not None and isinstance(ty, TypeCall):
            return TypeCall(ty.func, (self.outside(element),))
        return TupleType([self.outside(f) for f in ty.fields]) if isinstance(ty, TupleType) else ty

    def _dim(self, dim: Any) -> Any:
        name = self.names(f"{INNER} {len(self._made)}")
        self._made.add(name)
        return Any(name)


class InnerFunctions:
    """The global functions that an import makes beside ``main``, by names that are distinct."""

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, Function] = {}
        self._names = SizeNames()

    def state(self) -> dict[GlobalVar, Function]:
        """What :meth:`restore` takes."""
        return dict(self.functions)

    def restore(self, state: dict[GlobalVar, Function]) -> None:
        """Have no functions but those that there were then."""
        self.functions = dict(state)

    def declare(self, what: str, params: Sequence[Type], result: Type) -> GlobalVar:
        """A name for a function of that type, which may call itself; :meth:`define` gives it its body."""
        var = GlobalVar(self._names(f"{what} {len(self.functions)}"))
        var._checked_type = FuncType(params, result, ())
        return var

    def define(self, var: GlobalVar, params: Sequence[Var], body: RelayExpr, node: str) -> GlobalVar:
        """Let *var*, which was declared, be the function of *body*, made of *node*."""
        assert isinstance(var._checked_type, FuncType)
        span = Span.named(node)
        for expr in post_order(body):
            if expr.span is None and isinstance(expr, (Call, If, Tuple, TupleGetItem)):
                expr.span = span
        function = Function(params, body, var._checked_type.ret_type, (), None, span)
        infer_expr(function)
        self.functions[var] = function
        return var

    def straight(
        self, what: str, params: Sequence[Var], outputs: Sequence[RelayExpr], node: str, result: Type | None = None
    ) -> GlobalVar:
        """A function that gives *outputs*, one alone or a tuple of them, of type *result* where that says less."""
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        types = [infer_expr(p) for p in params]
        return self.define(self.declare(what, types, result or infer_expr(body)), params, body, node)
