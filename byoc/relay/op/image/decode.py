"""``image.decode``: an image out of the bytes of a file. Source: ONNX ImageDecoder-20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.runtime.kernels.images.decoder import FORMATS


@dataclass(frozen=True)
class DecodeAttrs(Attrs):
    """Attributes of ``image.decode``: the order of channels, ``RGB`` or ``BGR``, or ``Grayscale``."""

    pixel_format: str = "RGB"


def _rel(types: Sequence[Type], attrs: DecodeAttrs) -> Type:
    data = tensor_arg(types, 0)
    if data.dtype != "uint8" or data.ndim != 1 or attrs.pixel_format not in FORMATS:
        raise TypeInferenceError(
            f"takes a vector of uint8 and a format of {', '.join(FORMATS)}, got {data} and {attrs.pixel_format!r}"
        )
    return TensorType((Any(), Any(), 1 if attrs.pixel_format == "Grayscale" else 3), "uint8")


_IMAGE = np.frombuffer(b"P6 2 1 255\n" + bytes([9, 99, 199, 0, 128, 255]), np.uint8)  # two pixels
register_op(
    "image.decode",
    inputs=("data",),
    attrs=DecodeAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.NEVER),
    doc="The image in the bytes of a file, decoded by Pillow.",
    samples=tuple(Sample([_IMAGE], {"pixel_format": name}) for name in FORMATS) if find_spec("PIL") else (),
)


def decode(data: Operand, pixel_format: str = "RGB") -> Call:
    """``uint8[bytes] -> uint8[H, W, C]``, the first image of several. Source: ImageDecoder-20."""
    return make_call("image.decode", [as_expr(data)], DecodeAttrs(pixel_format))
