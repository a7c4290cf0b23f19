"""byoc as a backend of ONNX's Python interface: ``prepare``, ``run_model``, ``run_node``, by which ONNX's own test
suite runs every compiler and runtime alike.

    backend_test = onnx.backend.test.BackendTest(byoc.onnx_backend, __name__)

``python -m byoc.onnx_backend.conformance`` runs that suite and prints a table by operator. Source: the interface is
that of ``onnx.backend.base``.
"""

from byoc.onnx_backend.backend import DEVICES, ByocBackend, ModelRefusedError, PreparedModel

is_compatible = ByocBackend.is_compatible
prepare = ByocBackend.prepare
run_model = ByocBackend.run_model
run_node = ByocBackend.run_node
supports_device = ByocBackend.supports_device

__all__ = [
    "DEVICES",
    "ByocBackend",
    "ModelRefusedError",
    "PreparedModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
