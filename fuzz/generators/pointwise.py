"""Proposals of operators on one element at a time, in every element type that their schemas take."""

from __future__ import annotations

import numpy as np

from fuzz.generators.draft import Draft, NotApplicable, Proposal, proposals
from fuzz.generators.nodes import broadcastable
from fuzz.generators.schema import schema_of, taken_types

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
ALL = ("float32", "float64", "int32", "int64", "bool")
# operator -> what its attributes may be
UNARY: dict[str, dict[str, tuple]] = {
    **{
        name: {}
        for name in (
            "Abs Neg Sign Not BitwiseNot Floor Ceil Round Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
            "Acosh Atanh Erf Sigmoid Tanh Softplus Softsign Relu HardSwish Mish Reciprocal Identity IsNaN Dropout"
        ).split()
    },
    "IsInf": {"detect_negative": (0, 1), "detect_positive": (0, 1)},
    "LeakyRelu": {"alpha": (0.01, 0.0, -0.5, 2.0)},
    "ThresholdedRelu": {"alpha": (1.0, 0.0, -0.5)},
    "Elu": {"alpha": (1.0, 0.3)},
    "Celu": {"alpha": (1.0, 0.5)},
    "Selu": {"alpha": (1.673, 1.0), "gamma": (1.05, 1.0)},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, 0.0)},
    "Shrink": {"lambd": (0.5, 0.1), "bias": (0.0, 0.2)},
    "Gelu": {"approximate": ("none", "tanh")},
}
BINARY = (
    "Add Sub Mul Div Mod Pow Min Max PRelu And Or Xor BitwiseAnd BitwiseOr BitwiseXor Equal Greater Less "
    "GreaterOrEqual LessOrEqual Sum Mean BitShift"
).split()


@proposal(12)
def any_unary(d: Draft) -> None:
    a = d.pick(ALL)
    fit = [op for op in UNARY if d.dtype(a) in taken_types(op, d.opset, 0)]
    op = d.rng.choice(fit)
    d.add(op, [a], **drawn_attributes(d, UNARY[op]))


@proposal(12)
def any_binary(d: Draft) -> None:
    a = d.pick(ALL)
    fit = [op for op in BINARY if d.dtype(a) in taken_types(op, d.opset, 0)]
    if not fit:
        raise NotApplicable
    op = d.rng.choice(fit)
    b = broadcastable(d, a)
    attrs: dict[str, object] = {}
    if op == "BitShift":
        attrs["direction"] = d.rng.choice(("LEFT", "RIGHT"))
        b = d.weight(np.asarray(d.numbers.integers(0, 8, d.shape(b)[-1:] if d.rng.random() < 0.5 else ()), d.dtype(a)))
    if op == "Mod":
        attrs["fmod"] = 1 if d.dtype(a).startswith(("float", "bfloat")) else d.rng.randrange(2)
    pair = [a, b]
    if op != "BitShift":
        d.rng.shuffle(pair)
    d.add(op, pair, **attrs)


@proposal(12)
def any_cast(d: Draft) -> None:
    a = d.pick(ALL)
    targets = [t for t in (*d.freedom.floats, *d.freedom.integers, "bool") if t in taken_types("Cast", d.opset, 0)]
    to = d.rng.choice(targets)
    if d.opset >= 15 and d.rng.random() < 0.3:
        d.add("CastLike", [a, d.weight(d.random_array([1], to))])
    else:
        d.add("Cast", [a], to=ELEM_TYPE[to])


ELEM_TYPE = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}


def drawn_attributes(d: Draft, choices: dict[str, tuple]) -> dict[str, object]:
    """Some of the attributes with a value each; the others keep their defaults."""
    return {name: d.rng.choice(values) for name, values in choices.items() if d.rng.random() < 0.7}


def exists(d: Draft, operator: str) -> bool:
    """True when the draft's opset has *operator*."""
    return schema_of(operator, d.opset) is not None
