"""Annotators that tests of partitioning put regions into a graph with. Source: ``relay.testing.byoc``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call, Var
from byoc.relay.functor import ExprMutator
from byoc.relay.op.annotation import compiler_begin, compiler_end


class CcompilerAnnotator(ExprMutator):
    """Makes one region for ``ccompiler`` of a product whose left side leads to an addition.

    It ends behind the multiplication and begins before the addition, and before each variable that a multiplication or
    subtraction between them reads. Source: ``byoc.CcompilerAnnotator``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_compiler = 0  # 1 between a multiplication and the addition that it waits for, 2 once that is found

    def visit_call(self, call: Call) -> RelayExpr:
        """*call* with annotations. Source: ``CcompilerAnnotator.visit_call``."""
        name = call.op.name if isinstance(call.op, Op) else ""
        if name == "multiply":
            return self._product(call)
        if name in ("add", "subtract") and self.in_compiler == 1:
            if name == "subtract":
                return self._rebuilt(call, [self._begun_variable(arg) for arg in call.args])
            args = [compiler_begin(self.visit(arg), "ccompiler") for arg in call.args]
            self.in_compiler = 2
            return self._rebuilt(call, args)
        return super().visit_call(call)

    def _product(self, call: Call) -> RelayExpr:
        self.in_compiler = 1
        made = self._rebuilt(call, [self._begun_variable(arg) for arg in call.args])
        found, self.in_compiler = self.in_compiler == 2, 0
        return compiler_end(made, "ccompiler") if found else made

    def _begun_variable(self, arg: RelayExpr) -> RelayExpr:
        new = self.visit(arg)
        return compiler_begin(new, "ccompiler") if isinstance(new, Var) else new

    def _rebuilt(self, call: Call, args: Sequence[RelayExpr]) -> Call:
        return Call(call.op, args, call.attrs, call.type_args, call.span)


class WhiteListAnnotator(ExprMutator):
    """Makes a region for *compiler* of each call of an operator in *op_list*. Source: ``byoc.WhiteListAnnotator``."""

    def __init__(self, op_list: Iterable[str], compiler: str):
        super().__init__()
        self.op_list, self.compiler = tuple(op_list), compiler

    def visit_call(self, call: Call) -> RelayExpr:
        """*call* with annotations."""
        if not isinstance(call.op, Op) or call.op.name not in self.op_list:
            return super().visit_call(call)
        args = [compiler_begin(self.visit(arg), self.compiler) for arg in call.args]
        return compiler_end(Call(call.op, args, call.attrs, call.type_args, call.span), self.compiler)
