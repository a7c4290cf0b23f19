"""Operators that make one thing of each string or number.

``strings.change_case``, ``strings.concat``, ``strings.full_match``, ``strings.index_of``, ``strings.from_number`` and
``strings.to_number``. Source: ONNX StringNormalizer-10, StringConcat-20, RegexFullMatch-20, LabelEncoder-4, Cast-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import broadcast, is_number, tensor_arg
from byoc.runtime.kernels.strings.elements import CASES
from byoc.runtime.kernels.strings.regex import regex_of
from byoc.runtime.kernels.strings.regex_syntax import PatternError

STRING = "string"
ON_STRINGS = Traits(OpKind.OTHER, precision=Conversion.NEVER)
_WORDS = np.array([["Ab", "ß"], ["", "Ça 1"]], object)


@dataclass(frozen=True)
class CaseAttrs(Attrs):
    """Attributes of ``strings.change_case``: ``none``, ``lower`` or ``upper``."""

    case: str = "none"


@dataclass(frozen=True)
class PatternAttrs(Attrs):
    """Attributes of ``strings.full_match``: a regular expression in RE2's syntax."""

    pattern: str = ""


@dataclass(frozen=True)
class NumberAttrs(Attrs):
    """Attributes of ``strings.to_number``: the dtype of the numbers."""

    dtype: str = "float32"


def strings_arg(types: Sequence[Type], index: int, name: str = "data") -> TensorType:
    """Input *index* as the type of a tensor of strings. Raises TypeInferenceError for another."""
    found = tensor_arg(types, index, name)
    if found.dtype != STRING:
        raise TypeInferenceError(f"input {name} must hold strings, got {found}")
    return found


def check_case(case: str) -> None:
    """Raises TypeInferenceError for a case that there is not."""
    if case not in CASES:
        raise TypeInferenceError(f"case is one of {', '.join(CASES)}, got {case!r}")


def _case_rel(types: Sequence[Type], attrs: CaseAttrs) -> Type:
    check_case(attrs.case)
    return strings_arg(types, 0)


def _concat_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    return broadcast([strings_arg(types, 0, "lhs"), strings_arg(types, 1, "rhs")], attrs)


def _match_rel(types: Sequence[Type], attrs: PatternAttrs) -> Type:
    try:
        regex_of(attrs.pattern)
    except PatternError as error:
        raise TypeInferenceError(str(error)) from error
    return TensorType(strings_arg(types, 0).shape, "bool")


def _index_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    if strings_arg(types, 1, "keys").ndim != 1:
        raise TypeInferenceError(f"keys is a vector, got {types[1]}")
    return TensorType(strings_arg(types, 0).shape, "int64")


def _from_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data = tensor_arg(types, 0)
    if not is_number(data.dtype) and data.dtype != "bool":
        raise TypeInferenceError(f"takes numbers, got {data}")
    return TensorType(data.shape, STRING)


def _to_rel(types: Sequence[Type], attrs: NumberAttrs) -> Type:
    if not is_number(attrs.dtype) and attrs.dtype != "bool":
        raise TypeInferenceError(f"strings become numbers or bools, got {attrs.dtype}")
    return TensorType(strings_arg(types, 0).shape, attrs.dtype)


register_op(
    "strings.change_case",
    inputs=("data",),
    attrs=CaseAttrs,
    rel=_case_rel,
    doc="Each string in lower or upper case.",
    traits=ON_STRINGS,
    samples=tuple(Sample([_WORDS], {"case": case}) for case in CASES),
)
register_op(
    "strings.concat",
    inputs=("lhs", "rhs"),
    rel=_concat_rel,
    doc="Each string of the first tensor with that of the second behind it; shapes are broadcast.",
    traits=ON_STRINGS,
    samples=(Sample([_WORDS, np.array(["x", "é"], object)]),),
)
register_op(
    "strings.full_match",
    inputs=("data",),
    attrs=PatternAttrs,
    rel=_match_rel,
    doc="Whether a regular expression matches the whole of each string.",
    traits=ON_STRINGS,
    samples=(Sample([_WORDS], {"pattern": r"[A-Z]\w*|\pL+"}),),
)
register_op(
    "strings.index_of",
    inputs=("data", "keys"),
    rel=_index_rel,
    doc="The place of the first key that equals each string; the number of keys where none does.",
    traits=ON_STRINGS,
    samples=(Sample([_WORDS, np.array(["", "ß", ""], object)]),),
)
register_op(
    "strings.from_number",
    inputs=("data",),
    rel=_from_rel,
    doc="Each number as text.",
    traits=ON_STRINGS,
    samples=(Sample([(2, 3)]), Sample([(3,)], dtype="int64"), Sample([(3,)], dtype="bool")),
)
register_op(
    "strings.to_number",
    inputs=("data",),
    attrs=NumberAttrs,
    rel=_to_rel,
    doc="Each string as a number.",
    traits=ON_STRINGS,
    samples=(
        Sample([np.array(["1.5", "-2e3", "NaN"], object)]),
        Sample([np.array(["15", "-2"], object)], {"dtype": "int32"}),
    ),
)


def change_case(data: Operand, case: str) -> Call:
    """``string[...] -> string[...]`` in the *case* lower or upper. Source: StringNormalizer-10."""
    return make_call("strings.change_case", [as_expr(data)], CaseAttrs(case))


def concat(lhs: Operand, rhs: Operand) -> Call:
    """Each string of *lhs* with that of *rhs* behind it. Source: StringConcat-20."""
    return make_call("strings.concat", [as_expr(lhs), as_expr(rhs)])


def full_match(data: Operand, pattern: str) -> Call:
    """``string[...] -> bool[...]``: whether the *pattern*, RE2's, matches the whole. Source: RegexFullMatch-20."""
    return make_call("strings.full_match", [as_expr(data)], PatternAttrs(pattern))


def index_of(data: Operand, keys: Operand) -> Call:
    """``string[...], string[K] -> int64[...]``: the place of the first equal key, or K. Source: LabelEncoder-4."""
    return make_call("strings.index_of", [as_expr(data), as_expr(keys)])


def from_number(data: Operand) -> Call:
    """``T[...] -> string[...]``. Source: Cast-9, as ONNX Runtime writes numbers."""
    return make_call("strings.from_number", [as_expr(data)])


def to_number(data: Operand, dtype: str) -> Call:
    """``string[...] -> T[...]``; a string that is no number ends the run. Source: Cast-9."""
    return make_call("strings.to_number", [as_expr(data)], NumberAttrs(dtype))
