"""LazyGradientInit: zeros and ones that gradients begin with are not made where sums and products need them not.

``0 + x``, ``x - 0`` and ``1 * x`` become x, where that has the type of the result; ``0 * x`` becomes zeros. Numbers
that are not finite count as finite, as in Relay, which keeps its zeros as cells without a tensor until they are read.
Source: ``relay.transform.LazyGradientInit``.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_forms import REWRITES
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import children, post_order, rebuild

Known = Callable[[RelayExpr], int | None]


def LazyGradientInit() -> ModulePass:
    """The pass that leaves out the zeros and ones that gradients begin with."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        typed = infer_module(mod)
        result = typed.shallow_copy()
        for var, func in typed.functions.items():
            if isinstance(func, Function):
                result[var] = _Lazy().run(func)
        return infer_module(result)

    return ModulePass(transform, PassInfo("LazyGradientInit", 2, ends=("typed", "graph_normal_form", *REWRITES)))


class _Lazy:
    """One function: which values are zeros or ones throughout, and what is left of sums and products with them."""

    def __init__(self) -> None:
        self._memo: dict[RelayExpr, RelayExpr] = {}
        self._numbers: dict[RelayExpr, int] = {}

    def run(self, root: Function) -> Function:
        """*root* without sums and products that zeros and ones decide."""
        bound: dict[RelayExpr, list[Var]] = {}
        for node in post_order(root):
            if isinstance(node, Let):
                bound.setdefault(node.value, []).append(node.variable)
        for node in post_order(root, lambda e: (e.value, e.variable, e.body) if isinstance(e, Let) else children(e)):
            after = rebuild(node, [self._memo[c] for c in children(node)]) if children(node) else node
            if isinstance(node, Call) and isinstance(node.op, Op):
                after = self._call(node, after)
            self._memo[node] = after
            for var in bound.get(node, ()):
                if node in self._numbers:
                    self._numbers[var] = self._numbers[node]
        return as_function(self._memo[root])

    def _call(self, call: Call, after: RelayExpr) -> RelayExpr:
        name = call.op.name  # type: ignore[attr-defined]
        fill = call.op.traits.fill  # type: ignore[attr-defined]
        if fill is not None:
            self._numbers[call] = fill
            return after
        if name not in ("add", "subtract", "multiply"):
            return after
        left, right = call.args
        numbers = self._numbers.get(left), self._numbers.get(right)
        kept: RelayExpr | None = None
        if name == "multiply":
            if 0 in numbers:
                kept = left if numbers[0] == 0 else right
            elif 1 in numbers:
                kept = right if numbers[0] == 1 else left
        elif numbers[1] == 0:
            kept = left
        elif numbers[0] == 0 and name == "add":
            kept = right
        if kept is None or kept.checked_type != call.checked_type:
            return after
        if kept in self._numbers:
            self._numbers[call] = self._numbers[kept]
        return self._memo[kept]
