"""What this build has, in TVM's terms. Source: ``tvm.support``."""

from __future__ import annotations

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.errors import CompilerNotFoundError


class BuildOptions(dict[str, str]):
    """TVM's build options: each that is asked for and not here is ``OFF``."""

    def __missing__(self, name: str) -> str:
        return "OFF"


def libinfo() -> BuildOptions:
    """The build options: code that asks for one which is ``OFF`` skips what needs it. Source: ``tvm.support.libinfo``.

    ``USE_MICRO`` is ``ON`` where there is a C compiler: ahead-of-time C is generated, built and run by
    ``tvm.testing.aot``. Projects for boards (``tvm.micro.project``) are below the graph and say so when they are used.
    """
    names = ("USE_CUDA", "USE_LLVM", "USE_OPENCL", "USE_RPC")
    micro = "ON" if _has_compiler() else "OFF"
    return BuildOptions({"TVM_VERSION": "0.18.0", "USE_MICRO": micro, **dict.fromkeys(names, "OFF")})


def _has_compiler() -> bool:
    try:
        find_compiler()
    except CompilerNotFoundError:
        return False
    return True
