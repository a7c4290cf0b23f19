"""Calls whose sizes an operand's elements say (axes, bounds, lengths that inputs hold), as functions of their own.

What such a call gives has sizes without names, for which no code is generated, nor for what follows. As a function that
is called, it is one whose result the virtual machine looks at, and what follows becomes a part (``outline``) over sizes
that have names again. Only functions that hold an operator with the trait ``finds_sizes`` are changed, and in them
every call that cannot say its sizes by those of its operands: the reshape back from a matrix is one too. Ensures: the
same values.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import Any, FuncType, TensorType, TupleType, Type, TypeCall, contains_type, tensor_types
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import post_order
from byoc.runtime.core.derived_size import names_in

SIZE = "part_size"
STRAIGHT = (Call, Constant, GlobalVar, Op, Tuple, TupleGetItem, Var)  # what straight code is made of


class PartSizes:
    """Names for sizes inside of parts."""

    def __init__(self, prefix: str = SIZE) -> None:
        self.made: set[str] = set()
        self._prefix = prefix

    def named(self, ty: Type) -> Type:
        """*ty* with a new name for each dimension that has none."""
        if isinstance(ty, TupleType):
            return TupleType([self.named(f) for f in ty.fields])
        if not isinstance(ty, TensorType):
            return ty
        return TensorType([self._new() if isinstance(d, Any) and not d.name else d for d in ty.shape], ty.dtype)

    def outside(self, ty: Type) -> Type:
        """*ty* without the names that were made here."""
        if isinstance(ty, TensorType):
            dims = [Any() if isinstance(d, Any) and self._is_inner(d) else d for d in ty.shape]
            return TensorType(dims, ty.dtype)
        return TupleType([self.outside(f) for f in ty.fields]) if isinstance(ty, TupleType) else ty

    def _is_inner(self, dim: Any) -> bool:
        return bool(dim.name) and not self.made.isdisjoint(names_in(dim.name))

    def _new(self) -> Any:
        self.made.add(f"{self._prefix}_{len(self.made)}")
        return Any(f"{self._prefix}_{len(self.made) - 1}")


def is_symbolic(ty: Type) -> bool:
    """Whether every dimension of *ty*, which holds no sequence, has a number or a name."""
    return not contains_type(ty, TypeCall) and all(t.is_symbolic for t in tensor_types(ty))


def with_found_sizes(mod: IRModule) -> IRModule:
    """The typed *mod*, in whose functions each call that finds sizes is one of a function."""
    found = [v for v, f in mod.functions.items() if isinstance(f, Function) and _finds_sizes(f)]
    if not found:
        return mod
    result = mod.shallow_copy()
    for var in found:
        function = mod[var]
        assert isinstance(function, Function)
        made = _Found(function, var.name_hint)
        result[var] = Function(
            function.params, made.body(), function.ret_type, function.type_params, function.attrs, function.span
        )
        for part, straight in made.functions.items():
            result[part] = straight
    return infer_module(result)


def _finds_sizes(function: Function) -> bool:
    if "Compiler" in function.attrs:
        return False
    found = list(post_order(function.body))
    return all(isinstance(n, STRAIGHT) for n in found) and any(
        isinstance(n, Call) and isinstance(n.op, Op) and n.op.traits.finds_sizes for n in found
    )


class _Found:
    """One function, whose calls are looked at over sizes that all have names, as they will have in a part."""

    def __init__(self, function: Function, name: str):
        self.functions: dict[GlobalVar, Function] = {}
        self._function, self._name = function, name
        self._sizes = PartSizes("found_size")
        self._made: dict[RelayExpr, RelayExpr] = {}
        self._named: dict[RelayExpr, Type] = {}  # the types of nodes where all sizes have names

    def body(self) -> RelayExpr:
        """The body over calls of :attr:`functions`."""
        for node in post_order(self._function.body):
            self._visit(node)
        return self._made[self._function.body]

    def _visit(self, node: RelayExpr) -> None:
        if isinstance(node, Call):
            self._visit_call(node)
            return
        made: RelayExpr = node
        if isinstance(node, Tuple):
            made = Tuple([self._made[f] for f in node.fields], span=node.span)
            self._named[node] = TupleType([self._named[f] for f in node.fields])
        elif isinstance(node, TupleGetItem):
            made = TupleGetItem(self._made[node.tuple_value], node.index, span=node.span)
            whole = self._named[node.tuple_value]
            assert isinstance(whole, TupleType)
            self._named[node] = whole.fields[node.index]
        elif isinstance(node, (Var, Constant)):
            self._named[node] = self._sizes.named(node.checked_type)
        if made is not node:
            infer_expr(made)
        self._made[node] = made

    def _visit_call(self, node: Call) -> None:
        args = [self._made[a] for a in node.args]
        made = Call(node.op, args, node.attrs, node.type_args, node.span)
        if not isinstance(node.op, Op) or node.op.traits.kind is OpKind.SEQUENCE:
            ty = node.checked_type
        else:
            params: dict[RelayExpr, Var] = {}
            inside = Call(node.op, [self._inside(a, params) for a in node.args], node.attrs, span=node.span)
            ty = infer_expr(inside)
            if not is_symbolic(ty):
                made = self._called(inside, params)
        self._named[node] = self._sizes.named(ty)
        infer_expr(made)
        self._made[node] = made

    def _inside(self, node: RelayExpr, params: dict[RelayExpr, Var]) -> RelayExpr:
        if isinstance(node, Constant):
            return node
        if isinstance(node, Tuple):
            return Tuple([self._inside(f, params) for f in node.fields])
        if node not in params:
            params[node] = Var(f"given{len(params)}", self._named[node])
        return params[node]

    def _called(self, inside: Call, params: dict[RelayExpr, Var]) -> Call:
        variables: Sequence[Var] = list(params.values())
        var = GlobalVar(f"{self._name}_found_{len(self.functions)}")
        result = self._sizes.outside(infer_expr(inside))
        function = Function(variables, inside, result, (), None, inside.span)
        infer_expr(function)
        var._checked_type = FuncType([v.checked_type for v in variables], result, ())
        self.functions[var] = function
        return Call(var, [self._made[node] for node in params], span=inside.span)
