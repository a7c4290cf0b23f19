"""Calls whose sizes an operand's elements say (axes, bounds, lengths, what is not 0), as functions of their own.

What such a call gives has sizes without names, for which no code is generated, nor for what follows. As a function that
is called, it is one whose result the virtual machine looks at, and what follows becomes a part (``outline``) over sizes
that have names again. Only functions are changed that hold an operator with the trait ``finds_sizes``, or one that
makes sizes without names of operands that have them, and in them every call that cannot say its sizes by those of its
operands: the reshape back from a matrix is one too. Ensures: the same values.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import Any, FuncType, TensorType, TupleType, Type, tensor_types
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.operator_calls import is_symbolic, makes_sizes
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

    def stand_in(self, ty: Type) -> bool:
        """Whether *ty* has a size with a name that was made here."""
        return any(isinstance(d, Any) and self._is_inner(d) for t in tensor_types(ty) for d in t.shape)

    def _is_inner(self, dim: Any) -> bool:
        return bool(dim.name) and not self.made.isdisjoint(names_in(dim.name))

    def _new(self) -> Any:
        self.made.add(f"{self._prefix}_{len(self.made)}")
        return Any(f"{self._prefix}_{len(self.made) - 1}")


def with_found_sizes(mod: IRModule, sizes: PartSizes) -> IRModule:
    """The typed *mod*, in whose functions each call that finds sizes is one of a function, and names them by *sizes*.

    Parameters with sizes without names get some too.
    """
    found = [v for v, f in mod.functions.items() if isinstance(f, Function) and _finds_sizes(f)]
    if not found:
        return mod
    result = mod.shallow_copy()
    for var in found:
        function = mod[var]
        assert isinstance(function, Function)
        made = _Found(function, var.name_hint, sizes)
        body = made.body()
        declared = function.declared_ret_type
        result[var] = Function(made.params, body, declared, function.type_params, function.attrs, function.span)
        for part, straight in made.functions.items():
            result[part] = straight
    return infer_module(result)


def _finds_sizes(function: Function) -> bool:
    if "Compiler" in function.attrs:
        return False
    found = list(post_order(function.body))
    return all(isinstance(n, STRAIGHT) for n in found) and any(isinstance(n, Call) and _gives_sizes(n) for n in found)


def _gives_sizes(call: Call) -> bool:
    """Whether what *call* gives has sizes that come to light there: an operator's, or those of a decision."""
    if isinstance(call.op, GlobalVar):
        return not is_symbolic(call.checked_type)
    return isinstance(call.op, Op) and (call.op.traits.finds_sizes or makes_sizes(call))


class _Found:
    """One function, made anew so that every size has a name: that of what a called function gives is its result's.

    What is known of shapes is asked for once more over these names: a reshape to sizes that were found needs no call.
    """

    def __init__(self, function: Function, name: str, sizes: PartSizes):
        from byoc.relay.transform.simplify.shape_values import ShapeValues

        self.functions: dict[GlobalVar, Function] = {}
        self._function, self._name, self._sizes = function, name, sizes
        self._values = ShapeValues()
        self._made: dict[RelayExpr, RelayExpr] = {}
        self._decided = PartSizes("decided_size")
        self._in_parts: dict[RelayExpr, Type] = {}  # types over the names that these have in a part
        self.params = [self._param(p) for p in function.params]

    def _param(self, param: Var) -> Var:
        named = self._sizes.named(param.checked_type)
        made = param if named == param.checked_type else Var(param.name_hint, named, param.span)
        self._made[param] = made
        return made

    def body(self) -> RelayExpr:
        """The body over calls of :attr:`functions`."""
        for node in post_order(self._function.body):
            if node not in self._made:
                self._visit(node)
        return self._made[self._function.body]

    def _visit(self, node: RelayExpr) -> None:
        made: RelayExpr = node
        if isinstance(node, Call):
            made = self._call(node)
        elif isinstance(node, Tuple):
            made = Tuple([self._made[f] for f in node.fields], span=node.span)
            if any(f in self._in_parts for f in made.fields):
                self._in_parts[made] = TupleType([self._in_part(f) for f in made.fields])
        elif isinstance(node, TupleGetItem):
            made = TupleGetItem(self._made[node.tuple_value], node.index, span=node.span)
            whole = self._in_parts.get(made.tuple_value)
            if isinstance(whole, TupleType):
                self._in_parts[made] = whole.fields[made.index]
        infer_expr(made)
        self._made[node] = made

    def _in_part(self, node: RelayExpr) -> Type:
        return self._in_parts.get(node, infer_expr(node))

    def _call(self, node: Call) -> RelayExpr:
        made = Call(node.op, [self._made[a] for a in node.args], node.attrs, node.type_args, node.span)
        ty = infer_expr(made)
        if not isinstance(node.op, Op) or node.op.traits.kind is OpKind.SEQUENCE:
            if not is_symbolic(ty):
                self._in_parts[made] = self._decided.named(ty)
            return made
        if any(a in self._in_parts for a in made.args):
            return self._of_decided(made)
        from byoc.relay.transform.simplify.dynamic_to_static import make_static

        known = self._values.learn(made)
        if known is not made or not isinstance(known, Call):
            return known
        static = make_static(made, self._values)
        if is_symbolic(infer_expr(static)):
            return static
        return self._called(made, self._sizes.named(static.checked_type))

    def _of_decided(self, call: Call) -> Call:
        """*call* over what a called function gave in sizes without names: they have some inside of parts alone."""
        ty = infer_expr(Call(call.op, [self._inside(a, {}) for a in call.args], call.attrs, span=call.span))
        made = call if is_symbolic(ty) else self._called(call, self._decided.outside(self._sizes.named(ty)))
        if made is call:
            self._in_parts[made] = ty
        elif not is_symbolic(infer_expr(made)):
            self._in_parts[made] = self._decided.named(made.checked_type)
        return made

    def _called(self, call: Call, result: Type) -> Call:
        """*call* in a function of its own, which gives *result*."""
        params: dict[RelayExpr, Var] = {}
        inside = Call(call.op, [self._inside(a, params) for a in call.args], call.attrs, span=call.span)
        variables: Sequence[Var] = list(params.values())
        var = GlobalVar(f"{self._name}_found_{len(self.functions)}")
        function = Function(variables, inside, result, (), None, call.span)
        infer_expr(function)
        var._checked_type = FuncType([v.checked_type for v in variables], result, ())
        self.functions[var] = function
        return Call(var, list(params), span=call.span)

    def _inside(self, node: RelayExpr, params: dict[RelayExpr, Var]) -> RelayExpr:
        """*node* as a function sees it that has *params*, to which it is added."""
        if isinstance(node, Constant):
            return node
        if isinstance(node, Tuple):
            return Tuple([self._inside(f, params) for f in node.fields])
        if node not in params:
            params[node] = Var(f"given{len(params)}", self._in_part(node))
        return params[node]
