"""Tensor expressions of recurrent layers: each a recurrence over the steps (``te.recurrence``).

A step is one product of the state before it with all gates' weights, then the gates element by element. The state
before a step is a stage of its own, so that the product reads it as any matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from byoc import te
from byoc.ir.types import Type

if TYPE_CHECKING:
    from byoc.relay.op.attributes.recurrent import GRUSequenceAttrs, LSTMSequenceAttrs, RNNSequenceAttrs

    Layer: TypeAlias = LSTMSequenceAttrs | GRUSequenceAttrs | RNNSequenceAttrs

Expr = te.PrimExpr
Unary = Callable[[Expr], Expr]
ACTIVATIONS: dict[str, Callable[[Expr, float, float], Expr]] = {
    "Relu": lambda x, a, b: te.maximum(x, 0.0),
    "Tanh": lambda x, a, b: te.tanh(x),
    "Sigmoid": lambda x, a, b: te.sigmoid(x),
    "Affine": lambda x, a, b: x * a + b,
    "LeakyRelu": lambda x, a, b: te.if_then_else(x < 0.0, x * a, x),
    "ThresholdedRelu": lambda x, a, b: te.if_then_else(x > a, x, 0.0),
    "ScaledTanh": lambda x, a, b: te.tanh(x * b) * a,
    "HardSigmoid": lambda x, a, b: te.minimum(te.maximum(x * a + b, 0.0), 1.0),
    "Elu": lambda x, a, b: te.if_then_else(x < 0.0, te.expm1(te.minimum(x, 0.0)) * a, x),
    "Softsign": lambda x, a, b: x / (te.abs(x) + 1.0),
    "Softplus": lambda x, a, b: te.maximum(x, 0.0) + te.log1p(te.exp(-te.abs(x))),
}


class _Steps:
    """What the layers share: sizes, the states with what they are before each step, activations, lengths."""

    def __init__(self, attrs: Layer, inputs: Sequence[te.Tensor], states: int):
        self.attrs = attrs
        self.gates, self.recurrence, *rest = inputs
        self.first, self.more = rest[:states], rest[states:]
        self.steps, self.batch, _ = self.gates.shape
        self.size = self.recurrence.shape[0]
        self.shape = (self.steps, self.batch, self.size)
        self.hidden = self.state("hidden")
        self.before = self.stage(lambda t, b, j: self.last(self.hidden, self.first[0], t, b, j), "before")

    def state(self, name: str) -> te.Tensor:
        """A state after each step, to be defined."""
        return te.state(self.shape, self.gates.dtype, name)

    def stage(self, element: Callable[..., Expr], name: str) -> te.Tensor:
        """A value of each step, as large as a state."""
        return te.compute(self.shape, element, name)

    def last(self, state: te.Tensor, first: te.Tensor, t: Expr, b: Expr, j: Expr) -> Expr:
        """*state* before step *t*, which is *first* before the first."""
        return te.if_then_else(t > 0, state[t - 1, b, j], first[b, j])

    def product(
        self, source: te.Tensor, columns: te.Dimension, start: te.Dimension = 0, name: str = "sums"
    ) -> te.Tensor:
        """*columns* columns of the recurrent product with *source*, from column *start* on, for each step."""
        k = te.reduce_axis(self.size, "k")
        return te.compute(
            (self.steps, self.batch, columns),
            lambda t, b, n: te.sum(source[t, b, k] * self.recurrence[k, n + start], k),
            name,
        )

    def in_bytes(self, source: te.Tensor) -> te.Tensor:
        """*source* as uint8 holds it at each step, by a scale and a zero point of its range, which holds 0."""

        def bound(reduce: Callable[..., Expr], beside_zero: Callable[..., Expr], name: str) -> te.Tensor:
            b, j = te.reduce_axis(self.batch, "b"), te.reduce_axis(self.size, "j")
            found = te.compute((self.steps, 1, 1), lambda t, x, y: reduce(source[t, b, j], (b, j)), f"{name}_hidden")
            return te.compute(found.shape, lambda t, x, y: beside_zero(found[t, x, y], 0.0), name)

        low, high = bound(te.min, te.minimum, "low"), bound(te.max, te.maximum, "high")

        def scale(t: Expr) -> Expr:
            span = high[t, 0, 0] - low[t, 0, 0]
            return te.if_then_else(span > 0.0, span / 255.0, te.const(1.0, source.dtype))

        def held(t: Expr, b: Expr, j: Expr) -> Expr:
            zero = te.round(te.minimum(te.maximum(-low[t, 0, 0] / scale(t), 0.0), 255.0))
            code = te.minimum(te.maximum(te.round(source[t, b, j] / scale(t)) + zero, 0.0), 255.0)
            return (code - zero) * scale(t)

        return self.stage(held, "held")

    def function(self, index: int, clipped: bool = True) -> Unary:
        """Activation *index* of the layer, over what it is given within the bound."""
        attrs, bound = self.attrs, self.attrs.clip
        apply = ACTIVATIONS[attrs.activations[index]]
        alpha, beta = attrs.alphas[index], attrs.betas[index]
        if not clipped or bound <= 0:
            return lambda x: apply(x, alpha, beta)
        return lambda x: apply(te.minimum(te.maximum(x, -bound), bound), alpha, beta)

    def running(self, t: Expr, b: Expr) -> Expr:
        """Whether row *b* has step *t*."""
        return t < te.cast("int64", self.more[-1][b])

    def kept(self, new: Expr, old: Expr, t: Expr, b: Expr) -> Expr:
        """*new* where the row has the step, else *old*."""
        return te.if_then_else(self.running(t, b), new, old) if self.attrs.masked else new

    def outputs(self, cell: te.Tensor | None = None) -> list[te.Tensor]:
        """The hidden states of all steps, zero where a row has none, and the states after the last."""
        whole = self.hidden
        if self.attrs.masked:
            hidden = self.hidden
            whole = self.stage(lambda t, b, j: self.kept(hidden[t, b, j], te.const(0.0, hidden.dtype), t, b), "shown")
        states = [self.hidden, *([] if cell is None else [cell])]
        return [whole, *(self._after(s, f) for s, f in zip(states, self.first, strict=True))]

    def _after(self, state: te.Tensor, first: te.Tensor) -> te.Tensor:
        some = te.as_expr(self.steps, "int64") > 0

        def element(b: Expr, j: Expr) -> Expr:
            return te.if_then_else(some, state[self.steps - 1, b, j], first[b, j])

        return te.compute(self.shape[1:], element, f"last_{state.name}")


def lstm_compute(attrs: LSTMSequenceAttrs, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
    """``nn.lstm_sequence``."""
    s = _Steps(attrs, inputs, 2)
    multiplied = s.in_bytes(s.before) if attrs.bytes_of_hidden else s.before
    sums, size, cell = s.product(multiplied, s.size * 4), s.size, s.state("cell")
    gate, squash, shown = s.function(0), s.function(1), s.function(2, clipped=False)

    def given(g: int, t: Expr, b: Expr, j: Expr) -> Expr:
        return s.gates[t, b, j + g * size] + sums[t, b, j + g * size]

    def through(x: Expr, part: int, state: Expr, j: Expr) -> Expr:
        return x + s.more[0][j + part * size] * state if attrs.peepholes else x

    def next_cell(t: Expr, b: Expr, j: Expr) -> Expr:
        old = s.last(cell, s.first[1], t, b, j)
        enter = gate(through(given(0, t, b, j), 0, old, j))
        forget = gate(through(given(2, t, b, j), 2, old, j))
        keep = te.const(1.0, old.dtype) - enter if attrs.input_forget else forget
        return s.kept(keep * old + enter * squash(given(3, t, b, j)), old, t, b)

    def next_hidden(t: Expr, b: Expr, j: Expr) -> Expr:
        new = cell[t, b, j]
        return s.kept(gate(through(given(1, t, b, j), 1, new, j)) * shown(new), s.before[t, b, j], t, b)

    te.update(cell, next_cell)
    te.update(s.hidden, next_hidden)
    return s.outputs(cell)


def gru_compute(attrs: GRUSequenceAttrs, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
    """``nn.gru_sequence``."""
    s = _Steps(attrs, inputs, 1)
    size, gate, squash = s.size, s.function(0), s.function(1)
    linear = attrs.linear_before_reset
    sums = s.product(s.before, size * (3 if linear else 2))

    def gated(g: int, t: Expr, b: Expr, j: Expr) -> Expr:
        return gate(s.gates[t, b, j + g * size] + sums[t, b, j + g * size])

    if linear:

        def product(t: Expr, b: Expr, j: Expr) -> Expr:
            return gated(1, t, b, j) * (sums[t, b, j + 2 * size] + s.more[0][j])
    else:
        reset = s.stage(lambda t, b, j: gated(1, t, b, j) * s.before[t, b, j], "reset")
        inner = s.product(reset, size, 2 * size, "inner")

        def product(t: Expr, b: Expr, j: Expr) -> Expr:
            return inner[t, b, j]

    def next_hidden(t: Expr, b: Expr, j: Expr) -> Expr:
        keep, old = gated(0, t, b, j), s.before[t, b, j]
        new = squash(s.gates[t, b, j + 2 * size] + product(t, b, j))
        return s.kept((te.const(1.0, old.dtype) - keep) * new + keep * old, old, t, b)

    te.update(s.hidden, next_hidden)
    return s.outputs()


def rnn_compute(attrs: RNNSequenceAttrs, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
    """``nn.rnn_sequence``."""
    s = _Steps(attrs, inputs, 1)
    squash, sums = s.function(0), s.product(s.before, s.size)
    te.update(
        s.hidden,
        lambda t, b, j: s.kept(squash(s.gates[t, b, j] + sums[t, b, j]), s.before[t, b, j], t, b),
    )
    return s.outputs()
