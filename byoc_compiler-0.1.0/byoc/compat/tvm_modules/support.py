"""What this build has, in TVM's terms: nothing of TVM's options. Source: ``tvm.support``."""

from __future__ import annotations


class BuildOptions(dict[str, str]):
    """TVM's build options: each that is asked for is ``OFF``."""

    def __missing__(self, name: str) -> str:
        return "OFF"


def libinfo() -> BuildOptions:
    """The build options, all ``OFF``: code that asks for one skips what needs it. Source: ``tvm.support.libinfo``."""
    names = ("USE_CUDA", "USE_LLVM", "USE_MICRO", "USE_OPENCL", "USE_RPC")
    return BuildOptions({"TVM_VERSION": "0.18.0", **dict.fromkeys(names, "OFF")})
