"""Convolutions, transposed convolutions and matrix products, with what stands behind them in the same primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byoc.contrib.onednn.algorithms import ADD, BINARY, CONVOLUTION, DECONVOLUTION, ELTWISE, FORWARD
from byoc.contrib.onednn.building import (
    BIAS,
    DST,
    POST_SRC_1,
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    SRC,
    SRC_1,
    WEIGHTS,
    BufferKind,
    Builder,
    DnnlValue,
    is_reference,
)
from byoc.contrib.onednn.fusing import is_along, sizes_along
from byoc.contrib.onednn.library import Attributes, Desc, Primitive, Unimplemented
from byoc.contrib.onednn.steps import Behind, DnnlStep, build, builds
from byoc.contrib.window import CANONICAL, pads_of, per_axis
from byoc.runtime.core.ndarray import numpy_dtype

Make = Callable[[Desc | None, Any], Primitive]  # (the bias, attributes) -> the product


class Ending:
    """What stands behind a product: its bias, what is added to its result, functions of it."""

    def __init__(self, builder: Builder, step: DnnlStep, order: Sequence[int], shape: Sequence[int]):
        """Of a product whose result has *shape* once its axes are taken in *order*, channels along its axis
        ``channels``.

        Raises Unimplemented for what cannot stand there.
        """
        self.builder, self.order, self.shape = builder, order, tuple(shape)
        self.attributes: Attributes = builder.library.attributes()
        self.arguments: dict[int, DnnlValue] = {}
        self.bias: DnnlValue | None = None
        self.addend: DnnlValue | None = None
        self.channels = len(shape) - 1 if step.operator.endswith(("dense", "matmul")) else 1
        self.count = 0  # of operations behind the product and its bias
        for post in step.behind:
            self._take(post, step)

    def _take(self, post: Behind, step: DnnlStep) -> None:
        if post.operand is None:
            self.attributes.add_eltwise(*ELTWISE[post.operator](post.attributes))
            self.count += 1
            return
        operand = self._aligned(post, len(step.shape))
        alg = BINARY.get(post.operator, ADD)  # a bias is added
        adds = alg == ADD
        if adds and not self.count and self.bias is None and self._is_bias(operand):
            self.bias = self.builder.reshaped(operand, (self.shape[self.channels],))
            return
        if adds and operand.shape == self.shape and self.addend is None:
            self.addend = operand
            self.attributes.add_sum()
        elif is_along(operand.shape, self.channels):
            operand = self.builder.in_order(operand)
            self.attributes.add_binary(alg, operand.desc)
            self.arguments[POST_SRC_1 * (self.count + 1) | SRC_1] = operand
        else:
            raise Unimplemented(f"{post.operator} with {list(operand.shape)} behind {step.operator}")
        self.count += 1

    def _is_bias(self, operand: DnnlValue) -> bool:
        return math.prod(operand.shape) == operand.shape[self.channels] == self.shape[self.channels]

    def _aligned(self, post: Behind, ndim: int) -> DnnlValue:
        """The other tensor with as many axes as the result, in the product's order of them."""
        assert post.operand is not None
        value = post.operand
        if post.operator == "nn.bias_add":
            axis = int(post.attributes["axis"]) % ndim
            shape = tuple(value.shape[0] if k == axis else 1 for k in range(ndim))
        else:
            shape = sizes_along(value.shape, ndim)
        value = self.builder.reshaped(value, shape)
        if len(self.order) == ndim:
            return value.permuted(self.order)
        return self.builder.reshaped(value, (math.prod(shape[:-1]), shape[-1]))  # rows of a flattened matrix

    def run(self, make: Make, values: dict[int, tuple[DnnlValue, int]]) -> DnnlValue:
        """The result of the product that *make* gives, on *values* by their arguments and queries.

        Raises Unimplemented where what stands behind leaves it oneDNN's plain code.
        """
        builder = self.builder
        primitive = make(None if self.bias is None else self.bias.desc, self.attributes.finished())
        if self.arguments and is_reference(primitive):
            raise Unimplemented(f"{primitive.name} for what stands behind a product")
        arguments = {
            number: builder.to(value, primitive.asked(query, 0, value.shape, value.dtype))
            for number, (value, query) in values.items()
        }
        if self.bias is not None:
            arguments[BIAS] = self.bias
        dtype = values[SRC][0].dtype
        result = self._place(primitive.asked(QUERY_DST, 0, self.shape, dtype))
        builder.add(primitive, {**arguments, **self.arguments, DST: result})
        return result

    def _place(self, desc: Desc) -> DnnlValue:
        """Where the result goes: where what is added lies, if nobody else reads that, or where it is copied to."""
        builder, addend = self.builder, self.addend
        if addend is not None and addend.desc == desc and builder.is_free_after(addend, builder.step):
            return DnnlValue(desc, addend.buffer)
        result = builder.temporary(desc)
        if addend is not None:
            builder.reorder(addend, result)
        return result


def _with_ending(product: Callable[..., DnnlValue], builder: Builder, step: DnnlStep, *values: DnnlValue) -> DnnlValue:
    """*product* with all that stands behind it; where oneDNN does not have that, one after the other."""
    mark = len(builder.actions)
    try:
        return product(builder, step, *values)
    except Unimplemented:
        if not step.behind:
            raise
        del builder.actions[mark:]
    result = product(builder, DnnlStep(step.operator, step.attributes, step.shapes, step.dtypes), *values)
    for post in step.behind:
        operands = [result] if post.operand is None else [result, post.operand]
        (result,) = build(builder, DnnlStep(post.operator, post.attributes, step.shapes, step.dtypes), operands)
    return result


@builds(*(f"nn.conv{n}d{kind}" for kind in ("", "_transpose") for n in (1, 2, 3)), takes_posts=True)
def convolution(builder: Builder, step: DnnlStep, data: DnnlValue, weight: DnnlValue) -> DnnlValue:
    """``data: f32[N, C, …], weight: f32[O, I, …]``, or of a transposed one ``f32[I, O, …]``, in any plain layouts."""
    return _with_ending(_convolution, builder, step, data, weight)


def _convolution(builder: Builder, step: DnnlStep, data: DnnlValue, weight: DnnlValue) -> DnnlValue:
    n = len(data.shape) - 2
    letters, groups, transposed = CANONICAL[n], int(step["groups"]), step.operator.endswith("transpose")
    layout = step["data_layout"]
    source = data.permuted([layout.index(letter) for letter in letters])
    order = [step.get("out_layout", layout).index(letter) for letter in letters]
    shape = [step.shape[k] for k in order]
    kernels = _kernels(builder, weight, step, groups, source.shape[1], transposed)
    strides, dilation = per_axis(step["strides"], n), per_axis(step["dilation"], n)
    pads = pads_of(step["padding"], n)
    before, after = [b for b, _ in pads], [a for _, a in pads]
    if transposed:  # what is added to the result's end is cut off less
        spans = [(k - 1) * d + 1 for k, d in zip(kernels.shape[-n:], dilation, strict=True)]
        whole = [(i - 1) * s + span for i, s, span in zip(source.shape[2:], strides, spans, strict=True)]
        after = [w - b - size for w, b, size in zip(whole, before, shape[2:], strict=True)]
    kind, alg = ("deconvolution_forward", DECONVOLUTION) if transposed else ("convolution_forward", CONVOLUTION)
    ending = Ending(builder, step, order, shape)

    def make(bias: Desc | None, attributes: Any) -> Primitive:
        library = builder.library
        window = (strides, [d - 1 for d in dilation], before, after)
        tensors = (builder.any_of(source.desc), builder.any_of(kernels.desc), bias, builder.any_of(source.desc, shape))
        return library.primitive(kind, library.engine, FORWARD, alg, *tensors, *window, attributes)

    result = ending.run(make, {SRC: (source, QUERY_SRC), WEIGHTS: (kernels, QUERY_WEIGHTS)})
    return result.permuted([order.index(k) for k in range(len(order))])


def _kernels(
    builder: Builder, weight: DnnlValue, step: DnnlStep, groups: int, channels: int, transposed: bool
) -> DnnlValue:
    """*weight* as ``OIhw``, or with groups as ``GOIhw``."""
    layout, letters = step["kernel_layout"], CANONICAL[len(step.shape) - 2][2:]
    if "G" in layout:
        return weight.permuted([layout.index(letter) for letter in "GOI" + letters])
    first, second = ("I", "O") if transposed else ("O", "I")
    value = weight.permuted([layout.index(letter) for letter in first + second + letters])
    if groups == 1:
        return value.permuted([1, 0, *range(2, len(value.shape))]) if transposed else value
    if not transposed and value.shape[1] * groups != channels:  # depthwise, as channels and results of each
        return builder.reshaped(value, (groups, value.shape[0] * value.shape[1] // groups, 1, *value.shape[2:]))
    value = builder.reshaped(value, (groups, value.shape[0] // groups, *value.shape[1:]))
    return value.permuted([0, 2, 1, *range(3, len(value.shape))]) if transposed else value


@builds("nn.dense", takes_posts=True)
def dense(builder: Builder, step: DnnlStep, data: DnnlValue, weight: DnnlValue) -> DnnlValue:
    """``data: f32[…, k], weight: f32[n, k] -> f32[…, n]``."""
    return _with_ending(_dense, builder, step, data, weight)


def _dense(builder: Builder, step: DnnlStep, data: DnnlValue, weight: DnnlValue) -> DnnlValue:
    rows = builder.reshaped(data, (math.prod(data.shape[:-1]), data.shape[-1]))
    return builder.reshaped(_matmul(builder, step, rows, weight.permuted([1, 0])), step.shape)


@builds("nn.matmul", "nn.batch_matmul", takes_posts=True)
def matmul(builder: Builder, step: DnnlStep, left: DnnlValue, right: DnnlValue) -> DnnlValue:
    """``f32[…, m, k] x f32[…, k, n] -> f32[…, m, n]``; each side may be transposed."""
    ndim = max(len(left.shape), len(right.shape))
    left, right = (builder.reshaped(v, sizes_along(v.shape, ndim)) for v in (left, right))
    swapped = [*range(ndim - 2), ndim - 1, ndim - 2]
    left = left.permuted(swapped) if step.get("transpose_a", False) else left
    right = right.permuted(swapped) if step.get("transpose_b", False) else right
    return _with_ending(_matmul, builder, step, left, right)


def _matmul(builder: Builder, step: DnnlStep, left: DnnlValue, right: DnnlValue) -> DnnlValue:
    batch = [max(a, b) for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)]
    shape = [*batch, left.shape[-2], right.shape[-1]]
    if left.shape[-1] == 0:
        if step.behind:
            raise Unimplemented("a product without terms")
        return builder.array(np.zeros(shape, numpy_dtype(left.dtype)))
    ending = Ending(builder, step, range(len(shape)), shape)
    ending.bias = None if ending.bias is None else builder.reshaped(ending.bias, sizes_along((shape[-1],), len(shape)))

    def make(bias: Desc | None, attributes: Any) -> Primitive:
        library = builder.library
        left_desc = left.desc if left.desc.is_plain else builder.any_of(left.desc)
        result = library.desc(shape, left.dtype)
        right_desc = builder.any_of(right.desc) if right.buffer.kind is BufferKind.CONSTANT else right.desc
        return library.primitive("matmul", library.engine, left_desc, right_desc, bias, result, attributes)

    return ending.run(make, {SRC: (left, QUERY_SRC), WEIGHTS: (right, QUERY_WEIGHTS)})
