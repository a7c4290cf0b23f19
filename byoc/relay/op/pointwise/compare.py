"""Comparisons of two tensors, broadcast to one shape, as bool. Source: ``relay/op/tensor/binary.cc``."""

from __future__ import annotations

import numpy as np

from byoc import te
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import POINTWISE, Conversion, Traits, pointwise
from byoc.relay.op.core.type_relations import broadcast_compare
from byoc.relay.op.pointwise.binary import BinaryBuilder, binary_builder, each_pair

_NUMBERS = np.array([1.0, 2.0, 3.0, np.nan, np.inf], "float32")
_OTHERS = np.array([1.0, 3.0, 2.0, np.nan, 1.0], "float32")
_SAMPLES = (
    Sample([_NUMBERS, _OTHERS]),
    Sample([(2, 1, 3), (4, 1)]),
    Sample([(3, 4), (4,)], dtype="int64", low=0, high=3),
    Sample([(5,), ()], dtype="uint8", low=0, high=3),
)
_ORDER = pointwise(precision=Conversion.FOLLOW)


def _comparison(name: str, op: str, doc: str, traits: Traits = _ORDER) -> BinaryBuilder:
    register_op(
        name,
        inputs=("lhs", "rhs"),
        rel=broadcast_compare,
        doc=doc,
        pattern=OpPattern.BROADCAST,
        traits=traits,
        compute=each_pair(lambda a, b: te.binary(op, a, b), name),
        samples=_SAMPLES,
    ).set_support_level(4)
    return binary_builder(name, doc)


equal = _comparison("equal", "eq", "True where both are equal.", POINTWISE)
not_equal = _comparison("not_equal", "ne", "True where both differ.", POINTWISE)
less = _comparison("less", "lt", "True where the left side is smaller.")
less_equal = _comparison("less_equal", "le", "True where the left side is not greater.")
greater = _comparison("greater", "gt", "True where the left side is greater.")
greater_equal = _comparison("greater_equal", "ge", "True where the left side is not smaller.")
