"""recast: chosen operators compute in another dtype, between casts. Source: ``tvm.relay.transform.recast``.

``nn.conv2d(x, w)`` in float32 becomes ``cast(nn.conv2d(cast(x), cast(w), out_dtype=…))``. Nothing is scaled: this shows
what an operator costs in a dtype, not what a model computes in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from byoc.annex.analysis.op_counts import count_layers
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import get_op
from byoc.ir.types import TensorType
from byoc.relay import op
from byoc.relay.analysis.module_types import infer_module, typed_expr
from byoc.relay.expr import Call, Function, Tuple
from byoc.relay.narrowing import as_var, operator_of
from byoc.relay.traverse import children, rebuild


def recast(
    expr: RelayExpr | IRModule,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> RelayExpr | IRModule:
    """*expr* with the inputs of chosen operators cast to *dtype*, and their results back to what they were.

    A layer is a call of a chosen operator; its number is how many of them stand above it on the path to the inputs, as
    :func:`byoc.relay.analysis.count_layers` counts, when it is first reached from the result. As in Relay, an input
    after the first is counted as if the call that reads it were none.

    Args:
        expr: An expression, a function, or a module, of which ``main`` is recast.
        dtype: What each input of a chosen call is cast to; of ``concatenate``, each field of a tuple.
        out_dtype: What the operator's own ``out_dtype`` becomes, where it has that attribute.
        ops: The names of the chosen operators; ``nn.conv2d`` alone by default.
        skip_layers: Layers that stay; negative ones count from the last.

    Returns:
        What *expr* was: an expression, a function, or a module with another ``main``, not typed again.

    Raises:
        UserError: for a chosen call that does not give one tensor.
        RegistryError: for a name that no operator has.
        TypeInferenceError: where *expr* is ill-typed.
    """
    main = expr["main"] if isinstance(expr, IRModule) else expr
    was_typed = isinstance(main, Function) and main._checked_type is not None
    root = infer_module(expr)["main"] if isinstance(expr, IRModule) else typed_expr(expr)
    names = ["nn.conv2d"] if ops is None else list(ops)
    total = count_layers(root, names)
    skipped = {total + layer if layer < 0 else layer for layer in skip_layers or ()}
    result = _Recast(dtype, out_dtype, names, total, skipped).run(root)
    if isinstance(result, Function) and isinstance(root, Function) and was_typed:
        result = root.over(result.params, result.body)
    if not isinstance(expr, IRModule):
        return result
    mod = expr.shallow_copy()
    mod["main"] = result
    return mod


class _Recast:
    """The rewriting of one expression, whose longest chain of chosen operators has *total* of them."""

    def __init__(self, dtype: str, out_dtype: str, names: Sequence[str], total: int, skipped: Collection[int]):
        self._dtype, self._out_dtype, self._total, self._skipped = dtype, out_dtype, total, skipped
        self._chosen = {get_op(name) for name in names}
        self._new: dict[RelayExpr, RelayExpr] = {}

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* rewritten; each node at the depth at which it is first reached."""
        stack: list[tuple[RelayExpr, int, bool]] = [(root, 0, False)]
        while stack:
            node, depth, done = stack.pop()
            if node in self._new:
                continue
            if done:
                self._new[node] = self._made(node, depth)
                continue
            stack.append((node, depth, True))
            inner = children(node)
            below = depth + (isinstance(node, Call) and node.op in self._chosen)
            stack.extend((child, below if at == 0 else depth, False) for at, child in reversed(list(enumerate(inner))))
        return self._new[root]

    def _made(self, node: RelayExpr, depth: int) -> RelayExpr:
        new = [self._new[child] for child in children(node)]
        if isinstance(node, Call) and node.op in self._chosen and self._total - depth - 1 not in self._skipped:
            return self._cast(node, new)
        if isinstance(node, Function):  # made again in any case: what was untyped stays so
            params = [as_var(param) for param in new[:-1]]
            return Function(params, new[-1], node.declared_ret_type, node.type_params, node.attrs, node.span)
        return rebuild(node, new) if new else node

    def _cast(self, call: Call, args: Sequence[RelayExpr]) -> RelayExpr:
        """*call* over *args* in the other dtype."""
        if not isinstance(call.checked_type, TensorType):
            raise UserError(f"recast casts what gives one tensor, {operator_of(call)} gives {call.checked_type!r}")
        if call.op == get_op("concatenate"):
            if len(args) != 1 or not isinstance(args[0], Tuple):
                return rebuild(call, args)
            args = [Tuple([op.cast(field, self._dtype) for field in args[0].fields], args[0].span)]
        else:
            args = [op.cast(arg, self._dtype) for arg in args]
        attrs = call.attrs
        if attrs is not None and "out_dtype" in attrs.keys():
            attrs = replace(attrs, out_dtype=self._out_dtype)
        return op.cast(Call(call.op, args, attrs, (), call.span), call.checked_type.dtype)
