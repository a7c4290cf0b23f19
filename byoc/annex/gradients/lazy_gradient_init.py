"""LazyGradientInit: zeros and ones that gradients begin with are not made where sums and products need them not.

``0 + x``, ``x - 0`` and ``1 * x`` become x, where that has the type of the result; ``0 * x`` becomes zeros. Numbers
that are not finite count as finite, as in Relay, which keeps its zeros as cells without a tensor until they are read.
Source: ``relay.transform.LazyGradientInit``.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.operator_calls import op_name, traits_of
from byoc.relay.expr import Call, Function, Let
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order, rewrite

Number = int | None


def LazyGradientInit() -> ModulePass:
    """The pass that leaves out the zeros and ones that gradients begin with."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        typed = infer_module(mod)
        result = typed.shallow_copy()
        for var, func in typed.functions.items():
            if isinstance(func, Function):
                result[var] = _Lazy(func).run()
        return infer_module(result)

    return ModulePass(transform, PassInfo("LazyGradientInit", 2, ends=("typed", "graph_normal_form", *REWRITES)))


def _sum(left: Number, right: Number) -> int | None:
    """``x + 0`` and ``0 + x`` are x."""
    return 0 if right == 0 else 1 if left == 0 else None


def _difference(left: Number, right: Number) -> int | None:
    """``x - 0`` is x."""
    return 0 if right == 0 else None


def _product(left: Number, right: Number) -> int | None:
    """``0 * x`` and ``x * 0`` are the zeros, ``1 * x`` and ``x * 1`` are x."""
    if left == 0 or right == 0:
        return 0 if left == 0 else 1
    return 0 if right == 1 else 1 if left == 1 else None


# operator -> (the number that each element of its operands is, where that is known) -> the operand that is its result
_RULES: dict[str, Callable[[Number, Number], int | None]] = {
    "add": _sum,
    "subtract": _difference,
    "multiply": _product,
}


class _Lazy:
    """One function: which values are zeros or ones throughout, and what is left of sums and products with them."""

    def __init__(self, root: Function) -> None:
        self._root = root
        self._values = {node.variable: node.value for node in post_order(root) if isinstance(node, Let)}
        self._numbers: dict[RelayExpr, int] = {}

    def run(self) -> Function:
        """The function without sums and products that zeros and ones decide."""
        return as_function(rewrite(self._root, self._rewritten))

    def _number(self, expr: RelayExpr) -> Number:
        """What each element of *expr*, or of the value that it names, is."""
        while expr in self._values:
            expr = self._values[expr]
        return self._numbers.get(expr)

    def _rewritten(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        traits = traits_of(before)
        if traits is not None and traits.fill is not None:
            self._numbers[before] = traits.fill
        rule = _RULES.get(op_name(before) or "")
        if rule is None or not isinstance(before, Call) or not isinstance(after, Call):
            return after
        place = rule(self._number(before.args[0]), self._number(before.args[1]))
        if place is None or before.args[place].checked_type != before.checked_type:
            return after
        number = self._number(before.args[place])
        if number is not None:
            self._numbers[before] = number
        return after.args[place]
