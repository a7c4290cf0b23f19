"""CombineParallelDense: products of one input with several matrices become one.

Either one batched product, for weights of one shape (inputs and weights are stacked, each branch takes its item of the
batch), or one product with the matrices one below the other, for any numbers of units (each branch takes its columns).
Source: ``relay.transform.CombineParallelDense``.
"""

from __future__ import annotations

import functools

from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Dim
from byoc.relay.expr import Call, Tuple, TupleGetItem
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.fuse.combine_parallel import BranchGroup, ParallelCombiner, combiner_pass, tensor


def _args(group: BranchGroup, level: int, index: int) -> list[RelayExpr]:
    return [branch[level].args[index] for branch in group]


class DenseToBatchCombiner(ParallelCombiner):
    """Products with matrices of one shape as one ``nn.batch_matmul``."""

    operator = "nn.dense"

    def is_supported(self, call: Call) -> bool:
        return tensor(call.args[0]).ndim == 2

    def are_compatible(self, a: Call, b: Call) -> bool:
        same = a.attrs["out_dtype"] == b.attrs["out_dtype"]
        return same and tensor(a.args[1]) == tensor(b.args[1])

    def combine(self, group: BranchGroup) -> Call:
        stacked = [call_op("stack", [Tuple(_args(group, 0, k))], axis=0) for k in range(2)]
        out_dtype = group[0][0].attrs["out_dtype"]
        return call_op("nn.batch_matmul", stacked, out_dtype=out_dtype, transpose_a=False, transpose_b=True)

    def is_argument_compatible(self, head: Call, a: Call, b: Call, index: int) -> bool:
        return tensor(a.args[index]) == tensor(b.args[index])

    def follow(self, data: RelayExpr, group: BranchGroup, level: int, parent: int) -> Call:
        call = group[0][level]
        args = [data] * len(call.args)
        for k in range(len(args)):
            if k != parent:
                args[k] = call_op("stack", [Tuple([self._as_matrix(a) for a in _args(group, level, k)])], axis=0)
        return Call(call.op, args, call.attrs)

    @staticmethod
    def _as_matrix(operand: RelayExpr) -> RelayExpr:
        """*operand* with the dimensions in front that let a stack of it broadcast against a batch of matrices."""
        missing = 2 - tensor(operand).ndim
        return call_op("expand_dims", [operand], axis=0, num_newaxis=missing) if missing > 0 else operand

    def shares(self, data: RelayExpr, group: BranchGroup) -> list[RelayExpr]:
        parts = call_op("split", [data], indices_or_sections=len(group), axis=0)
        return [
            call_op("squeeze", [TupleGetItem(parts, k)], branch[0].span, axis=(0,)) for k, branch in enumerate(group)
        ]


class DenseToDenseCombiner(ParallelCombiner):
    """Products with matrices of any number of rows as one ``nn.dense``."""

    operator = "nn.dense"

    def is_supported(self, call: Call) -> bool:
        return isinstance(tensor(call.args[1]).shape[0], int)

    def are_compatible(self, a: Call, b: Call) -> bool:
        left, right = tensor(a.args[1]), tensor(b.args[1])
        same = a.attrs["out_dtype"] == b.attrs["out_dtype"]
        return same and left.dtype == right.dtype and left.shape[1] == right.shape[1]

    def combine(self, group: BranchGroup) -> Call:
        head = group[0][0]
        weights = call_op("concatenate", [Tuple(_args(group, 0, 1))], axis=0)
        units = functools.reduce(plus, [tensor(w).shape[0] for w in _args(group, 0, 1)])
        out_dtype = head.attrs["out_dtype"]
        return call_op("nn.dense", [head.args[0], weights], units=units, out_dtype=out_dtype)

    def is_argument_compatible(self, head: Call, a: Call, b: Call, index: int) -> bool:
        left, right = tensor(a.args[index]), tensor(b.args[index])
        known = all(isinstance(d, int) for d in (*left.shape[-1:], *right.shape[-1:]))
        return known and left.dtype == right.dtype and left.ndim == right.ndim and left.shape[:-1] == right.shape[:-1]

    def follow(self, data: RelayExpr, group: BranchGroup, level: int, parent: int) -> Call:
        call = group[0][level]
        args = [data] * len(call.args)
        for k in range(len(args)):
            if k == parent:
                continue
            axis = max(tensor(call.args[k]).ndim - 1, 0)
            operands = [self._to_the_end(branch[level], parent, k, axis) for branch in group]
            args[k] = call_op("concatenate", [Tuple(operands)], axis=axis)
        return Call(call.op, args, call.attrs)

    @staticmethod
    def _to_the_end(call: Call, parent: int, index: int, axis: int) -> RelayExpr:
        """Argument *index* with one element a unit along its last axis, so that operands can be joined there."""
        operand, units = call.args[index], tensor(call.args[parent]).shape[-1]
        ty = tensor(operand)
        if ty.ndim == 0:
            operand = call_op("expand_dims", [operand], axis=-1, num_newaxis=1)
        if ty.ndim == 0 or (ty.shape[-1] == 1 and units != 1):
            return call_op("repeat", [operand], repeats=units, axis=axis)
        return operand

    def shares(self, data: RelayExpr, group: BranchGroup) -> list[RelayExpr]:
        start: Dim = 0
        taken: list[RelayExpr] = []
        for branch in group:
            result = tensor(branch[0])
            lead, units = result.ndim - 1, result.shape[-1]
            taken.append(
                call_op(
                    "strided_slice",
                    [data],
                    branch[0].span,
                    begin=(*(0,) * lead, start),
                    end=(*(-1,) * lead, units),
                    strides=(1,) * result.ndim,
                    slice_mode="size",
                )
            )
            start = plus(start, units)
        return taken


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> FunctionPass:
    """The pass that combines at least *min_num_branches* products of one input, batched or side by side."""
    combiner = DenseToBatchCombiner if to_batch else DenseToDenseCombiner
    return combiner_pass("CombineParallelDense", combiner, min_num_branches)
