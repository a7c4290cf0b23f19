"""Recurrent layers after the projection of their inputs: ``nn.lstm_sequence``, ``nn.gru_sequence`` and plain ones.

What the inputs give to the gates of all steps is one matrix product, and no part of these: they take ``gates: T[steps,
batch, G * hidden]``, ``recurrence: T[hidden, G * hidden]`` and the states before the first step, ``T[batch, hidden]``.
Named as OpenVINO's sequences; their meaning is that of ONNX LSTM, GRU and RNN in the forward direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import RelationOf, Sample, register_op
from byoc.ir.op_parts import Inputs
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.op.attributes.recurrent import GRUSequenceAttrs, LSTMSequenceAttrs, RNNSequenceAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import is_float, is_integer, same_dtype, tensor_arg, unify_dim
from byoc.relay.op.nn.recurrent_compute import gru_compute, lstm_compute, rnn_compute
from byoc.relay.tuple_wrapper import TupleWrapper


def _relation(gate_count: int, states: Sequence[str]) -> RelationOf[RNNSequenceAttrs]:
    """The relation of a layer of so many gates: outputs of all steps, then each state after the last."""

    def relation(types: Sequence[Type], attrs: RNNSequenceAttrs) -> Type:
        names = ("gates", "recurrence", *states, *attrs.extra)
        if len(types) != len(names):
            raise TypeInferenceError(f"takes {', '.join(names)}, got {len(types)} inputs")
        found = {name: tensor_arg(types, k, name) for k, name in enumerate(names)}
        gates, recurrence = found["gates"], found["recurrence"]
        if gates.ndim != 3 or recurrence.ndim != 2 or not is_float(gates.dtype):
            raise TypeInferenceError(f"takes float gates [steps, batch, {gate_count} * hidden], got {gates}")
        hidden = recurrence.shape[0]
        if isinstance(hidden, Any):
            raise TypeInferenceError("the hidden size must be a number")
        batch = gates.shape[1]
        vector = {"bias": hidden, "peepholes": 3 * hidden, "lengths": batch}
        wanted = {
            "gates": (gates.shape[0], batch, gate_count * hidden),
            "recurrence": (hidden, gate_count * hidden),
            **{name: (batch, hidden) for name in states},
            **{name: (vector[name],) for name in attrs.extra},
        }
        for name, shape in wanted.items():
            _check(name, found[name], shape)
        same_dtype([ty for name, ty in found.items() if name != "lengths"])
        if "lengths" in found and not is_integer(found["lengths"].dtype):
            raise TypeInferenceError(f"lengths must be integers, got {found['lengths'].dtype}")
        state = TensorType((batch, hidden), gates.dtype)
        return TupleType([TensorType((gates.shape[0], batch, hidden), gates.dtype), *(state for _ in states)])

    return relation


def _check(name: str, ty: TensorType, shape: Sequence[int | Any]) -> None:
    fits = ty.ndim == len(shape) and all(unify_dim(a, b) is not None for a, b in zip(ty.shape, shape, strict=True))
    if not fits:
        raise TypeInferenceError(f"{name} must have the shape {list(shape)}, got {ty}")


def _operations(attrs: RNNSequenceAttrs, types: Sequence[Type], out_type: Type) -> int:
    """Those of the recurrent products, a multiply-add as two."""
    sizes = (*tensor_arg(types, 0).shape, tensor_arg(types, 1).shape[0])
    return 2 * math.prod(1 if isinstance(size, Any) else size for size in sizes)


_LENGTHS = np.array([3, 1], "int32")
_OTHERS = {"activations": ("HardSigmoid", "Softsign"), "alphas": (0.2, 0.0), "betas": (0.5, 0.0)}
register_op(
    "nn.lstm_sequence",
    inputs=Inputs(("gates", "recurrence", "hidden", "cell"), variadic=True),
    attrs=LSTMSequenceAttrs,
    rel=_relation(4, ("hidden", "cell")),
    operations=_operations,
    compute=lstm_compute,
    doc="The steps of an LSTM layer after the projection of its inputs.",
    samples=(
        Sample([(3, 2, 20), (5, 20), (2, 5), (2, 5)]),
        Sample([(4, 1, 64), (16, 64), (1, 16), (1, 16)], {"clip": 0.5, "input_forget": True}),
        Sample([(3, 2, 20), (5, 20), (2, 5), (2, 5)], {"bytes_of_hidden": True}),
        Sample(
            [(3, 2, 12), (3, 12), (2, 3), (2, 3), (9,), _LENGTHS],
            {
                "peepholes": True,
                "masked": True,
                "activations": ("Elu", "ScaledTanh", "LeakyRelu"),
                "alphas": (0.5, 1.2, 0.1),
                "betas": (0.0, 0.7, 0.0),
            },
        ),
    ),
)
register_op(
    "nn.gru_sequence",
    inputs=Inputs(("gates", "recurrence", "hidden"), variadic=True),
    attrs=GRUSequenceAttrs,
    rel=_relation(3, ("hidden",)),
    operations=_operations,
    compute=gru_compute,
    doc="The steps of a GRU layer after the projection of its inputs.",
    samples=(
        Sample([(3, 2, 15), (5, 15), (2, 5)]),
        Sample([(4, 1, 48), (16, 48), (1, 16)], {"clip": 0.5}),
        Sample([(3, 2, 9), (3, 9), (2, 3), (3,), _LENGTHS], {"linear_before_reset": True, "masked": True, **_OTHERS}),
    ),
)
register_op(
    "nn.rnn_sequence",
    inputs=Inputs(("gates", "recurrence", "hidden"), variadic=True),
    attrs=RNNSequenceAttrs,
    rel=_relation(1, ("hidden",)),
    operations=_operations,
    compute=rnn_compute,
    doc="The steps of a plain recurrent layer after the projection of its inputs.",
    samples=(
        Sample([(3, 2, 5), (5, 5), (2, 5)]),
        Sample([(2, 2, 5), (5, 5), (2, 5)], {"activations": ("Affine",), "alphas": (0.5,), "betas": (0.1,)}, "float64"),
        Sample([(3, 2, 4), (4, 4), (2, 4), _LENGTHS], {"activations": ("Softplus",), "masked": True}),
        Sample([(2, 1, 4), (4, 4), (1, 4)], {"activations": ("ThresholdedRelu",), "alphas": (0.7,)}),
        Sample([(2, 1, 4), (4, 4), (1, 4)], {"activations": ("Relu",)}),
    ),
)


def lstm_sequence(inputs: Sequence[RelayExpr], attrs: LSTMSequenceAttrs) -> TupleWrapper:
    """Hidden states of all steps, the last one, and the last cell state; *inputs* are ``gates``, ``recurrence``,
    ``hidden``, ``cell`` and those of ``attrs.extra``. Gates stand in the order input, output, forget, cell.
    """
    return TupleWrapper(make_call("nn.lstm_sequence", inputs, attrs), 3)


def gru_sequence(inputs: Sequence[RelayExpr], attrs: GRUSequenceAttrs) -> TupleWrapper:
    """Hidden states of all steps, and the last; *inputs* are ``gates``, ``recurrence``, ``hidden`` and those of
    ``attrs.extra``. Gates stand in the order update, reset, hidden.
    """
    return TupleWrapper(make_call("nn.gru_sequence", inputs, attrs), 2)


def rnn_sequence(inputs: Sequence[RelayExpr], attrs: RNNSequenceAttrs) -> TupleWrapper:
    """Hidden states of all steps, and the last; *inputs*: ``gates``, ``recurrence``, ``hidden``, ``attrs.extra``."""
    return TupleWrapper(make_call("nn.rnn_sequence", inputs, attrs), 2)
