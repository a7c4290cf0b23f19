"""CombineParallelConv2D: convolutions of one input with the same window become one with more channels.

The kernels are concatenated along their output channels, operands of following broadcasts along the channel axis; each
branch takes its channels by a slice in mode ``size``. Source: ``relay.transform.CombineParallelConv2D``.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Dim
from byoc.relay.expr import Call, Tuple
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.fuse.combine_parallel import BranchGroup, ParallelCombiner, combiner_pass, tensor

_SAME = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_dtype", "out_layout")


def _kernel_size(call: Call, letter: str) -> Dim:
    axis: int = call.attrs["kernel_layout"].index(letter)
    return tensor(call.args[1]).shape[axis]


def _channel_axis(call: Call) -> int:
    attrs = call.attrs
    result: int = (attrs["out_layout"] or attrs["data_layout"]).index("C")
    return result


def _operand_axis(channel: int, call: Call, index: int) -> int:
    """Where the channels stand in argument *index* of a broadcast; negative when it has none."""
    return channel - tensor(call).ndim + tensor(call.args[index]).ndim


class Conv2DCombiner(ParallelCombiner):
    """Ungrouped 2-d convolutions in layouts without blocks, with known numbers of channels."""

    operator = "nn.conv2d"

    def is_supported(self, call: Call) -> bool:
        attrs = call.attrs
        layouts = f"{attrs['data_layout']}{attrs['kernel_layout']}{attrs['out_layout']}"
        return (
            attrs["groups"] == 1
            and layouts.isupper()
            and layouts.isalpha()
            and isinstance(_kernel_size(call, "O"), int)
        )

    def are_compatible(self, a: Call, b: Call) -> bool:
        return (
            all(a.attrs[name] == b.attrs[name] for name in _SAME)
            and all(_kernel_size(a, letter) == _kernel_size(b, letter) for letter in "HW")
            and tensor(a.args[1]).dtype == tensor(b.args[1]).dtype
        )

    def combine(self, group: BranchGroup) -> Call:
        head = group[0][0]
        weights = Tuple([branch[0].args[1] for branch in group])
        axis = head.attrs["kernel_layout"].index("O")
        channels = functools.reduce(plus, [_kernel_size(branch[0], "O") for branch in group])
        attrs = replace(head.attrs, channels=channels)
        return Call(head.op, [head.args[0], call_op("concatenate", [weights], axis=axis)], attrs)

    def is_argument_compatible(self, head: Call, a: Call, b: Call, index: int) -> bool:
        channel = _channel_axis(head)
        left, right = tensor(a.args[index]), tensor(b.args[index])
        if left.dtype != right.dtype or left.ndim != right.ndim:
            return False
        axis = _operand_axis(channel, a, index)
        if not 0 <= axis <= channel or axis >= left.ndim:
            return False
        own = ((left, a), (right, b))
        if any(operand.shape[axis] != tensor(call).shape[channel] for operand, call in own):
            return False
        return all(k == axis or m == n for k, (m, n) in enumerate(zip(left.shape, right.shape, strict=True)))

    def follow(self, data: RelayExpr, group: BranchGroup, level: int, parent: int) -> Call:
        call, channel = group[0][level], _channel_axis(group[0][0])
        args = [data] * len(call.args)
        for k in range(len(args)):
            if k != parent:
                operands = Tuple([branch[level].args[k] for branch in group])
                args[k] = call_op("concatenate", [operands], axis=_operand_axis(channel, call, k))
        return Call(call.op, args, call.attrs)

    def shares(self, data: RelayExpr, group: BranchGroup) -> list[RelayExpr]:
        axis = _channel_axis(group[0][0])
        start: Dim = 0
        taken: list[RelayExpr] = []
        for branch in group:
            size = _kernel_size(branch[0], "O")
            begin, end = (*(0,) * axis, start), (*(-1,) * axis, size)
            taken.append(
                call_op(
                    "strided_slice",
                    [data],
                    branch[0].span,
                    begin=begin,
                    end=end,
                    strides=(1,) * (axis + 1),
                    slice_mode="size",
                )
            )
            start = plus(start, size)
        return taken


def CombineParallelConv2D(min_num_branches: int = 3) -> FunctionPass:
    """The pass that combines at least *min_num_branches* convolutions of one input."""
    return combiner_pass("CombineParallelConv2d", Conv2DCombiner, min_num_branches)
