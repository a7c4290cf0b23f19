"""Constant operands of matrix units with their terms side by side: a chunk of them is one load then.

The weights of a convolution have the positions of its window last; a step goes over channels.
"""

from __future__ import annotations

import numpy as np

from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.products.candidates import format_of
from byoc.codegen.opencl.products.matrix_terms import SINGLE, Terms
from byoc.codegen.opencl.products.shape import tiled_product
from byoc.codegen.opencl.products.weights import ProgramWeights
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes


def terms_last(program: Program, profile: DeviceProfile) -> Program:
    """*program* over such constants, where a product of it is one of matrix units on a device of *profile*."""
    if not profile.matrix_units:
        return program
    weights, simplify = ProgramWeights(program), Simplifier()

    def change(_: Tensor, stage: Tensor) -> list[Tensor]:
        inner = _inner(stage, profile, simplify)
        return [stage if inner is None else with_body(stage, _moved(stage, inner, weights))]

    return weights.of(with_stages(program, change))


def _inner(stage: Tensor, profile: DeviceProfile, simplify: Simplifier) -> Index | None:
    """The axis along which steps go over the terms of *stage*; None where it is no product of matrix units."""
    p = tiled_product(stage, simplify)
    format = None if p is None else format_of(p, profile)
    if p is None or format is None:
        return None
    terms = Terms.of(p.reduce.axes, format, format.chunk, simplify)
    return None if terms.kind == SINGLE else terms.inner


def _moved(stage: Tensor, inner: Index, weights: ProgramWeights) -> PrimExpr:
    """The element of *stage* over constants whose last axis is the one that *inner* alone is the index of."""

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or expr.tensor not in weights:
            return None
        at = [k for k, i in enumerate(expr.indices) if i is inner]
        behind = [k for k in range(at[0] + 1, len(expr.indices))] if len(at) == 1 else []
        if not any(expr.tensor.shape[k] != 1 for k in behind) or _occurs(expr, inner) != 1:
            return None
        (axis,) = at
        source = expr.tensor
        made = weights.made(
            f"{weights.names[source]}_axis_{axis}_last",
            source,
            lambda: np.moveaxis(weights.arrays[source].numpy(), axis, -1),
        )
        return expr.of(made, [*(i for k, i in enumerate(expr.indices) if k != axis), inner])

    return map_expr(stage.element, leaf)


def _occurs(load: Load, inner: Index) -> int:
    """In how many indices of *load* the axis is."""
    return sum(any(n is inner for n in unique_nodes(i)) for i in load.indices)
