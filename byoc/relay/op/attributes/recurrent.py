"""Attributes of the recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.ir.attrs import Attrs

# what an activation takes, and what it gets where the node says nothing; None: it takes no such number
ACTIVATION_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "Relu": (None, None),
    "Tanh": (None, None),
    "Sigmoid": (None, None),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
}


@dataclass(frozen=True)
class RNNSequenceAttrs(Attrs):
    """Activations by their ONNX names with an alpha and a beta each, a bound on what they are given (0: none).

    *masked*: the last input, int[batch], holds how many steps each row has.
    """

    activations: tuple[str, ...] = ("Tanh",)
    alphas: tuple[float, ...] = (0.0,)
    betas: tuple[float, ...] = (0.0,)
    clip: float = 0.0
    masked: bool = False

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the inputs after the states."""
        return ("lengths",) if self.masked else ()


@dataclass(frozen=True)
class GRUSequenceAttrs(RNNSequenceAttrs):
    """Activations of the gates and of the hidden state; *linear_before_reset* as in ONNX, with ``bias: T[hidden]``."""

    activations: tuple[str, ...] = ("Sigmoid", "Tanh")
    alphas: tuple[float, ...] = (0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0)
    linear_before_reset: bool = False

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the inputs after the states."""
        return (("bias",) if self.linear_before_reset else ()) + super().extra


@dataclass(frozen=True)
class LSTMSequenceAttrs(RNNSequenceAttrs):
    """Activations of the gates, of what enters the cell and of the cell; *peepholes*: an input ``T[3 * hidden]``.

    *bytes_of_hidden*: the recurrent product reads the hidden state as 8 bits hold it, by its range over batch and row
    before the step (ONNX Runtime's DynamicQuantizeLSTM).
    """

    activations: tuple[str, ...] = ("Sigmoid", "Tanh", "Tanh")
    alphas: tuple[float, ...] = (0.0, 0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0, 0.0)
    peepholes: bool = False
    input_forget: bool = False
    bytes_of_hidden: bool = False

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the inputs after the states."""
        return (("peepholes",) if self.peepholes else ()) + super().extra
