"""Numpy kernels of recurrent layers: the part that follows the projection of the inputs, a step at a time.

``gates``: T[steps, batch, G * hidden], what the inputs and biases give to each gate; ``recurrence``: T[hidden,
G * hidden]; states: T[batch, hidden]. With *masked* the last input says how many steps each row has: after them its
state stays and its output is zero. Source: ONNX LSTM, GRU and RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel


@dataclass(frozen=True, kw_only=True)
class RecurrentAttributes(KernelAttributes):
    """Activations with an alpha and a beta each, a bound on what they are given, and whether rows have lengths."""

    activations: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float = 0.0
    masked: bool = False


Activation = Callable[[np.ndarray, float, float], np.ndarray]
ACTIVATIONS: dict[str, Activation] = {
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
}


def _functions(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clip: float, dtype: np.dtype
) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The activations, in the element type of the data; *clip* bounds what they are given."""

    def made(name: str, alpha: float, beta: float) -> Callable[[np.ndarray], np.ndarray]:
        def apply(x: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore"):
                return ACTIVATIONS[name](_clipped(x, clip), alpha, beta).astype(dtype)

        return apply

    return [made(*row) for row in zip(names, alphas, betas, strict=True)]


def _clipped(x: np.ndarray, clip: float) -> np.ndarray:
    return np.clip(x, -clip, clip) if clip > 0 else x


def _running(steps: int, batch: int, more: Sequence[np.ndarray], masked: bool) -> np.ndarray:
    """bool[steps, batch, 1]: where a row has a step."""
    if not masked:
        return np.ones((steps, batch, 1), bool)
    return np.arange(steps)[:, None, None] < np.asarray(more[-1])[None, :, None]


@dataclass(frozen=True, kw_only=True)
class LSTMAttributes(RecurrentAttributes):
    """Attributes of the LSTM."""

    peepholes: bool = False
    input_forget: bool = False
    bytes_of_hidden: bool = False


def _in_bytes(x: np.ndarray) -> np.ndarray:
    """*x* as uint8 holds it, by a scale and a zero point of its range, which holds 0."""
    low, high = np.min(x, initial=0), np.max(x, initial=0)
    scale = (high - low) / x.dtype.type(255) if high > low else x.dtype.type(1)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    held: np.ndarray = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale
    return held.astype(x.dtype)


@kernel("nn.lstm_sequence")
def lstm_sequence(
    gates: np.ndarray,
    recurrence: np.ndarray,
    hidden: np.ndarray,
    cell: np.ndarray,
    *more: np.ndarray,
    attrs: LSTMAttributes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gates in the order input, output, forget, cell; peepholes T[3 * hidden] in the order input, output, forget.

    Returns the hidden state after each step, T[steps, batch, hidden], the last one, and the last cell state.
    """
    steps, batch, _ = gates.shape
    gate, squash, _out = _functions(attrs.activations, attrs.alphas, attrs.betas, attrs.clip, gates.dtype)
    plain = _functions(attrs.activations, attrs.alphas, attrs.betas, 0.0, gates.dtype)[2]
    p_in, p_out, p_forget = np.split(more[0], 3) if attrs.peepholes else (0, 0, 0)
    running = _running(steps, batch, more, attrs.masked)
    outputs = np.zeros((steps, batch, hidden.shape[-1]), gates.dtype)
    for t in range(steps):
        multiplied = _in_bytes(hidden) if attrs.bytes_of_hidden else hidden
        x_in, x_out, x_forget, x_cell = np.split(gates[t] + multiplied @ recurrence, 4, axis=-1)
        enter = gate(x_in + p_in * cell)
        keep = 1 - enter if attrs.input_forget else gate(x_forget + p_forget * cell)
        new = keep * cell + enter * squash(x_cell)
        shown = gate(x_out + p_out * new) * plain(new)
        cell, hidden = np.where(running[t], new, cell), np.where(running[t], shown, hidden)
        outputs[t] = np.where(running[t], shown, 0)
    return outputs, hidden.astype(gates.dtype), cell.astype(gates.dtype)


@dataclass(frozen=True, kw_only=True)
class GRUAttributes(RecurrentAttributes):
    """Attributes of the GRU."""

    linear_before_reset: bool = False


@kernel("nn.gru_sequence")
def gru_sequence(
    gates: np.ndarray,
    recurrence: np.ndarray,
    hidden: np.ndarray,
    *more: np.ndarray,
    attrs: GRUAttributes,
) -> tuple[np.ndarray, np.ndarray]:
    """Gates in the order update, reset, hidden; the first of *more* is T[hidden] with *linear_before_reset*.

    It is added to the recurrent product of the hidden gate, which the reset gate multiplies. Returns the hidden state
    after each step, T[steps, batch, hidden], and the last one.
    """
    steps, batch, _ = gates.shape
    size = hidden.shape[-1]
    gate, squash = _functions(attrs.activations, attrs.alphas, attrs.betas, attrs.clip, gates.dtype)
    running = _running(steps, batch, more, attrs.masked)
    outputs = np.zeros((steps, batch, size), gates.dtype)
    for t in range(steps):
        update, reset = np.split(gate(gates[t, :, : 2 * size] + hidden @ recurrence[:, : 2 * size]), 2, axis=-1)
        last = recurrence[:, 2 * size :]
        product = reset * (hidden @ last + more[0]) if attrs.linear_before_reset else (reset * hidden) @ last
        shown = (1 - update) * squash(gates[t, :, 2 * size :] + product) + update * hidden
        hidden = np.where(running[t], shown, hidden)
        outputs[t] = np.where(running[t], shown, 0)
    return outputs, hidden.astype(gates.dtype)


@kernel("nn.rnn_sequence")
def rnn_sequence(
    gates: np.ndarray,
    recurrence: np.ndarray,
    hidden: np.ndarray,
    *more: np.ndarray,
    attrs: RecurrentAttributes,
) -> tuple[np.ndarray, np.ndarray]:
    """The hidden state after each step, T[steps, batch, hidden], and the last one."""
    steps, batch, _ = gates.shape
    (squash,) = _functions(attrs.activations, attrs.alphas, attrs.betas, attrs.clip, gates.dtype)
    running = _running(steps, batch, more, attrs.masked)
    outputs = np.zeros((steps, batch, hidden.shape[-1]), gates.dtype)
    for t in range(steps):
        shown = squash(gates[t] + hidden @ recurrence)
        hidden = np.where(running[t], shown, hidden)
        outputs[t] = np.where(running[t], shown, 0)
    return outputs, hidden.astype(gates.dtype)
