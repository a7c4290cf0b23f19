"""Convolutions over one, two or three spatial dimensions. Source: ONNX Conv-1/11 and ConvTranspose-1/11.

Windows are those of pools too. ``auto_pad`` of ``SAME_UPPER`` and ``SAME_LOWER`` gives ``ceil(size / stride)`` of them.
How much comes before the data then depends on the remainder of the size by the stride, unless the window is short: of a
free size it is one number for all remainders, or computed when the model runs (:func:`in_place`). What comes after may
always be so much that the sum is the extent less one: no window reads what stands behind its last element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import times
from byoc.ir.types import Any, Dim
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import Converter, converter

CONV = {1: "conv1d", 2: "conv2d", 3: "conv3d"}
SAME = ("SAME_UPPER", "SAME_LOWER")
CONV_TRANSPOSE = {1: "conv1d_transpose", 2: "conv2d_transpose", 3: "conv3d_transpose"}


@dataclass(frozen=True)
class SlidingWindow:
    """A sliding window: per spatial dimension its size, stride and dilation, and the padding at begins, then ends.

    The dimensions *of_run* have no padding here: :func:`in_place` pads them by what the run finds.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    of_run: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """What the window covers, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def per_axis(node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with one number for each of *count* entries. Raises ImportModelError for another number of them."""
    values = tuple(node.attrs.ints(name, [default] * count))
    if len(values) != count:
        raise node.error(f"{name} needs {count} numbers, got {len(values)}: {list(values)}")
    return values


def read_window(node: OnnxNode, kernel: Sequence[int]) -> SlidingWindow:
    """The window of a convolution or pooling, with ``auto_pad`` resolved for the shape of the data."""
    window, mode = _without_negative(node, stated_window(node, kernel)), auto_pad(node)
    if mode not in SAME:
        return window
    sizes, more_at_end = node.shape(node[0])[2:], mode == SAME[0]
    axes = zip(sizes, window.strides, window.extents, strict=True)
    sides = [_same_pads(*axis, more_at_end) for axis in axes]
    begins, ends = zip(*(pads or (0, 0) for pads in sides), strict=True)
    of_run = tuple(k for k, pads in enumerate(sides) if pads is None)
    return replace(window, pads=(*begins, *ends), of_run=of_run)


def auto_pad(node: OnnxNode) -> str:
    """The mode of the padding. Raises ImportModelError for one that ONNX does not have."""
    mode = node.attrs.string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", *SAME):
        raise node.error(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}")
    return mode


def stated_window(node: OnnxNode, kernel: Sequence[int]) -> SlidingWindow:
    """The window by the attributes alone, which has no padding where ``auto_pad`` says how much."""
    count, mode = len(kernel), auto_pad(node)
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        found = f"{list(kernel)}, {list(strides)} and {list(dilations)}"
        raise node.error(f"kernel, strides and dilations must be positive, got {found}")
    pads = per_axis(node, "pads", 2 * count, 0) if mode == "NOTSET" else (0,) * (2 * count)
    return SlidingWindow(tuple(kernel), strides, dilations, pads)


def free_window(node: OnnxNode, count: int) -> SlidingWindow:
    """As :func:`stated_window`, of a kernel that is not known: its sizes stand there as 1."""
    return _without_negative(node, stated_window(node, [1] * count))


def _without_negative(node: OnnxNode, window: SlidingWindow) -> SlidingWindow:
    if min(window.pads, default=0) < 0:
        raise node.error(f"negative padding is not supported: {list(window.pads)}; slice the data instead")
    return window


def _same_pads(size: Dim, stride: int, extent: int, more_at_end: bool) -> tuple[int, int] | None:
    """The padding before and after an axis; None where what comes before depends on its free *size*."""
    if not isinstance(size, Any):
        before, after = split_padding([max((-(-size // stride) - 1) * stride + extent - size, 0)], more_at_end)
        return before, after
    # of each remainder of the size less one by the stride
    found = {split_padding([max(extent - 1 - rest, 0)], more_at_end)[0] for rest in range(stride)}
    if len(found) > 1:
        return None
    (before,) = found
    return before, extent - 1 - before


def in_place(node: OnnxNode, data: RelayExpr, window: SlidingWindow, fill: float | int = 0) -> RelayExpr:
    """*data* (of the shape of input 0) padded with *fill* along the axes of *window* whose padding the run finds."""
    if not window.of_run:
        return data
    from byoc.relay.frontend.onnx.run_time.windows import StridedAxis, padded_to_strides

    axes = [StridedAxis(k + 2, window.strides[k], window.extents[k]) for k in window.of_run]
    return padded_to_strides(node, data, axes, fill)


def split_padding(totals: Sequence[int], more_at_end: bool) -> tuple[int, ...]:
    """Paddings at begins, then at ends; the odd one goes to the end or to the begin."""
    small = [t // 2 for t in totals]
    large = [t - t // 2 for t in totals]
    return (*small, *large) if more_at_end else (*large, *small)


def spatial_rank(node: OnnxNode, table: dict[int, str]) -> int:
    """The number of spatial dimensions of the data. Raises ImportModelError for one that *table* does not serve."""
    rank = node.rank(node[0]) - 2
    if rank not in table:
        raise node.error(f"the data must have {' or '.join(str(r + 2) for r in table)} dimensions, got {rank + 2}")
    return rank


def with_kernel_shape(node: OnnxNode, weight: RelayExpr) -> tuple[RelayExpr, tuple[Dim, ...]]:
    """*weight* and its window: of what only the run knows, the attribute ``kernel_shape`` where it is given.

    Raises ImportModelError where the attribute says something else than the weight.
    """
    own = node.shape(weight)[2:]
    stated = tuple(node.attrs.ints("kernel_shape", [])) or own
    if len(stated) != len(own) or any(a != b for a, b in zip(stated, own, strict=True) if isinstance(b, int)):
        raise node.error(f"kernel_shape is {list(stated)}, but the weight has {list(own)}")
    return (weight if stated == own else relay.match_shape(weight, [*node.shape(weight)[:2], *stated])), stated


def with_bias(node: OnnxNode, result: RelayExpr) -> RelayExpr:
    """*result* plus the bias of each channel (input 2), where there is one."""
    bias = node.optional(2)
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def convolution(node: OnnxNode, data: RelayExpr, weight: RelayExpr) -> RelayExpr:
    """The convolution of *data* (of the shape of input 0) and *weight* by the attributes of *node*, without a bias."""
    rank = spatial_rank(node, CONV)
    weight, kernel = with_kernel_shape(node, weight)
    if are_numbers(kernel):
        window = read_window(node, kernel)
        data = in_place(node, data, window)
    else:
        window = free_window(node, rank)
        if auto_pad(node) in SAME:
            from byoc.relay.frontend.onnx.run_time.windows import padded_to_strides, strided_axes

            data = padded_to_strides(node, data, strided_axes(weight, window.strides, window.dilations), 0)
    result: RelayExpr = getattr(relay.nn, CONV[rank])(
        data,
        weight,
        strides=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=node.attrs.int("group", 1),
        channels=_number(node.shape(weight)[0]),
        kernel_size=kernel if are_numbers(kernel) else None,
    )
    return result


def _number(size: Dim) -> int | None:
    return size if isinstance(size, int) else None


def channels_first(node: OnnxNode, convert: Converter, innermost: bool) -> RelayExpr:
    """What *convert* makes of *node*, whose data (input 0) and result have channels innermost where so said."""
    data, rank = node[0], node.rank(node[0])
    if innermost:
        data = relay.transpose(data, axes=[0, rank - 1, *range(1, rank - 1)])
    made = convert(node.over([data, *node.inputs[1:]]))
    assert made is not None
    result = made if isinstance(made, RelayExpr) else made[0]
    return relay.transpose(result, axes=[0, *range(2, rank), 1]) if innermost else result


@converter("Conv")
def _conv(node: OnnxNode) -> RelayExpr:
    return with_bias(node, convolution(node, node[0], node[1]))


@converter("ConvTranspose")
def _conv_transpose(node: OnnxNode) -> RelayExpr:
    rank = spatial_rank(node, CONV_TRANSPOSE)
    weight, kernel = with_kernel_shape(node, node[1])
    window, output_padding, cut = _transposed_window(node, kernel)
    group, per_group = node.attrs.int("group", 1), node.shape(weight)[1]
    result = getattr(relay.nn, CONV_TRANSPOSE[rank])(
        node[0],
        weight,
        strides=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=group,
        channels=per_group * group if isinstance(per_group, int) else None,
        kernel_size=kernel if are_numbers(kernel) else None,
        output_padding=output_padding,
    )
    return with_bias(node, result if cut is None else cut(result))


def _transposed_window(
    node: OnnxNode, kernel: tuple[Dim, ...]
) -> tuple[SlidingWindow, tuple[int, ...], Callable[[RelayExpr], RelayExpr] | None]:
    """The window and the output padding; ``output_shape`` or ``auto_pad`` decide the padding where they are given.

    Where these depend on sizes that only the run knows there is neither, and the result is to be cut.
    """
    count = len(kernel)
    plain = stated_window(node, [k if isinstance(k, int) else 1 for k in kernel])
    extra, mode = per_axis(node, "output_padding", count, 0), auto_pad(node)
    wanted = node.attrs.ints("output_shape", [])[-count:]
    if not wanted and mode not in SAME:
        return plain, extra, None
    sizes, strides = node.shape(node[0])[2:], plain.strides
    if not are_numbers(kernel) or (wanted and not are_numbers(sizes)):
        from byoc.relay.frontend.onnx.run_time.windows import cut_to

        grow = zip(sizes, strides, strict=True)
        to: list[Dim] = [*wanted] or [times(size, stride) for size, stride in grow]
        none = SlidingWindow(plain.kernel, strides, plain.dilations, (0,) * (2 * count))
        return none, (0,) * count, lambda full: cut_to(node, full, to, strides, extra)
    if wanted and are_numbers(sizes):
        grown = [(size - 1) * stride - to for size, stride, to in zip(sizes, strides, wanted, strict=True)]
    else:  # to size * stride, whatever the size
        grown = [-stride for stride in strides]
    totals = [g + more + extent for g, more, extent in zip(grown, extra, plain.extents, strict=True)]
    pads = split_padding([max(t, 0) for t in totals], mode == SAME[0])
    padding = tuple(more + max(-t, 0) for more, t in zip(extra, totals, strict=True))
    return replace(plain, pads=pads), padding, None
