"""The ``blas`` backend: matrix products by a library of kernels, called from a JSON graph.

An example of the shortest way to bring a kernel library: a table of kernels in the convention of
``byoc.runtime.kernels`` (``blas_kernels.py``), a pattern table that names what the library fuses, and constraints.
numpy's BLAS plays the library. Both halves are found by entry points, as those of an installed package would be: this
one in the group ``byoc.backends``, the kernels in ``byoc.runtime``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import EVERY, PatternEntry, callee_name, constraint, register_backend
from byoc.contrib.blas_kernels import TABLE
from byoc.contrib.endings import biased
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call
from byoc.relay.op.nn.activation import BiasAddAttrs


@constraint("operator")
def in_the_library(call: Call) -> str | None:
    """the library has dense layers (with bias, with bias and relu) and batched products"""
    return None if callee_name(call) in TABLE else callee_name(call)


@constraint("dtype", of=EVERY)
def floats(call: Call) -> str | None:
    """float32 or float64, the same for all tensors"""
    dtypes = dict.fromkeys(t.dtype for value in (call, *call.args) for t in tensor_types(value.checked_type))
    return None if tuple(dtypes) in (("float32",), ("float64",)) else ", ".join(dtypes)


@constraint("axis", of="nn.bias_add")
def bias_of_columns(call: Call) -> str | None:
    """a bias along the last axis"""
    assert isinstance(call.attrs, BiasAddAttrs)
    axis, ndim = call.attrs.axis, len(tensor_types(call.checked_type)[0].shape)
    return None if axis in (-1, ndim - 1) else f"axis {axis} of {ndim}"


@register_backend
class BlasBackend(JsonBackend):
    """Matrix products by a BLAS, called from a JSON graph."""

    name = "blas"
    table = "blas"
    constraints = (in_the_library, floats)

    def patterns(self) -> Sequence[PatternEntry]:
        """A dense layer with its bias, and with a relu after it."""
        product = is_op("nn.dense")(wildcard(), wildcard())
        bias = biased(product, wildcard())
        return [
            PatternEntry("blas.dense_bias_relu", is_op("nn.relu")(bias), [bias_of_columns]),
            PatternEntry("blas.dense_bias", bias, [bias_of_columns]),
        ]
