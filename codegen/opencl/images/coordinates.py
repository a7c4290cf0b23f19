"""Where an element of a tensor lies in its image (``byoc.runtime.opencl.images`` has the layout)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byoc.codegen.kernel.simplify import Simplifier
from byoc.errors import InternalError
from byoc.runtime.opencl.images import CHANNELS, ImageSize, as_four
from byoc.te import PrimExpr, Tensor, binary, const
from byoc.te.expr import INDEX, Const

ImageTensors = Mapping[Tensor, ImageSize]


@dataclass(frozen=True)
class TexelPlace:
    """The texel at column *x* of row *y*, and the *component* of an element in it."""

    x: PrimExpr
    y: PrimExpr
    component: PrimExpr

    @property
    def known(self) -> int | None:
        """The component, where it is a number."""
        return int(self.component.value) if isinstance(self.component, Const) else None


def static_four(tensor: Tensor) -> tuple[int, int, int, int]:
    """The shape of a tensor that has an image as (n, c, h, w)."""
    four = as_four([int(d) for d in tensor.shape if isinstance(d, int)])
    if four is None or not all(isinstance(d, int) for d in tensor.shape):
        raise InternalError(f"{tensor!r} has no image")
    return four


def texel_place(tensor: Tensor, indices: tuple[PrimExpr, ...], simplify: Simplifier) -> TexelPlace:
    """Where ``tensor[indices]`` lies. Indices are those of the dimensions, or zeros and a row-major position."""
    n, c, h, w = _four_indices(tensor, indices, simplify)
    height, width = static_four(tensor)[2:]
    block = binary("div", c, CHANNELS)
    return TexelPlace(
        simplify(binary("add", binary("mul", block, width), w)),
        simplify(binary("add", binary("mul", n, height), h)),
        simplify(binary("mod", c, CHANNELS)),
    )


def _four_indices(tensor: Tensor, indices: tuple[PrimExpr, ...], simplify: Simplifier) -> tuple[PrimExpr, ...]:
    zero = const(0, INDEX)
    found = [simplify(i) for i in indices]
    if _is_position(tensor, found, simplify):
        _, c, h, w = static_four(tensor)
        flat = simplify.rebuild(simplify.flat_index(tensor, indices))
        image, plane = binary("div", flat, c * h * w), binary("div", flat, h * w)
        return image, binary("mod", plane, c), binary("mod", binary("div", flat, w), h), binary("mod", flat, w)
    if len(found) == 4:
        return tuple(found)
    if len(found) == 3:
        return found[0], found[1], zero, found[2]
    return (found[0], found[1], zero, zero) if len(found) == 2 else (zero, found[0], zero, zero)


def _is_position(tensor: Tensor, indices: list[PrimExpr], simplify: Simplifier) -> bool:
    """Whether the last of *indices* is a position among all elements: it passes its dimension, and the rest are 0."""
    if len(indices) < 2 or not all(isinstance(i, Const) and i.value == 0 for i in indices[:-1]):
        return False
    extent = tensor.shape[-1]
    return not isinstance(extent, int) or simplify.bounds(indices[-1])[1] >= extent
