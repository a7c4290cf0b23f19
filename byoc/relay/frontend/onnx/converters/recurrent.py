"""Recurrent layers. Source: ONNX LSTM-1/7/14/22, GRU-1/3/7/14/22, RNN-1/7/14/22.

The inputs of all steps are projected by one matrix product for each direction; ``nn.lstm_sequence`` and its like do
the steps. A layer in reverse is one forward over reversed steps: where rows have lengths, each row by its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.attributes import in_float32
from byoc.relay.frontend.onnx.converters.lengths import lengths_along
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.op.attributes.recurrent import (
    ACTIVATION_PARAMETERS,
    GRUSequenceAttrs,
    LSTMSequenceAttrs,
    RNNSequenceAttrs,
)

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_BY_LOWER = {name.lower(): name for name in ACTIVATION_PARAMETERS}


class _Settings(TypedDict):
    """The attributes that every kind of layer has."""

    activations: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float
    masked: bool


@dataclass(frozen=True)
class _Activations:
    """The activations of one direction, with the numbers that each takes."""

    names: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: its number, whether it runs in reverse, and its activations."""

    index: int
    reverse: bool
    activations: _Activations


def _part_of(value: RelayExpr, direction: _Direction) -> RelayExpr:
    """*value* for one direction, without the axis of directions."""
    return relay.take(value, constant(direction.index, "int32"), axis=0, mode="clip")


class _Layer:
    """A node's inputs in the layout with the steps first, and its attributes."""

    def __init__(self, node: OnnxNode, defaults: Sequence[str], gates: int):
        self.node, self.gates = node, gates
        self.batch_first = node.attrs.flag("layout")
        self.data = relay.transpose(node[0], [1, 0, 2]) if self.batch_first else node[0]
        self.hidden = node.static_dims_of(node[2], (2,), "the hidden size")[0]
        self.lengths = None if node.optional(4) is None else lengths_along(node, 4, self.data, 0)
        self._check_sizes()
        self.clip = node.attrs.float("clip", 0.0)
        name = node.attrs.string("direction", "forward")
        if name not in DIRECTIONS:
            raise node.error(f"direction is one of {', '.join(DIRECTIONS)}, got {name!r}")
        for weights in (node[1], node[2]):
            if node.shape(weights)[0] != len(DIRECTIONS[name]):
                raise node.error(f"{name} needs weights for {len(DIRECTIONS[name])}, got {node.type_of(weights)}")
        found = _activations(node, defaults, len(DIRECTIONS[name]))
        self.directions = [_Direction(k, r, a) for k, (r, a) in enumerate(zip(DIRECTIONS[name], found, strict=True))]

    def _check_sizes(self) -> None:
        """W and R are of one size, the attribute's where there is one. Raises ImportModelError."""
        node, rows = self.node, self.gates * self.hidden
        stated = node.attrs.int("hidden_size", self.hidden)
        if stated != self.hidden or self.hidden < 1:
            raise node.error(f"hidden_size is {stated}, the weights R are for {self.hidden}: {node.type_of(node[2])}")
        for index, name in ((1, "W"), (2, "R")):
            shape = node.shape(node[index])
            if len(shape) != 3 or (isinstance(shape[1], int) and shape[1] != rows):
                raise node.error(f"{name} must be [directions, {rows}, ...], got {node.type_of(node[index])}")

    def part(self, index: int, direction: _Direction) -> RelayExpr | None:
        """Input *index* for one direction, without the axis of directions, or None where it is left out."""
        value = self.node.optional(index)
        return None if value is None else _part_of(value, direction)

    def bias(self, direction: _Direction) -> tuple[RelayExpr, RelayExpr] | None:
        """What is added to the projections of the inputs and of the state, ``T[G * hidden]`` each, or None."""
        both = self.part(3, direction)
        if both is None:
            return None
        halves = relay.split(both, 2, axis=0)
        return halves[0], halves[1]

    def state(self, index: int, direction: _Direction) -> RelayExpr:
        """A state before the first step, ``T[batch, hidden]``: input *index*, or zeros.

        Zeros too for a row of no step, whose last state that is: ONNX says nothing of it, ONNX Runtime gives 0.
        """
        value = self.node.optional(index)
        if value is None:
            return self.zero_state()
        axis = 1 if self.batch_first else 0
        state = relay.take(value, constant(direction.index, "int32"), axis=axis, mode="clip")
        if self.lengths is None:
            return state
        known = self.node.value(4)
        if known is not None and known.min(initial=1) > 0:
            return state
        runs = relay.expand_dims(relay.greater(self.lengths, relay.zeros_like(self.lengths)), axis=1)
        return relay.where(runs, state, constant(np.zeros((), self.node.dtype(value))))

    def zero_state(self) -> RelayExpr:
        """Zeros ``T[batch, hidden]``, as many rows as the inputs have."""
        batch = self.node.shape(self.data)[1]
        if isinstance(batch, int):
            return constant(np.zeros((batch, self.hidden), self.node.dtype(self.data)))
        row = relay.take(self.data, constant(0, "int32"), axis=0, mode="clip")
        column = relay.strided_slice(row, [0], [1], axes=[1])
        return relay.zeros_like(relay.repeat(column, self.hidden, axis=1))

    def ordered(self, value: RelayExpr, direction: _Direction) -> RelayExpr:
        """*value*, with the steps first, in the order in which *direction* runs through it; the same turns it back."""
        if not direction.reverse:
            return value
        if self.lengths is None:
            return relay.reverse(value, axis=0)
        return relay.reverse_sequence(value, self.lengths, seq_axis=0, batch_axis=1)

    def projected(self, direction: _Direction, bias: RelayExpr | None) -> RelayExpr:
        """``T[steps, batch, G * hidden]``: the inputs of all steps times W, and *bias*."""
        weight = _part_of(self.node[1], direction)
        result = relay.nn.dense(self.ordered(self.data, direction), weight, self.gates * self.hidden)
        return result if bias is None else relay.add(result, bias)

    def recurrence(self, direction: _Direction) -> RelayExpr:
        """``T[hidden, G * hidden]``: R with the gates innermost, so that a step reads it row by row."""
        return relay.transpose(_part_of(self.node[2], direction), [1, 0])

    def settings(self, direction: _Direction) -> _Settings:
        """The attributes that every kind of layer has."""
        a = direction.activations
        return {
            "activations": a.names,
            "alphas": a.alphas,
            "betas": a.betas,
            "clip": self.clip,
            "masked": self.lengths is not None,
        }

    def outputs(self, run: Callable[[_Direction], Sequence[RelayExpr]]) -> list[RelayExpr]:
        """Y and the last states, each with its axis of directions, in the layout of the node."""
        found = [run(direction) for direction in self.directions]
        steps = [self.ordered(f[0], d) for f, d in zip(found, self.directions, strict=True)]
        whole = relay.stack(steps, axis=1)
        states = [relay.stack(s, axis=1 if self.batch_first else 0) for s in zip(*(f[1:] for f in found), strict=True)]
        return [relay.transpose(whole, [2, 0, 1, 3]) if self.batch_first else whole, *states]


def _activations(node: OnnxNode, defaults: Sequence[str], directions: int) -> list[_Activations]:
    """The activations of each direction. Raises ImportModelError for an unknown one or a wrong number of them."""
    given = node.attrs.strings("activations", list(defaults) * directions)
    if len(given) != len(defaults) * directions:
        raise node.error(f"{len(defaults) * directions} activations are needed, got {', '.join(given)}")
    unknown = [name for name in given if name.lower() not in _BY_LOWER]
    if unknown:
        raise node.error(f"activation {unknown[0]!r} is unknown; there are {', '.join(ACTIVATION_PARAMETERS)}")
    names = [_BY_LOWER[name.lower()] for name in given]
    numbers = [
        _parameters(names, k, node.attrs.floats(attribute, []))
        for k, attribute in enumerate(("activation_alpha", "activation_beta"))
    ]
    count = len(defaults)
    parts = [slice(d * count, (d + 1) * count) for d in range(directions)]
    return [_Activations(tuple(names[p]), tuple(numbers[0][p]), tuple(numbers[1][p])) for p in parts]


def _parameters(names: Sequence[str], which: int, given: Sequence[float]) -> list[float]:
    """For each activation its alpha or beta: the next of *given* where it takes one, then its default."""
    left = list(given)
    result = []
    for name in names:
        default = ACTIVATION_PARAMETERS[name][which]
        result.append(0.0 if default is None else float(left.pop(0)) if left else in_float32(default))
    return result


def _joined(bias: tuple[RelayExpr, RelayExpr] | None) -> RelayExpr | None:
    return None if bias is None else relay.add(*bias)


def _given(*values: RelayExpr | None) -> list[RelayExpr]:
    return [value for value in values if value is not None]


@converter("LSTM")
def _lstm(node: OnnxNode) -> list[RelayExpr]:
    return lstm(node)


def lstm(node: OnnxNode, bytes_of_hidden: bool = False) -> list[RelayExpr]:
    """The outputs of an LSTM; with *bytes_of_hidden* its steps read the hidden state as 8 bits hold it."""
    layer = _Layer(node, ("Sigmoid", "Tanh", "Tanh"), 4)

    def run(direction: _Direction) -> list[RelayExpr]:
        peepholes = layer.part(7, direction)
        attrs = LSTMSequenceAttrs(
            **layer.settings(direction),
            peepholes=peepholes is not None,
            input_forget=node.attrs.flag("input_forget"),
            bytes_of_hidden=bytes_of_hidden,
        )
        inputs = _given(
            layer.projected(direction, _joined(layer.bias(direction))),
            layer.recurrence(direction),
            layer.state(5, direction),
            layer.state(6, direction),
            peepholes,
            layer.lengths,
        )
        return list(relay.nn.lstm_sequence(inputs, attrs))

    return layer.outputs(run)


@converter("GRU")
def _gru(node: OnnxNode) -> list[RelayExpr]:
    layer = _Layer(node, ("Sigmoid", "Tanh"), 3)
    linear = node.attrs.flag("linear_before_reset")

    def run(direction: _Direction) -> list[RelayExpr]:
        outer, inner = _gru_biases(layer, direction, linear)
        attrs = GRUSequenceAttrs(**layer.settings(direction), linear_before_reset=linear)
        inputs = _given(
            layer.projected(direction, outer),
            layer.recurrence(direction),
            layer.state(5, direction),
            inner,
            layer.lengths,
        )
        return list(relay.nn.gru_sequence(inputs, attrs))

    return layer.outputs(run)


def _gru_biases(layer: _Layer, direction: _Direction, linear: bool) -> tuple[RelayExpr | None, RelayExpr | None]:
    """What is added to the gates before the steps, and what stays inside of the reset gate's product."""
    bias = layer.bias(direction)
    if not linear:
        return _joined(bias), None
    if bias is None:
        return None, constant(np.zeros(layer.hidden, layer.node.dtype(layer.data)))
    gates, last = relay.split(bias[1], [2 * layer.hidden], axis=0)
    outside = relay.concatenate([gates, relay.zeros_like(last)], axis=0)
    return relay.add(bias[0], outside), last


@converter("RNN")
def _rnn(node: OnnxNode) -> list[RelayExpr]:
    layer = _Layer(node, ("Tanh",), 1)

    def run(direction: _Direction) -> list[RelayExpr]:
        attrs = RNNSequenceAttrs(**layer.settings(direction))
        inputs = _given(
            layer.projected(direction, _joined(layer.bias(direction))),
            layer.recurrence(direction),
            layer.state(5, direction),
            layer.lengths,
        )
        return list(relay.nn.rnn_sequence(inputs, attrs))

    return layer.outputs(run)
