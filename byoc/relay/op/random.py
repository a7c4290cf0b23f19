"""Random numbers by a counter-based generator, whose state is a value: the names of ``relay.random``.

A key is ``uint64[10]``: four words of key, two of path, two of counter, two with the bit of the next split. Every
operator returns the key for the next use beside its numbers; no key is used twice. Source: ``relay.random``; Salmon et
al., "Parallel random numbers: as easy as 1, 2, 3" (Threefry); Claessen and Palka, "Splittable pseudorandom number
generators using cryptographic hashing".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Sample, register_op
from byoc.ir.types import Dim, TensorType, TupleType, Type
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, tensor_arg

KEY_WORDS = 10
KEY_TYPE = TensorType([KEY_WORDS], "uint64")
Shape = int | Sequence[int]


@dataclass(frozen=True)
class ThreefryGenerateAttrs(Attrs):
    """Attributes of ``random.threefry_generate``."""

    out_shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class UniformAttrs(Attrs):
    """Attributes of ``random.uniform``."""

    out_shape: tuple[int, ...] = ()
    out_dtype: str = written("float32", left_out="")


@dataclass(frozen=True)
class NormalAttrs(Attrs):
    """Attributes of ``random.normal``."""

    out_shape: tuple[int, ...] = ()
    out_dtype: str = written("float32", left_out="")


@dataclass(frozen=True)
class LikeAttrs(Attrs):
    """Attributes of ``random.uniform_like`` and ``random.normal_like``."""

    out_dtype: str = "float32"


@dataclass(frozen=True)
class MultinomialAttrs(Attrs):
    """Attributes of ``random.multinomial``."""

    num_samples: int = 1


def _check_key(types: Sequence[Type]) -> None:
    key = tensor_arg(types, 0, "key")
    if key != KEY_TYPE:
        raise TypeInferenceError(f"a key is {KEY_TYPE}, made by random.threefry_key, got {key}")


def _check_shape(shape: Sequence[int]) -> None:
    if any(d < 0 for d in shape):
        raise TypeInferenceError(f"a shape has no negative dimension, got {tuple(shape)}")


def _generate_rel(types: Sequence[Type], attrs: ThreefryGenerateAttrs) -> Type:
    _check_key(types)
    _check_shape(attrs.out_shape)
    return TupleType([KEY_TYPE, TensorType(attrs.out_shape, "uint64")])


def _split_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    _check_key(types)
    return TupleType([KEY_TYPE, KEY_TYPE])


def _distribution_rel(types: Sequence[Type], attrs: UniformAttrs | NormalAttrs) -> Type:
    _check_shape(attrs.out_shape)
    return _distributed(types, attrs.out_shape, attrs.out_dtype)


def _distribution_like_rel(types: Sequence[Type], attrs: LikeAttrs) -> Type:
    return _distributed(types, tensor_arg(types, 3, "like").shape, attrs.out_dtype)


def _distributed(types: Sequence[Type], shape: Sequence[Dim], dtype: str) -> TupleType:
    _check_key(types)
    if dtype not in ("float32", "float64"):
        raise TypeInferenceError(f"random numbers are float32 or float64, got {dtype}")
    for k, name in ((1, "the first parameter"), (2, "the second parameter")):
        if math.prod(tensor_arg(types, k, name).concrete_shape) != 1:
            raise TypeInferenceError(f"{name} of the distribution must be a scalar, got {types[k]}")
    return TupleType([KEY_TYPE, TensorType(shape, dtype)])


def _multinomial_rel(types: Sequence[Type], attrs: MultinomialAttrs) -> Type:
    _check_key(types)
    probs = tensor_arg(types, 1, "probs")
    if probs.ndim == 0 or not is_float(probs.dtype) or attrs.num_samples < 0:
        raise TypeInferenceError(f"takes probabilities and a number of samples, got {probs} and {attrs.num_samples}")
    return TupleType([KEY_TYPE, TensorType((*probs.shape[:-1], attrs.num_samples), "int32")])


def key_words(seed: int) -> np.ndarray:
    """The key of *seed*: ``uint64[10]``. Raises UserError for a seed that 256 bits do not hold."""
    if not 0 <= seed < 2**256:
        raise UserError(f"a seed is in 0 to 2**256 - 1, got {seed}")
    words = np.frombuffer(int(seed).to_bytes(32, "big"), "uint64")
    return np.concatenate([words, np.array([0, 0, 0, 0, 1 << 63, 0], "uint64")])


_KEY = key_words(42)
_LOW, _HIGH = np.array(-1.0, "float32"), np.array(2.0, "float32")
register_op(
    "random.threefry_generate",
    inputs=("key",),
    attrs=ThreefryGenerateAttrs,
    rel=_generate_rel,
    doc="Random 64-bit words, and the key for the next use.",
    samples=(Sample([_KEY], {"out_shape": (3, 4)}), Sample([_KEY], {"out_shape": (5,)})),
)
register_op(
    "random.threefry_split",
    inputs=("key",),
    rel=_split_rel,
    doc="Two keys whose numbers are independent.",
    samples=(Sample([_KEY]),),
)
register_op(
    "random.uniform",
    inputs=("key", "low", "high"),
    attrs=UniformAttrs,
    rel=_distribution_rel,
    doc="Random numbers that are uniform in [low, high), and the key for the next use.",
    samples=(
        Sample([_KEY, _LOW, _HIGH], {"out_shape": (3, 4)}),
        Sample([_KEY, _LOW.astype("float64"), _HIGH.astype("float64")], {"out_shape": (5,), "out_dtype": "float64"}),
    ),
)
register_op(
    "random.normal",
    inputs=("key", "mean", "scale"),
    attrs=NormalAttrs,
    rel=_distribution_rel,
    doc="Random numbers of a normal distribution, and the key for the next use.",
    samples=(Sample([_KEY, _LOW, _HIGH], {"out_shape": (3, 4)}),),
)
for _name, _first, _what in (("uniform", "low", "uniform in [low, high)"), ("normal", "mean", "normally distributed")):
    register_op(
        f"random.{_name}_like",
        inputs=("key", _first, "high" if _first == "low" else "scale", "like"),
        attrs=LikeAttrs,
        rel=_distribution_like_rel,
        doc=f"Random numbers that are {_what}, in the shape of another tensor, and the key for the next use.",
        samples=(Sample([_KEY, _LOW, _HIGH, (3, 4)]),),
    )
register_op(
    "random.multinomial",
    inputs=("key", "probs"),
    attrs=MultinomialAttrs,
    rel=_multinomial_rel,
    doc="Indices drawn with given probabilities, and the key for the next use.",
    samples=(
        Sample([_KEY, np.array([[0.1, 0.9], [2.0, 2.0]], "float32")], {"num_samples": 5}),
        Sample([_KEY, np.array([1.0, 0.0, 3.0], "float32")], {"num_samples": 7}),
    ),
)


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(d) for d in shape)


def threefry_key(seed: int) -> Constant:
    """The key of *seed*, a constant ``uint64[10]``. Source: ``relay.random.threefry_key``.

    Raises UserError for a seed that 256 bits do not hold.
    """
    return constant(key_words(seed), "uint64")


def threefry_generate(key: RelayExpr, shape: Shape) -> Call:
    """``uint64[10] -> (uint64[10], uint64[shape])``. Source: ``relay.random.threefry_generate``."""
    return make_call("random.threefry_generate", [key], ThreefryGenerateAttrs(_sizes(shape)))


def threefry_split(key: RelayExpr) -> Call:
    """``uint64[10] -> (uint64[10], uint64[10])``. Source: ``relay.random.threefry_split``."""
    return make_call("random.threefry_split", [key])


def uniform(key: RelayExpr, shape: Shape, dtype: str = "float32", low: Operand = 0.0, high: Operand = 1.0) -> Call:
    """``uint64[10] -> (uint64[10], dtype[shape])``, uniform in [low, high). Source: ``relay.random.uniform``."""
    args = [key, as_expr(low, dtype), as_expr(high, dtype)]
    return make_call("random.uniform", args, UniformAttrs(_sizes(shape), dtype))


def normal(key: RelayExpr, shape: Shape, dtype: str = "float32", mean: Operand = 0.0, scale: Operand = 1.0) -> Call:
    """``uint64[10] -> (uint64[10], dtype[shape])``, normally distributed. Source: ``relay.random.normal``."""
    args = [key, as_expr(mean, dtype), as_expr(scale, dtype)]
    return make_call("random.normal", args, NormalAttrs(_sizes(shape), dtype))


def uniform_like(
    key: RelayExpr, like: Operand, dtype: str = "float32", low: Operand = 0.0, high: Operand = 1.0
) -> Call:
    """:func:`uniform` in the shape of *like*, whose sizes may be free: the same numbers as in that shape."""
    args = [key, as_expr(low, dtype), as_expr(high, dtype), as_expr(like)]
    return make_call("random.uniform_like", args, LikeAttrs(dtype))


def normal_like(
    key: RelayExpr, like: Operand, dtype: str = "float32", mean: Operand = 0.0, scale: Operand = 1.0
) -> Call:
    """:func:`normal` in the shape of *like*, whose sizes may be free: the same numbers as in that shape."""
    args = [key, as_expr(mean, dtype), as_expr(scale, dtype), as_expr(like)]
    return make_call("random.normal_like", args, LikeAttrs(dtype))


def multinomial(key: RelayExpr, probs: Operand, num_samples: int) -> Call:
    """``uint64[10], T[..., n] -> (uint64[10], int32[..., num_samples])``, indices below n.

    Negative probabilities count as 0 and each row is scaled to a sum of 1. Source: ``relay.random.multinomial``.
    """
    return make_call("random.multinomial", [key, as_expr(probs)], MultinomialAttrs(int(num_samples)))
