"""The composites of the OpenCL backend: a heavy operator with its bias and its activation, one kernel each."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from byoc.contract.backend import PatternEntry
from byoc.ir.op import OPS
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.dataflow_pattern.patterns import DFPattern

ACTIVATIONS = sorted(name for name in OPS if OPS[name].traits.activation)
HEAVY = (("conv2d", "nn.conv2d"), ("dense", "nn.dense"))


def _biased(value: DFPattern) -> DFPattern:
    bias = is_constant()
    return is_op("nn.bias_add")(value, bias) | is_op("add")(value, bias) | is_op("add")(bias, value)


def _activated(value: DFPattern) -> DFPattern:
    first: DFPattern
    first, *others = (is_op(name)(value) for name in ACTIVATIONS)
    for other in others:
        first = first | other
    return first


@functools.cache
def pattern_table() -> Sequence[PatternEntry]:
    """The longest first: with bias and activation, with one of them."""
    entries: list[PatternEntry] = []
    for name, op in HEAVY:
        entries += [
            PatternEntry(f"opencl.{name}_bias_act", _activated(_biased(is_op(op)(wildcard(), wildcard())))),
            PatternEntry(f"opencl.{name}_bias", _biased(is_op(op)(wildcard(), wildcard()))),
            PatternEntry(f"opencl.{name}_act", _activated(is_op(op)(wildcard(), wildcard()))),
        ]
    return tuple(entries)
