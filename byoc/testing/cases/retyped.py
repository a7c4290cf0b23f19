"""The same graph on another floating-point type: for a backend that takes none of the samples' own.

A chip that computes in float16 alone is asked about float32 by every sample, and refuses; what it takes is the sample
with each float32 tensor in float16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Sample
from byoc.ir.types import TensorType
from byoc.relay.expr import Call, Constant, Var
from byoc.relay.traverse import dataflow_children, rewrite
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.testing.core.case import constant

OWN = "float32"  # what the samples have
OTHERS = ("float16", "float64", "bfloat16")  # in the order in which they are tried
Given = Mapping[Var, np.ndarray]


def retyped(expr: RelayExpr, given: Given, dtype: str) -> tuple[RelayExpr, dict[Var, np.ndarray]]:
    """*expr* with what is float32 in it of *dtype*, and what its variables are *given*; types are not inferred.

    Raises UserError for a type whose package is missing.
    """
    arrays = {var: cast(array, dtype) for var, array in given.items()}
    made = {var: Var(var.name_hint, TensorType(a.shape, dtype_name(a.dtype))) for var, a in arrays.items()}

    def over(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Constant):
            return constant(cast(before.data.numpy(), dtype)) if before.data.dtype == OWN else before
        if isinstance(before, Var) and before in made:
            return made[before]
        if isinstance(after, Call):
            return Call(after.op, after.args, _attributes(after.attrs, dtype), None, after.span)
        return after

    return rewrite(expr, over, dataflow_children), {made[var]: array for var, array in arrays.items()}


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """*array* in *dtype* where it is float32, else as it is."""
    return array.astype(numpy_dtype(dtype)) if array.dtype == OWN else array


def in_dtype(sample: Sample, inputs: Sequence[object], dtype: str) -> Sample:
    """*sample* on its *inputs*, those of float32 in *dtype*."""
    changed = [
        [cast(np.asarray(a), dtype) for a in item] if isinstance(item, list) else cast(np.asarray(item), dtype)
        for item in inputs
    ]
    attrs = {name: dtype if value == OWN else value for name, value in sample.attrs.items()}
    return replace(sample, inputs=changed, attrs=attrs)


def is_known(dtype: str) -> bool:
    """Whether numpy knows the type here: bfloat16 needs a package."""
    try:
        numpy_dtype(dtype)
    except ByocError:
        return False
    return True


def _attributes(attrs: Attrs | None, dtype: str) -> Attrs | None:
    """*attrs* where those that name float32 name *dtype*."""
    if attrs is None:
        return None
    changed = {f.name: dtype for f in fields(attrs) if getattr(attrs, f.name) == OWN}
    return replace(attrs, **changed) if changed else attrs
