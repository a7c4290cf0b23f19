"""The ``onnxruntime`` backend: regions through ONNX Runtime, in its processor's kernels and with its own fusions.

An integration of a whole-graph library: what can be written as ONNX and has a kernel there is taken, neighbours become
one region, and the region is one model, which the library optimizes by itself.
"""

from __future__ import annotations

from byoc.contract import EVERY, NAN_LOST, constraint, register_backend
from byoc.contrib.onnx_backend import OnnxBackend, opened_by, written_as_onnx
from byoc.contrib.onnxruntime_module import OnnxRuntimeModule
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call


@constraint("dtype", of=EVERY)
def known_to_numpy(call: Call) -> str | None:
    """numbers of numpy's own dtypes: what ONNX Runtime takes from Python"""
    dtypes = dict.fromkeys(t.dtype for value in (call, *call.args) for t in tensor_types(value.checked_type))
    return next((dtype for dtype in dtypes if dtype in ("bfloat16", "string") or dtype.startswith("float8")), None)


@constraint("dtype", of=("sum", "mean"))
def adds_in_float64(call: Call) -> str | None:
    """sums and means of other numbers than int64, which ONNX Runtime adds in float64"""
    return next((t.dtype for arg in call.args for t in tensor_types(arg.checked_type) if t.dtype == "int64"), None)


@register_backend
class OnnxRuntimeBackend(OnnxBackend):
    """Regions as models of ONNX Runtime."""

    name = "onnxruntime"
    module = OnnxRuntimeModule
    deviations = (NAN_LOST,)  # its maxima, minima and max pools compare, so that a NaN may lose
    constraints = (
        known_to_numpy,
        adds_in_float64,
        written_as_onnx,
        opened_by(OnnxRuntimeModule, "what ONNX Runtime has a kernel for"),
    )

    def unavailable(self) -> str | None:
        return OnnxRuntimeModule({}, []).unavailable()
