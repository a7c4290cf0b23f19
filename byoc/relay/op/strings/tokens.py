"""Operators on texts of words: ``strings.without``, ``strings.split``, ``strings.tokenize``, ``strings.tf_idf``.

Source: ONNX StringNormalizer-10, StringSplit-20, TfIdfVectorizer-9; Tokenizer-1 of com.microsoft.
"""

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
from byoc.relay.op.core.type_relations import is_integer, tensor_arg
from byoc.relay.op.core.window import differ
from byoc.relay.op.strings.elements import ON_STRINGS, STRING, check_case, strings_arg
from byoc.relay.tuple_wrapper import TupleWrapper
from byoc.runtime.kernels.strings.ngrams import MODES
from byoc.runtime.kernels.strings.regex import regex_of
from byoc.runtime.kernels.strings.regex_syntax import PatternError

_TEXTS = np.array(["a b  c", "", "b"], object)


@dataclass(frozen=True)
class WithoutAttrs(Attrs):
    """Attributes of ``strings.without``: the case of the result, and whether words of another case are others."""

    case: str = "none"
    case_sensitive: bool = False


@dataclass(frozen=True)
class StringSplitAttrs(Attrs):
    """Attributes of ``strings.split``: what lies between parts (nothing: white space), and the most splits."""

    delimiter: str = ""
    most: int = -1


@dataclass(frozen=True)
class TokenizeAttrs(Attrs):
    """Attributes of ``strings.tokenize``: the pattern of a token, its least length, what fills rows, marked or not."""

    token: str = ""
    least: int = 1
    filler: str = "#"
    mark: bool = False


@dataclass(frozen=True)
class TfIdfAttrs(Attrs):
    """Attributes of ``strings.tf_idf``: *columns* of the result, the n-grams' lengths, items between, and the mode."""

    columns: int = 1
    shortest: int = 1
    longest: int = 1
    skips: int = 0
    mode: str = "TF"


def _without_rel(types: Sequence[Type], attrs: WithoutAttrs) -> Type:
    check_case(attrs.case)
    data, words = strings_arg(types, 0), strings_arg(types, 1, "words")
    if words.ndim != 1 or data.ndim not in (1, 2) or (data.ndim == 2 and differ(data.shape[0], 1)):
        raise TypeInferenceError(f"takes one row of strings and a vector of words, got {data} and {words}")
    return TensorType((Any(),) if data.ndim == 1 else (1, Any()), STRING)


def _split_rel(types: Sequence[Type], attrs: StringSplitAttrs) -> Type:
    shape = strings_arg(types, 0).shape
    return TupleType([TensorType((*shape, Any()), STRING), TensorType(shape, "int64")])


def _tokenize_rel(types: Sequence[Type], attrs: TokenizeAttrs) -> Type:
    try:
        regex_of(attrs.token)
    except PatternError as error:
        raise TypeInferenceError(str(error)) from error
    strings_arg(types, 1, "separators")
    return TensorType((*strings_arg(types, 0).shape, Any()), STRING)


def _tf_idf_rel(types: Sequence[Type], attrs: TfIdfAttrs) -> Type:
    data, pool = tensor_arg(types, 0), tensor_arg(types, 1, "pool")
    if data.dtype != pool.dtype or not (data.dtype == STRING or is_integer(data.dtype)):
        raise TypeInferenceError(f"data and pool hold strings or integers of one dtype, got {data} and {pool}")
    if data.ndim not in (1, 2) or attrs.mode not in MODES or not 1 <= attrs.shortest <= attrs.longest:
        raise TypeInferenceError(
            f"takes rows, lengths from 1 on and a mode of {', '.join(MODES)}, got {data}, {attrs.shortest} to "
            f"{attrs.longest} and {attrs.mode!r}"
        )
    return TensorType((*data.shape[:-1], attrs.columns), "float32")


register_op(
    "strings.without",
    inputs=("data", "words"),
    attrs=WithoutAttrs,
    rel=_without_rel,
    doc="The strings of a row that are not among some words; an empty one where none is left.",
    traits=ON_STRINGS,
    samples=(Sample([np.array(["The", "cat", "the"], object), np.array(["the"], object)], {"case": "upper"}),),
)
register_op(
    "strings.split",
    inputs=("data",),
    attrs=StringSplitAttrs,
    rel=_split_rel,
    doc="The parts of each string between delimiters, filled up with empty ones, and how many they are.",
    traits=ON_STRINGS,
    samples=(Sample([_TEXTS]), Sample([_TEXTS], {"delimiter": " ", "most": 1})),
)
register_op(
    "strings.tokenize",
    inputs=("data", "separators"),
    attrs=TokenizeAttrs,
    rel=_tokenize_rel,
    doc="The tokens of each string: what a pattern matches, or what lies between separators.",
    traits=ON_STRINGS,
    samples=(
        Sample([_TEXTS, np.array([], object)], {"token": r"\w+"}),
        Sample([_TEXTS, np.array([" "], object)], {"mark": True}),
    ),
)
_POOL = [
    np.array([2, 3, 5, 4, 5, 6], "int64"),
    np.array([0, 2], "int64"),
    np.array([2, 0, 1, 3], "int64"),
    np.array([0.5, 2.0, 1.0, 3.0], "float32"),
]
register_op(
    "strings.tf_idf",
    inputs=("data", "pool", "starts", "places", "weights"),
    attrs=TfIdfAttrs,
    rel=_tf_idf_rel,
    doc="How often each n-gram of a pool occurs in each row, weighted or not.",
    traits=ON_STRINGS,
    samples=tuple(
        Sample([np.array([[2, 5, 4, 3], [5, 1, 6, 3]], "int64"), *_POOL], {"columns": 4, "longest": 2, "mode": mode})
        for mode in MODES
    ),
)


def without(data: Operand, words: Operand, case: str = "none", case_sensitive: bool = False) -> Call:
    """``string[C] -> string[K]``, or a row: what is not among *words*. Source: StringNormalizer-10."""
    return make_call("strings.without", [as_expr(data), as_expr(words)], WithoutAttrs(case, case_sensitive))


def split(data: Operand, delimiter: str = "", most: int = -1) -> TupleWrapper:
    """``string[...] -> string[..., K], int64[...]``: the parts, and their numbers. Source: StringSplit-20."""
    return TupleWrapper(make_call("strings.split", [as_expr(data)], StringSplitAttrs(delimiter, most)), 2)


def tokenize(data: Operand, separators: Operand, attrs: TokenizeAttrs) -> Call:
    """``string[...] -> string[..., K]``, shorter rows filled up. Source: Tokenizer-1 of com.microsoft."""
    return make_call("strings.tokenize", [as_expr(data), as_expr(separators)], attrs)


def tf_idf(data: Operand, pool: tuple[Operand, Operand], places: Operand, weights: Operand, attrs: TfIdfAttrs) -> Call:
    """``T[N, C] -> f32[N, columns]``.

    *pool* is the n-grams' items, one n-gram behind the other, and where those of each length begin; *places* are their
    columns, *weights* may be empty. Source: TfIdfVectorizer-9.
    """
    return make_call("strings.tf_idf", [as_expr(value) for value in (data, *pool, places, weights)], attrs)
