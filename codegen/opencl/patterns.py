"""The composites of the OpenCL backend: a heavy operator with its bias and its activation, one kernel each."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from byoc.contract.backend import PatternEntry
from byoc.ir.op import OPS, Op
from byoc.ir.traits import ProductForm
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.dataflow_pattern.patterns import DFPattern
from byoc.relay.op.nn.activation import BIAS_OPERATORS

ACTIVATIONS = sorted(name for name in OPS if OPS[name].traits.activation)


def _is_heavy(op: Op) -> bool:
    """Whether an operator is a dense product or a convolution of images, of floats."""
    traits = op.traits
    of_images = traits.product is ProductForm.CONVOLUTION and "NCHW" in traits.kernel_layouts
    return (of_images or traits.product is ProductForm.DENSE) and not traits.quantized


HEAVY = sorted(name for name in OPS if _is_heavy(OPS[name]))


def _biased(value: DFPattern) -> DFPattern:
    bias = is_constant()
    behind = [is_op(name)(value, bias) for name in BIAS_OPERATORS]
    return _one_of([*behind, is_op("add")(bias, value)])


def _activated(value: DFPattern) -> DFPattern:
    return _one_of([is_op(name)(value) for name in ACTIVATIONS])


def _one_of(patterns: Sequence[DFPattern]) -> DFPattern:
    return functools.reduce(operator.or_, patterns)


@functools.cache
def pattern_table() -> Sequence[PatternEntry]:
    """The longest first: with bias and activation, with one of them."""
    entries: list[PatternEntry] = []
    for op in HEAVY:
        name = op.removeprefix("nn.")
        entries += [
            PatternEntry(f"opencl.{name}_bias_act", _activated(_biased(is_op(op)(wildcard(), wildcard())))),
            PatternEntry(f"opencl.{name}_bias", _biased(is_op(op)(wildcard(), wildcard()))),
            PatternEntry(f"opencl.{name}_act", _activated(is_op(op)(wildcard(), wildcard()))),
        ]
    return tuple(entries)
