"""Products, convolutions, pools and padding, by PyTorch: on a CUDA device cuBLAS and cuDNN.

Images may lie in any order of their axes: PyTorch is given a view with channels before rows, and cuDNN sees by its
strides where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contrib.torch.kernels import CONV_BIAS, DENSE_BIAS, FLOATS, Tensor, TorchStep, kernel, torch
from byoc.contrib.window import CANONICAL, pads_of, per_axis

Pads = list[tuple[int, int]]
TINY = 1e-30  # for windows in which nothing counts, whose sum is 0


def _letters(tensor: Tensor, layout: str, letters: str) -> Tensor:
    """*tensor*, whose axes are named by *layout*, as a view with its axes in the order of *letters*."""
    return tensor if layout == letters else tensor.permute([layout.index(letter) for letter in letters])


def _padded(data: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """*data* with its last axes padded; what is negative is cut off."""
    flat = [width for pair in reversed(pads) for width in pair]
    return torch.nn.functional.pad(data, flat, value=value) if any(flat) else data


# products -------------------------------------------------------------------------------------------------------------


@kernel("nn.dense", DENSE_BIAS, dtypes=FLOATS)
def _dense(step: TorchStep, data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.nn.functional.linear(data, weight, None if bias is None else bias.reshape(-1))


@kernel("nn.matmul", "nn.batch_matmul", dtypes=FLOATS)
def _matmul(step: TorchStep, left: Tensor, right: Tensor) -> Tensor:
    left = left.transpose(-1, -2) if step.get("transpose_a", False) else left
    return torch.matmul(left, right.transpose(-1, -2) if step.get("transpose_b", False) else right)


@kernel("nn.conv1d", "nn.conv2d", "nn.conv3d", CONV_BIAS, dtypes=FLOATS)
def _conv(step: TorchStep, data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    n = data.ndim - 2
    letters, layout, pads = CANONICAL[n], step["data_layout"], pads_of(step["padding"], n)
    source = _letters(data, layout, letters)
    even = all(before == after >= 0 for before, after in pads)
    kernels = _letters(weight, step["kernel_layout"], "OI" + letters[2:])
    if kernels.shape[1] * int(step["groups"]) != source.shape[1]:  # depthwise, as channels and results of each
        kernels = kernels.reshape(-1, 1, *kernels.shape[2:])
    result = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1](
        source if even else _padded(source, pads),
        kernels,
        None if bias is None else bias.reshape(-1),
        per_axis(step["strides"], n),
        [before for before, _ in pads] if even else 0,
        per_axis(step["dilation"], n),
        int(step["groups"]),
    )
    return _letters(result, letters, step.get("out_layout", layout))


@kernel("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", dtypes=FLOATS)
def _conv_transpose(step: TorchStep, data: Tensor, weight: Tensor) -> Tensor:
    n = data.ndim - 2
    letters, layout = CANONICAL[n], step["data_layout"]
    out_layout = step.get("out_layout", layout)
    result = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[n - 1](
        _letters(data, layout, letters),
        _letters(weight, step["kernel_layout"], "IO" + letters[2:]),
        stride=per_axis(step["strides"], n),
        groups=int(step["groups"]),
        dilation=per_axis(step["dilation"], n),
    )
    sizes = [step.shape[out_layout.index(letter)] for letter in letters[2:]]
    before = [first for first, _ in pads_of(step["padding"], n)]
    cut = [(-b, size + b - have) for b, size, have in zip(before, sizes, result.shape[2:], strict=True)]
    return _letters(_padded(result, cut), letters, out_layout)


# pools ----------------------------------------------------------------------------------------------------------------


def _reach(step: TorchStep, source: Tensor, sizes: Sequence[int]) -> tuple[list[int], list[int], list[int], Pads]:
    """Window, strides, dilation, and the padding with which windows of these *sizes* of the result lie inside."""
    n = source.ndim - 2
    window, strides, dilation = (per_axis(step[name], n) for name in ("pool_size", "strides", "dilation"))
    first = [before for before, _ in pads_of(step["padding"], n)]
    span = [(o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(sizes, strides, dilation, window, strict=True)]
    pads = [(b, whole - b - size) for b, whole, size in zip(first, span, source.shape[2:], strict=True)]
    return window, strides, dilation, pads


def _pool_sizes(step: TorchStep, letters: str) -> list[int]:
    layout = step.get("out_layout", step["layout"])
    return [step.shape[layout.index(letter)] for letter in letters[2:]]


@kernel("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", dtypes=FLOATS)
def _max_pool(step: TorchStep, data: Tensor) -> Tensor:
    letters = CANONICAL[data.ndim - 2]
    source = _letters(data, step["layout"], letters)
    window, strides, dilation, pads = _reach(step, source, _pool_sizes(step, letters))
    function = getattr(torch.nn.functional, f"max_pool{len(window)}d")
    result = function(_padded(source, pads, float("-inf")), window, strides, 0, dilation)
    return _letters(result, letters, step.get("out_layout", step["layout"]))


@kernel("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", dtypes=FLOATS)
def _avg_pool(step: TorchStep, data: Tensor) -> Tensor:
    letters = CANONICAL[data.ndim - 2]
    source = _letters(data, step["layout"], letters)
    window, strides, _, pads = _reach(step, source, _pool_sizes(step, letters))
    function = getattr(torch.nn.functional, f"avg_pool{len(window)}d")
    padded = _padded(source, pads)
    if source.dtype == torch.float16 and source.device.type == "cpu":  # for which it has no kernel in three dimensions
        padded = padded.float()
    result = function(padded, window, strides).to(source.dtype)
    share = _counted(step, source, pads)
    if share is not None:
        result = (result / function(share, window, strides).clamp(min=TINY)).to(source.dtype)
    return _letters(result, letters, step.get("out_layout", step["layout"]))


def _counted(step: TorchStep, source: Tensor, pads: Pads) -> Tensor | None:
    """1 where an element of the padded *source* counts for a mean, and 0 elsewhere; None where all of them do."""
    includes = step.get("count_include_pad", False)
    if not any(map(any, pads)) or (includes and not step.get("ceil_mode", False)):
        return None
    wide = torch.promote_types(source.dtype, torch.float32)
    ones = torch.ones((1, 1, *source.shape[2:]), dtype=wide, device=source.device)
    if includes:  # the padding counts, and what lies beyond it does not
        own = pads_of(step["padding"], len(pads))
        ones = _padded(ones, own, 1.0)
        pads = [(0, after - mine) for (_, after), (_, mine) in zip(pads, own, strict=True)]
    return _padded(ones, pads)


@kernel("nn.global_avg_pool2d", "nn.global_max_pool2d", dtypes=FLOATS)
def _global_pool(step: TorchStep, data: Tensor) -> Tensor:
    axes = tuple(step["layout"].index(letter) for letter in "HW")
    return data.mean(axes, keepdim=True) if "avg" in step.operator else data.amax(axes, keepdim=True)


@kernel("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d", dtypes=FLOATS)
def _adaptive_avg_pool(step: TorchStep, data: Tensor) -> Tensor:
    letters = CANONICAL[data.ndim - 2]
    function = getattr(torch.nn.functional, f"adaptive_avg_pool{len(letters) - 2}d")
    result = function(_letters(data, step["layout"], letters), _pool_sizes(step, letters))
    return _letters(result, letters, step.get("out_layout", step["layout"]))


# padding --------------------------------------------------------------------------------------------------------------


@kernel("nn.pad")
def _pad(step: TorchStep, data: Tensor, value: Tensor) -> Tensor:
    widths = [(int(before), int(after)) for before, after in step["pad_width"]]
    if any(width < 0 for pair in widths for width in pair):
        own = [(max(-b, 0), size - max(-a, 0)) for (b, a), size in zip(widths, data.shape, strict=True)]
        data = data[tuple(slice(*ends) for ends in own)]
        widths = [(max(b, 0), max(a, 0)) for b, a in widths]
    result = value.reshape(()).expand(step.shape).clone()  # the value may lie on the device, where nobody looks
    inner = tuple(slice(before, before + size) for (before, _), size in zip(widths, data.shape, strict=True))
    result[inner] = data
    return result


@kernel("nn.lrn", dtypes=FLOATS)
def _lrn(step: TorchStep, data: Tensor) -> Tensor:
    axis, size = step.axis(data.ndim, 1), int(step["size"])
    squares = torch.movedim(data.square(), axis, -1)
    sums = torch.nn.functional.pad(squares, (size // 2, size // 2)).unfold(-1, size, 1)[..., : squares.shape[-1], :]
    total = torch.movedim(sums.sum(-1), -1, axis)
    return data / torch.pow(float(step["bias"]) + float(step["alpha"]) / size * total, float(step["beta"]))
