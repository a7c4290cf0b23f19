"""``dyn.frames``: windows that slide over a signal, whose length and step inputs hold. Source: ONNX STFT-17."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, tensor_arg
from byoc.relay.op.core.window import differ


@dataclass(frozen=True)
class FramesAttrs(Attrs):
    """Attributes of ``dyn.frames``: what an error begins with."""

    check: str = ""


def _rel(types: Sequence[Type], attrs: FramesAttrs) -> Type:
    data, window = tensor_arg(types, 0), tensor_arg(types, 1, "window")
    if data.ndim != 2 or not is_float(data.dtype) or window.ndim != 1:
        raise TypeInferenceError(f"takes floats [batch, samples] and a window, got {data} and {window}")
    for k, name in ((2, "length"), (3, "step")):
        if any(differ(d, 1) for d in tensor_arg(types, k, name).shape):
            raise TypeInferenceError(f"{name} must be one number, got {types[k]}")
    return TensorType([data.shape[0], Any(), Any()], data.dtype)


register_op(
    "dyn.frames",
    inputs=("data", "window", "length", "step"),
    attrs=FramesAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="Parts of a signal that begin a step from each other, weighted by a window where there is one.",
    samples=(
        Sample([(2, 20), np.hanning(8).astype("float32"), np.array(8, "int64"), np.array(3, "int64")]),
        Sample([(1, 9), np.zeros(0, "float32"), np.array(4, "int64"), np.array(4, "int64")]),
    ),
)


def frames(data: Operand, window: Operand, length: Operand, step: Operand, check: str = "") -> Call:
    """``T[batch, samples] -> T[batch, frames, length]``, each frame times *window*, which is empty for none.

    Args:
        data: the signals.
        window: *length* weights, or none.
        length: of a frame, one number.
        step: from the begin of a frame to that of the next.
        check: what an error begins with: the node of the model.
    """
    return make_call("dyn.frames", [as_expr(v) for v in (data, window, length, step)], FramesAttrs(check))
