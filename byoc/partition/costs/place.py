"""Where a unit would run, as far as costs know it, and the one spelling of each precision."""

from __future__ import annotations

from dataclasses import dataclass

_SPELLINGS = {
    "f32": "float32",
    "float": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "fp64": "float64",
    "any": "",
}


@dataclass(frozen=True)
class UnitPlace:
    """A target, and the dtype in which its products compute; empty as the unit is typed."""

    target: str
    precision: str = ""


def precision_name(precision: str) -> str:
    """The dtype that *precision* means, in any of its spellings.

    >>> precision_name("bf16"), precision_name("float"), precision_name("int8"), precision_name("")
    ('bfloat16', 'float32', 'int8', '')
    """
    return _SPELLINGS.get(str(precision), str(precision))
