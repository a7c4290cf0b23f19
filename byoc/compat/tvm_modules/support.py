"""What this build has, in TVM's terms: nothing of TVM's options. Source: ``tvm.support``."""

from __future__ import annotations

_OPTIONS = ("USE_LLVM", "USE_CUDA", "USE_OPENCL", "USE_MICRO", "USE_DNNL_CODEGEN", "USE_TENSORRT_RUNTIME", "USE_RPC")


def libinfo() -> dict[str, str]:
    """TVM's build options, each ``OFF``: code that asks for one skips what needs it."""
    return {"TVM_VERSION": "0.18.0", **dict.fromkeys(_OPTIONS, "OFF")}
