"""Fourier transforms: ``dft`` and ``stft``, and weights of their frequencies. Source: ``relay.dft``, ``relay.stft``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, same_dtype, tensor_arg, unify_dim
from byoc.relay.op.core.window import window_extent
from byoc.relay.op.movement.create import ones
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class DFTAttrs(Attrs):
    """Attributes of ``dft``."""

    inverse: bool = False


@dataclass(frozen=True)
class StftAttrs(Attrs):
    """Attributes of ``stft``: sizes of frame, step and window in samples."""

    n_fft: int = -1
    hop_length: int = -1
    win_length: int = -1
    normalized: bool = False
    onesided: bool = True


def _dft_rel(types: Sequence[Type], attrs: DFTAttrs) -> Type:
    real, imaginary = tensor_arg(types, 0, "re_data"), tensor_arg(types, 1, "im_data")
    same_dtype([real, imaginary])
    if not is_float(real.dtype) or real.ndim == 0:
        raise TypeInferenceError(f"takes floats with at least one axis, got {real}")
    fits = real.ndim == imaginary.ndim
    if not fits or any(unify_dim(a, b) is None for a, b in zip(real.shape, imaginary.shape, strict=True)):
        raise TypeInferenceError(f"re_data and im_data must have one shape, got {real.shape} and {imaginary.shape}")
    return TupleType([real, real])


register_op(
    "dft",
    inputs=("re_data", "im_data"),
    attrs=DFTAttrs,
    rel=_dft_rel,
    doc="The discrete Fourier transform of the last axis, as real and imaginary part.",
    samples=(Sample([(2, 5), (2, 5)]), Sample([(6,), (6,)], {"inverse": True}, "float64")),
)


def dft(re_data: Operand, im_data: Operand, inverse: bool = False) -> TupleWrapper:
    """The transform of the last axis: ``(T[..., n], T[..., n]) -> (T[..., n], T[..., n])``. Source: ``relay.dft``."""
    return TupleWrapper(make_call("dft", [as_expr(re_data), as_expr(im_data)], DFTAttrs(bool(inverse))), 2)


def _stft_rel(types: Sequence[Type], attrs: StftAttrs) -> Type:
    data, window = tensor_arg(types, 0), tensor_arg(types, 1, "window")
    if data.ndim not in (1, 2) or not is_float(data.dtype):
        raise TypeInferenceError(f"takes floats [samples] or [batch, samples], got {data}")
    if attrs.hop_length < 1 or not 0 < attrs.win_length <= attrs.n_fft:
        raise TypeInferenceError(
            f"hop_length {attrs.hop_length} must be positive and win_length {attrs.win_length} in 1 to {attrs.n_fft}"
        )
    if window.ndim != 1 or (isinstance(window.shape[0], int) and window.shape[0] < attrs.win_length):
        raise TypeInferenceError(f"window must be a vector of {attrs.win_length} numbers, got {window}")
    samples = data.shape[-1]
    if isinstance(samples, int) and samples < attrs.n_fft:
        raise TypeInferenceError(f"a frame of {attrs.n_fft} does not fit in {samples} samples")
    frames = window_extent(samples, attrs.n_fft, attrs.hop_length, 1, (0, 0))
    rows = attrs.n_fft // 2 + 1 if attrs.onesided else attrs.n_fft
    return TensorType((*data.shape[:-1], rows, frames, 2), data.dtype)


register_op(
    "stft",
    inputs=("data", "window"),
    attrs=StftAttrs,
    rel=_stft_rel,
    doc="The Fourier transform of windows that slide over a signal, real and imaginary part in the last axis.",
    samples=(
        Sample([(2, 20), np.ones(8, "int32")], {"n_fft": 8, "hop_length": 3, "win_length": 8}),
        Sample(
            [(16,), np.hanning(6).astype("float32")],
            {"n_fft": 6, "hop_length": 2, "win_length": 6, "normalized": True, "onesided": False},
        ),
    ),
)


def stft(
    data: Operand,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Operand | None,
    normalized: bool,
    onesided: bool,
) -> Call:
    """The short-time transform of *data*: ``T[batch, samples] -> T[batch, frequencies, frames, 2]``.

    What is None is a quarter frame (*hop_length*), a whole one (*win_length*) and ones (*window*). Source:
    ``relay.stft``.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    weights = ones([n_fft], "int32") if window is None else as_expr(window)
    return make_call("stft", [as_expr(data), weights], StftAttrs(n_fft, hop, length, bool(normalized), bool(onesided)))


@dataclass(frozen=True)
class MelWeightMatrixAttrs(Attrs):
    """Attributes of ``mel_weight_matrix``."""

    dtype: str = "float32"


def _mel_rel(types: Sequence[Type], attrs: MelWeightMatrixAttrs) -> Type:
    for k, name in enumerate(_MEL_INPUTS):
        if any(d != 1 for d in tensor_arg(types, k, name).shape):
            raise TypeInferenceError(f"{name} must be a scalar, got {types[k]}")
    return TensorType([Any(), Any()], attrs.dtype)


_MEL_INPUTS = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
register_op(
    "mel_weight_matrix",
    inputs=_MEL_INPUTS,
    attrs=MelWeightMatrixAttrs,
    rel=_mel_rel,
    doc="Weights that bring the frequencies of a transform to the mel scale.",
    samples=(
        Sample(
            [np.array(n, "int64") for n in (8, 16, 8192)] + [np.array(f, "float32") for f in (0.0, 4096.0)],
        ),
        Sample(
            [np.array(n, "int32") for n in (5, 25, 8000)] + [np.array(f, "float32") for f in (100.0, 3000.0)],
            {"dtype": "float64"},
        ),
    ),
)


def mel_weight_matrix(
    num_mel_bins: Operand,
    dft_length: Operand,
    sample_rate: Operand,
    lower_edge_hertz: Operand,
    upper_edge_hertz: Operand,
    dtype: str = "float32",
) -> Call:
    """Scalars ``-> T[dft_length / 2 + 1, num_mel_bins]``. Source: ONNX MelWeightMatrix-17."""
    numbers = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    return make_call("mel_weight_matrix", [as_expr(n) for n in numbers], MelWeightMatrixAttrs(dtype))
