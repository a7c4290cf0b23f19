"""The ``openvino`` backend: regions through OpenVINO on the processor, in float32."""

from __future__ import annotations

from byoc.contract import EVERY, NAN_LOST, constraint, register_backend
from byoc.contrib.onnx_backend import OnnxBackend, opened_by, written_as_onnx
from byoc.contrib.openvino_module import OpenVinoModule
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call


@constraint("dtype", of=EVERY)
def float32_alone(call: Call) -> str | None:
    """float32 alone: OpenVINO computes float64 and int64 in narrower numbers"""
    dtypes = dict.fromkeys(t.dtype for value in (call, *call.args) for t in tensor_types(value.checked_type))
    return None if tuple(dtypes) == ("float32",) else ", ".join(dtypes)


@constraint("empty", of=EVERY)
def not_empty(call: Call) -> str | None:
    """tensors with at least one dimension and one element"""
    types = [t for value in (call, *call.args) for t in tensor_types(value.checked_type)]
    return next((str(t) for t in types if not t.shape or 0 in t.shape), None)


@register_backend
class OpenVinoBackend(OnnxBackend):
    """Regions as models of OpenVINO."""

    name = "openvino"
    module = OpenVinoModule
    deviations = (NAN_LOST,)  # its kernels take minima as the processor does, which gives the other operand
    constraints = (float32_alone, not_empty, written_as_onnx, opened_by(OpenVinoModule, "what OpenVINO compiles"))

    def unavailable(self) -> str | None:
        return OpenVinoModule({}, []).unavailable()
