"""CombineParallelBatchMatmul: batched products of one input become one with more columns.

The right factors, transposed as by default, are concatenated along their rows; each branch takes its columns. Operands
of following broadcasts must have a column for each and are concatenated along their last axis.
Source: ``relay.transform.CombineParallelBatchMatmul``.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Dim
from byoc.relay.expr import Call, Tuple
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.fuse.combine_parallel import BranchGroup, ParallelCombiner, combiner_pass, tensor


class BatchMatmulCombiner(ParallelCombiner):
    """Batched products ``a @ b.T`` with known numbers of columns."""

    operator = "nn.batch_matmul"

    def is_supported(self, call: Call) -> bool:
        plain = not call.attrs["transpose_a"] and call.attrs["transpose_b"]
        return bool(plain) and isinstance(tensor(call.args[1]).shape[1], int)

    def are_compatible(self, a: Call, b: Call) -> bool:
        left, right = tensor(a.args[1]), tensor(b.args[1])
        same = a.attrs["out_dtype"] == b.attrs["out_dtype"]
        return same and left.dtype == right.dtype and left.shape[0] == right.shape[0]

    def combine(self, group: BranchGroup) -> Call:
        head = group[0][0]
        weights = call_op("concatenate", [Tuple([branch[0].args[1] for branch in group])], axis=1)
        return Call(head.op, [head.args[0], weights], head.attrs)

    def is_argument_compatible(self, head: Call, a: Call, b: Call, index: int) -> bool:
        left, right = tensor(a.args[index]), tensor(b.args[index])
        if left.dtype != right.dtype or left.ndim != right.ndim or left.ndim == 0:
            return False
        joined = left.shape[-1] == tensor(a).shape[-1] and right.shape[-1] == tensor(b).shape[-1]
        return joined and left.shape[:-1] == right.shape[:-1]

    def follow(self, data: RelayExpr, group: BranchGroup, level: int, parent: int) -> Call:
        call = group[0][level]
        args = [data] * len(call.args)
        for k in range(len(args)):
            if k != parent:
                args[k] = call_op("concatenate", [Tuple([branch[level].args[k] for branch in group])], axis=-1)
        return Call(call.op, args, call.attrs)

    def shares(self, data: RelayExpr, group: BranchGroup) -> list[RelayExpr]:
        start: Dim = 0
        taken: list[RelayExpr] = []
        for branch in group:
            columns = tensor(branch[0]).shape[2]
            taken.append(
                call_op(
                    "strided_slice",
                    [data],
                    branch[0].span,
                    begin=(0, 0, start),
                    end=(-1, -1, columns),
                    strides=(1, 1, 1),
                    slice_mode="size",
                )
            )
            start = plus(start, columns)
        return taken


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> FunctionPass:
    """The pass that combines at least *min_num_branches* batched products of one input."""
    return combiner_pass("CombineParallelBatchMatmul", BatchMatmulCombiner, min_num_branches)
