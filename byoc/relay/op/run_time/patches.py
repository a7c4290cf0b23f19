"""``dyn.col2im_table``: where elements of patches fall in an image whose sizes inputs hold. Source: ONNX Col2Im-18."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, tensor_arg
from byoc.relay.op.core.window import differ
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class Col2ImTableAttrs(Attrs):
    """Attributes of ``dyn.col2im_table``: ONNX's of Col2Im, and what an error begins with."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    check: str = ""


def _rel(types: Sequence[Type], attrs: Col2ImTableAttrs) -> Type:
    count = len(attrs.strides)
    if not count or len(attrs.dilations) != count or len(attrs.pads) != 2 * count:
        raise TypeInferenceError(f"{count} strides need as many dilations and two pads each")
    for k, (name, length) in enumerate((("shape", 3), ("image", count), ("block", count))):
        ty = tensor_arg(types, k, name)
        if ty.ndim != 1 or differ(ty.shape[0], length) or not is_integer(ty.dtype):
            raise TypeInferenceError(f"{name} must be {length} integers, got {ty}")
    vectors = [TensorType([3], "int64"), TensorType([2 + count], "int64")]
    return TupleType([TensorType([Any(), Any()], "int64"), *vectors])


register_op(
    "dyn.col2im_table",
    inputs=("shape", "image", "block"),
    attrs=Col2ImTableAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="For each element of an image the elements of patches that fall on it, and the shapes before and after.",
    samples=(
        Sample(
            [np.array([1, 8, 12], "int64"), np.array([4, 5], "int64"), np.array([2, 2], "int64")],
            {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)},
        ),
    ),
)


def col2im_table(shape: Operand, image: Operand, block: Operand, attrs: Col2ImTableAttrs) -> TupleWrapper:
    """``(int64[area, most], int64[3], int64[2 + count])``: the table, and the shapes of the data and of the images.

    Args:
        shape: of the data, ``[N, C * patch, patches]``.
        image: the sizes of an image.
        block: the sizes of a patch.
        attrs: how patches lie.
    """
    return TupleWrapper(make_call("dyn.col2im_table", [as_expr(v) for v in (shape, image, block)], attrs), 3)
