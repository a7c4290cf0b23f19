"""Recurrent layers, and sequences in reverse order, as whole models have them.

Relay's layers take what the inputs give to the gates of all steps, which a product makes before. Where it is one with a
constant weight, the written layer has that weight and takes the inputs, as it came in; else its weight is an identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant
from byoc.relay.onnx_writer.graph import BEYOND, element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs
from byoc.relay.op.attributes.recurrent import ACTIVATION_PARAMETERS
from byoc.runtime.core.ndarray import numpy_dtype

_WITH_ALPHA, _WITH_BETA = (
    frozenset(n for n, taken in ACTIVATION_PARAMETERS.items() if taken[k] is not None) for k in (0, 1)
)


def lstm(at: Written) -> list[str]:
    """Gates in the order input, output, forget, cell, as ONNX has them."""
    needs(not at.attrs.bytes_of_hidden, "an LSTM that reads its state as 8 bits")
    peepholes = at.value("Unsqueeze", at.names[4], _axis(at, 0)) if at.attrs.peepholes else ""
    return _layer(at, "LSTM", 2, (), [peepholes], input_forget=int(bool(at.attrs.input_forget)) or None)


def gru(at: Written) -> list[str]:
    """Gates in the order update, reset, hidden, as ONNX has them."""
    before = bool(at.attrs.linear_before_reset)
    return _layer(at, "GRU", 1, at.names[3:4] if before else (), [], linear_before_reset=int(before) or None)


def rnn(at: Written) -> list[str]:
    """One gate."""
    return _layer(at, "RNN", 1, (), [])


def _axis(at: Written, axis: int) -> str:
    return at.graph.constant([axis])


def _layer(
    at: Written, operator: str, states: int, last_bias: Sequence[str], more: Sequence[str], **attributes: int | None
) -> list[str]:
    """One direction; *last_bias* is that of the recurrence for the last gate, *more* stands behind the states."""
    attrs, (hidden, width) = at.attrs, at.type(1).shape
    needs(isinstance(hidden, int) and isinstance(width, int), "a recurrent layer of free size")
    hidden, width = int(str(hidden)), int(str(width))
    data, weight, bias = _projection(at, width)
    recurrent = [_zeros(at, width - hidden), *last_bias] if last_bias else [_zeros(at, width)]
    lengths = at.value("Cast", at.names[-1], to=element_type("int32")) if attrs.masked else ""
    inputs = [
        data,
        at.value("Unsqueeze", weight, _axis(at, 0)),
        at.value("Unsqueeze", at.value("Transpose", at.names[1], perm=[1, 0]), _axis(at, 0)),
        at.value("Unsqueeze", at.value("Concat", bias, *recurrent, axis=0), _axis(at, 0)),
        lengths,
        *(at.value("Unsqueeze", name, _axis(at, 0)) for name in at.names[2 : 2 + states]),
        *more,
    ]
    while not inputs[-1]:
        inputs.pop()
    names = [str(name) for name in attrs.activations]
    alphas = [float(a) for name, a in zip(names, attrs.alphas, strict=True) if name in _WITH_ALPHA]
    betas = [float(b) for name, b in zip(names, attrs.betas, strict=True) if name in _WITH_BETA]
    steps, *last = at.graph.node(
        operator,
        inputs,
        1 + states,
        hidden_size=hidden,
        activations=names,
        activation_alpha=alphas or None,
        activation_beta=betas or None,
        clip=float(attrs.clip) or None,
        **attributes,
    )
    return [at.value("Squeeze", steps, _axis(at, 1)), *(at.value("Squeeze", name, _axis(at, 0)) for name in last)]


def _zeros(at: Written, count: int) -> str:
    return at.graph.constant(np.zeros(count, numpy_dtype(at.result.dtype)))


def _projection(at: Written, width: int) -> tuple[str, str, str]:
    """The input of the layer, its weight and its bias, so that they make the gates, whose name is the first."""
    gates, bias = at.names[0], None
    call, names = at.graph.made.get(gates, (None, ()))
    if call is not None and calls(call, "add") and _is_vector(call.args[1], width):
        bias = names[1]
        call, names = at.graph.made.get(names[0], (None, ()))
    if call is not None and calls(call, "nn.dense") and _is_weight(call, width):
        return names[0], names[1], bias or _zeros(at, width)
    identity = np.identity(width, numpy_dtype(at.result.dtype))
    return gates, at.graph.constant(identity), _zeros(at, width)


def _is_vector(value: object, width: int) -> bool:
    return isinstance(value, Constant) and value.data.shape == (width,)


def _is_weight(call: Call, width: int) -> bool:
    weight, data = call.args[1], call.args[0].checked_type
    if not isinstance(weight, Constant) or not isinstance(data, TensorType):
        return False
    return weight.data.shape[0] == width and len(data.shape) == 3 and data.dtype == weight.data.dtype


def reverse_sequence(at: Written) -> str:
    """Steps along the first axis of two and entries of the batch along the other."""
    time, batch = int(at.attrs.seq_axis), int(at.attrs.batch_axis)
    needs({time, batch} == {0, 1}, f"reverse_sequence along the axes {time} and {batch}")
    lengths = at.value("Cast", at.names[1], to=element_type("int64"))
    return at.value("ReverseSequence", at.names[0], lengths, time_axis=time, batch_axis=batch)


def reverse(at: Written) -> str:
    """All elements along an axis."""
    bounds = ([-1], [-BEYOND], [int(at.attrs.axis)], [-1])
    return at.value("Slice", at.names[0], *map(at.graph.constant, bounds))


def checked_lengths(at: Written) -> str:
    """Lengths that what reads them looks at, as ONNX Runtime's layers do."""
    return at.names[0]


RULES: Mapping[str, Rule] = {
    "reverse": reverse,
    "check_lengths": checked_lengths,
    "nn.lstm_sequence": lstm,
    "nn.gru_sequence": gru,
    "nn.rnn_sequence": rnn,
    "reverse_sequence": reverse_sequence,
}
