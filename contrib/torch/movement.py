"""Operators that move elements, by PyTorch."""

from __future__ import annotations

from byoc.contrib.torch.kernels import Tensor, TorchStep, kernel, torch
from byoc.runtime.kernels.movement.transform import VIEWS


@kernel(*VIEWS)
def _reshape(step: TorchStep, data: Tensor, *sizes: Tensor) -> Tensor:
    return data.reshape(step.shape)


@kernel("broadcast_to")
def _broadcast_to(step: TorchStep, data: Tensor) -> Tensor:
    return data.broadcast_to(step.shape)


@kernel("transpose")
def _transpose(step: TorchStep, data: Tensor) -> Tensor:
    axes = step.get("axes", range(data.ndim - 1, -1, -1))
    return data.permute([int(a) % data.ndim for a in axes])


@kernel("layout_transform")
def _layout_transform(step: TorchStep, data: Tensor) -> Tensor:
    source = step["src_layout"]
    return data.permute([source.index(letter) for letter in step["dst_layout"]])


@kernel("concatenate")
def _concatenate(step: TorchStep, *parts: Tensor) -> Tensor:
    return torch.cat(parts, step.axis(parts[0].ndim, 0))


@kernel("stack")
def _stack(step: TorchStep, *parts: Tensor) -> Tensor:
    return torch.stack(parts, int(step["axis"]) % (parts[0].ndim + 1))


@kernel("split")
def _split(step: TorchStep, data: Tensor) -> list[Tensor]:
    axis = step.axis(data.ndim, 0)
    return list(torch.split(data, [shape[axis] for shape in step.shapes], axis))


@kernel("strided_slice")
def _strided_slice(step: TorchStep, data: Tensor) -> Tensor:
    begins, steps = step.slice_begins(data.shape), step.slice_steps(data.shape)
    cuts = zip(begins, step.shape, steps, strict=True)
    return data[tuple(slice(begin, begin + count * by, by) for begin, count, by in cuts)]


@kernel("take")
def _take(step: TorchStep, data: Tensor, indices: Tensor) -> Tensor:
    axis = step.attributes.get("axis")
    source = data.reshape(-1) if axis is None else data
    place = step.axis(source.ndim, 0)
    size = source.shape[place]
    at = indices.long()
    at = at.remainder(size) if step["mode"] == "wrap" else at.clamp(0, size - 1)
    found = source.index_select(place, at.reshape(-1))
    return found.reshape(step.shape)


@kernel("reverse")
def _reverse(step: TorchStep, data: Tensor) -> Tensor:
    return data.flip(step.axis(data.ndim, 0))


@kernel("tile")
def _tile(step: TorchStep, data: Tensor) -> Tensor:
    return data.tile([int(n) for n in step["reps"]])


@kernel("repeat")
def _repeat(step: TorchStep, data: Tensor) -> Tensor:
    return data.repeat_interleave(int(step["repeats"]), step.axis(data.ndim, 0))


@kernel("nn.depth_to_space")
def _depth_to_space(step: TorchStep, data: Tensor) -> Tensor:
    """``data: [N, C, H, W]``, blocks of channels to rows and columns; in the mode CRD channels are outermost."""
    batch, channels, rows, columns = data.shape
    size = int(step["block_size"])
    deep = channels // (size * size)
    if step["mode"] == "DCR":
        moved = data.reshape(batch, size, size, deep, rows, columns).permute(0, 3, 4, 1, 5, 2)
    else:
        moved = data.reshape(batch, deep, size, size, rows, columns).permute(0, 1, 4, 2, 5, 3)
    return moved.reshape(step.shape)
