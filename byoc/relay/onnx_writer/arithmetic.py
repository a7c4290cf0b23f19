"""Operators that compute numbers, as whole models have them and regions have not."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters

from byoc.ir.types import Dim, TupleType, tensor_types
from byoc.relay.onnx_writer import pointwise
from byoc.relay.onnx_writer.reductions import axes_of
from byoc.relay.onnx_writer.rules import Rule, Written, needs

_SIGNED = ("int32", "int64")


def variance(at: Written) -> str:
    """The mean of the squared distances from a mean."""
    needs(not at.attrs.unbiased, "an unbiased variance")
    away = at.value("Sub", *at.names)
    axes = at.graph.constant(axes_of(at))
    return at.value("ReduceMean", at.value("Mul", away, away), axes, keepdims=int(bool(at.attrs.keepdims)))


def isfinite(at: Written) -> str:
    """Neither an infinity nor a NaN."""
    return at.value("Not", at.value("Or", at.value("IsInf", at.names[0]), at.value("IsNaN", at.names[0])))


def rounded(at: Written) -> str:
    """Halves to the even number."""
    return at.value("Round", at.names[0])


def divide(at: Written) -> str:
    """Of integers towards zero."""
    return at.value("Div", *at.names) if at.result.dtype in _SIGNED else pointwise.divide(at)


def floor_mod(at: Written) -> str:
    """What remains of integers, with the divisor's sign, as ONNX's ``Mod``."""
    needs(at.result.dtype in _SIGNED, f"{at.operator} of {at.result.dtype}")
    return at.value("Mod", *at.names)


def floor_divide(at: Written) -> str:
    """The quotient of integers downwards."""
    return at.value("Div", at.value("Sub", at.names[0], floor_mod(at)), at.names[1])


def einsum(at: Written) -> str:
    """Sums of products by an equation."""
    needs(at.result.dtype.startswith(("float", "int")), f"einsum of {at.result.dtype}")
    return at.value("Einsum", *at.names, equation=_spelled(at))


def _spelled(at: Written) -> str:
    """The equation with letters for the axes of an ellipsis. Raises UnwritableError where they are broadcast."""
    equation = str(at.attrs.equation).replace(" ", "")
    if "." not in equation:
        return equation
    needs("->" in equation, "einsum with an ellipsis and without its result")
    given, result = equation.split("->")
    free = [letter for letter in ascii_letters if letter not in equation]
    types = tensor_types(TupleType([a.checked_type for a in at.call.args]))
    sizes: list[Dim] = []
    for term, ty in zip(given.split(","), types, strict=True):
        if "..." in term:
            begin, count = term.index("."), len(ty.shape) - len(term) + len("...")
            own = list(ty.shape[begin : begin + count])
            needs(
                not sizes or own == sizes,
                "einsum with an ellipsis over axes that differ, which ONNX does not broadcast",
            )
            sizes = own or sizes
    needs(len(sizes) <= len(free), "einsum with more axes than letters")
    letters = "".join(free[: len(sizes)])
    return ",".join(term.replace("...", letters) for term in given.split(",")) + "->" + result.replace("...", letters)


def cumsum(at: Written) -> str:
    """Sums of what is before along one axis."""
    attrs = at.attrs
    needs(
        attrs.axis is not None and attrs.dtype in ("", at.type(0).dtype), "cumsum of all elements or in another dtype"
    )
    axis = at.graph.scalar(int(attrs.axis), "int64")
    return at.value("CumSum", at.names[0], axis, exclusive=int(bool(attrs.exclusive)))


RULES: Mapping[str, Rule] = {
    "variance": variance,
    "isfinite": isfinite,
    "round": rounded,
    "divide": divide,
    "floor_mod": floor_mod,
    "floor_divide": floor_divide,
    "einsum": einsum,
    "cumsum": cumsum,
}
